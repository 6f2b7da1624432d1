package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/nats"
	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/ports"
)

// processBus carries wake-ups and partials between processes.
type processBus interface {
	ports.Notifier
	ports.Wakeups
	Partials() ports.Partials
	Close()
}

// openBus opens the bus of the processes on one Postgres. None waits for its server.
func openBus(ctx context.Context, c Config, log *zap.Logger) (processBus, error) {
	if c.Bus == "" {
		return postgres.OpenBus(postgres.BusConfig{URL: c.directURL(), Logger: log.Named("postgres")})
	}
	scope, err := postgres.Identity(ctx, c.Store)
	if err != nil {
		return nil, err
	}
	b, err := nats.Open(nats.Config{URL: c.Bus, Credentials: c.BusCreds, Scope: scope, Logger: log.Named("nats")})
	if err != nil {
		return nil, fmt.Errorf("--bus: %w", err)
	}
	return b, nil
}

// busSchemes are those of the addresses of NATS servers.
var busSchemes = []string{"nats", "tls", "ws", "wss"}

// validateBus names no address: it may hold a password.
func (c Config) validateBus() error {
	if c.Bus == "" {
		if c.BusCreds != "" {
			return errors.New("--bus-creds: there is no --bus to present them to")
		}
		return nil
	}
	for address := range strings.SplitSeq(c.Bus, ",") {
		u, err := url.Parse(strings.TrimSpace(address))
		if err != nil || !slices.Contains(busSchemes, u.Scheme) || u.Hostname() == "" {
			return errors.New("--bus: want nats://HOST:PORT (or tls, ws, wss), several separated by commas")
		}
	}
	if kind, _, err := c.storeScheme(); err == nil && kind != storePostgres {
		return fmt.Errorf("--bus is for several processes on one Postgres, and --store is %s, which one process has for itself", kind)
	}
	return nil
}
