package app

import (
	"strings"

	"go.uber.org/fx"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/httpapi"
	"github.com/keel-agent/keel/adapters/sse"
	"github.com/keel-agent/keel/app/models"
	"github.com/keel-agent/keel/app/secrets"
	"github.com/keel-agent/keel/app/service"
	"github.com/keel-agent/keel/ports"
)

var apiModule = fx.Module("api", fx.Provide(newService, newStreams, newAuthenticator, newServer))

type serviceDeps struct {
	fx.In

	Config   Config
	Ledger   ports.Ledger
	Sessions ports.Sessions
	Runs     ports.Runs
	Models   *models.Catalogues
	Tools    []ports.Tools `group:"tools"`
	Vault    *secrets.Vault
	Clock    ports.Clock
	IDs      ports.IDs
}

func newService(d serviceDeps) *service.Service {
	var vault service.Secrets
	if d.Vault != nil {
		vault = d.Vault
	}
	return service.New(service.Deps{
		Ledger: d.Ledger, Sessions: d.Sessions, Runs: d.Runs, Clock: d.Clock, IDs: d.IDs, Models: d.Models, Tools: d.Tools, Secrets: vault,
		MaxPayload: d.Config.MaxPayload, Features: map[string]bool{"partials": true},
	})
}

// streamLedger is what the streams' hub reads.
type streamLedger struct {
	ports.Ledger
	ports.Sessions
}

type streamDeps struct {
	fx.In

	Service   *service.Service
	Ledger    ports.Ledger
	Sessions  ports.Sessions
	Wakeups   ports.Wakeups
	Partials  ports.Partials
	Drainer   *drainer
	IDs       ports.IDs
	Notifiers *fanout
	Lifecycle fx.Lifecycle
	Log       *zap.Logger
}

func newStreams(d streamDeps) *sse.Handler {
	hub := sse.NewHub(sse.HubConfig{
		Cursors: d.Service, Ledger: streamLedger{d.Ledger, d.Sessions}, Wakeups: d.Wakeups, Log: d.Log.Named("sse"),
	})
	d.Notifiers.add(hub)
	d.Lifecycle.Append(fx.StopHook(hub.Close))
	return sse.New(sse.Config{
		Source: hub, Partials: d.Partials, Draining: d.Drainer.ready, Drain: d.Drainer.streams, Jitter: d.IDs.Jitter, Log: d.Log,
	})
}

func newAuthenticator(c Config, log *zap.Logger) (httpapi.Authenticator, error) {
	if path, ok := strings.CutPrefix(c.Auth, authTokens); ok {
		warnOfExposed(log, "the tokens of --auth", path)
	}
	return c.authenticator()
}
