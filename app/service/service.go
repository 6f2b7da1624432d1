// Package service is what the HTTP side may ask for. It turns requests into commands of the ledger, mints ids and
// times, and reads what clients see. It decides no rule of the ledger: domain does.
package service

import (
	"context"
	"errors"
	"time"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Deps is what a Service needs. All ports are required, but Models, Tools and Secrets.
type Deps struct {
	Ledger   ports.Ledger
	Sessions ports.Sessions
	Runs     ports.Runs
	Clock    ports.Clock
	IDs      ports.IDs
	Models   Models        // nil: any model may be chosen, and there are no settings of models
	Tools    []ports.Tools // what sessions may choose from; none: any name
	Secrets  Secrets       // nil: there is no key to seal them with

	MaxPayload int             // bytes of an event's payload; 0 means domain.DefaultMaxPayload
	Features   map[string]bool // features of protocol.md §9 that this deployment has beside the service's own
	Hooks      []string        // hook names that this deployment fires
}

// Service answers the requests of clients. Its methods are safe for concurrent use and return the errors of domain
// and ports.
type Service struct {
	ledger     ports.Ledger
	sessions   ports.Sessions
	runs       ports.Runs
	clock      ports.Clock
	ids        ports.IDs
	models     Models
	tools      []ports.Tools
	secrets    Secrets
	maxPayload int
	features   map[string]bool
	hooks      []string
	usage      usageSums
}

// New returns a service.
func New(d Deps) *Service {
	if d.MaxPayload <= 0 {
		d.MaxPayload = domain.DefaultMaxPayload
	}
	return &Service{
		ledger: d.Ledger, sessions: d.Sessions, runs: d.Runs, clock: d.Clock, ids: d.IDs, maxPayload: d.MaxPayload,
		models: d.Models, tools: d.Tools, secrets: d.Secrets, features: featureSet(d), hooks: append([]string{}, d.Hooks...),
	}
}

func (s *Service) now() time.Time { return domain.Millis(s.clock.Now()) }

// Ready returns nil when the store answers.
func (s *Service) Ready(ctx context.Context) error {
	_, _, err := s.sessions.Get(ctx, domain.SessionRef{Tenant: "default", Session: "ready"})
	if errors.Is(err, domain.ErrNotFound) {
		return nil
	}
	return err
}
