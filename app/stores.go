package app

import (
	"context"
	"errors"
	"time"

	"go.uber.org/fx"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/bus"
	"github.com/keel-agent/keel/adapters/memory"
	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/sqlite"
	"github.com/keel-agent/keel/ports"
)

// store is every port that a store adapter fills.
type store struct {
	fx.Out

	Ledger    ports.Ledger
	Sessions  ports.Sessions
	Runs      ports.Runs
	Processes ports.Processes
	Settings  ports.Settings
	Secrets   ports.Secrets
	Wakeups   ports.Wakeups
	Partials  ports.Partials
}

func storeModule(c Config) fx.Option {
	kind, _, err := c.storeScheme()
	if err != nil {
		return fx.Error(err)
	}
	open := map[string]any{storeMemory: openMemory, storeSQLite: openSQLite, storePostgres: openPostgres}[kind]
	return fx.Module(kind, fx.Provide(open))
}

func openMemory(f *fanout) store {
	hub := new(bus.Hub)
	f.add(hub)
	s := memory.New(memory.Config{Notifier: f})
	return store{
		Ledger: s, Sessions: s.Sessions(), Runs: s.Runs(), Processes: s.Processes(), Settings: s.Settings(), Secrets: s.Secrets(), Wakeups: hub, Partials: new(bus.Partials),
	}
}

const openTimeout = time.Minute

// opening says how long a store may be waited for that another process serves, and who is told of the waiting.
type opening struct {
	ctx     context.Context
	wait    time.Duration
	waiting func() // may be nil
}

func openSQLite(c Config, o opening, f *fanout, lc fx.Lifecycle, log *zap.Logger) (store, error) {
	_, path, err := c.storeScheme()
	if err != nil {
		return store{}, err
	}
	hub := new(bus.Hub)
	f.add(hub)
	s, err := unlocked(o, log, func(ctx context.Context) (*sqlite.Store, error) {
		ctx, cancel := context.WithTimeout(ctx, openTimeout)
		defer cancel()
		schema, err := sqlite.Migrate(ctx, path)
		if err != nil {
			return nil, err
		}
		warnOfNewer(schema, log)
		return sqlite.Open(ctx, sqlite.Config{Path: path, Notifier: f, Logger: log.Named("sqlite")})
	})
	if err != nil {
		return store{}, err
	}
	lc.Append(fx.StopHook(s.Close))
	return store{
		Ledger: s, Sessions: s.Sessions(), Runs: s.Runs(), Processes: s.Processes(), Settings: s.Settings(), Secrets: s.Secrets(), Wakeups: hub, Partials: new(bus.Partials),
	}, nil
}

// errInterrupted is returned when waiting for the store was ended from outside.
var errInterrupted = errors.New("interrupted while another process serves the store")

// lockPoll is the time between two looks at a lock.
const lockPoll = 20 * time.Millisecond

// unlocked calls open until no other process serves the database.
func unlocked(o opening, log *zap.Logger, open func(context.Context) (*sqlite.Store, error)) (*sqlite.Store, error) {
	var tried time.Time
	for {
		s, err := open(o.ctx)
		first := tried.IsZero()
		if first {
			tried = time.Now()
		}
		if !errors.Is(err, sqlite.ErrLocked) || time.Since(tried) >= o.wait {
			return s, err
		}
		if first {
			log.Info("another process serves the store, waiting", zap.Duration("at most", o.wait))
			if o.waiting != nil {
				o.waiting()
			}
		}
		select {
		case <-time.After(lockPoll):
		case <-o.ctx.Done():
			return nil, errInterrupted
		}
	}
}

func openPostgres(c Config, f *fanout, lc fx.Lifecycle, log *zap.Logger) (store, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	schema, err := postgres.Migrate(ctx, c.directURL())
	if err != nil {
		return store{}, err
	}
	warnOfNewer(schema, log)
	across, err := openBus(ctx, c, log)
	if err != nil {
		return store{}, err
	}
	f.add(across)
	s, err := postgres.Open(ctx, postgres.Config{
		URL: c.Store, MaxConns: c.maxConns(), AllowUnsafe: c.AllowUnsafePostgres, Notifier: f,
		Logger: log.Named("postgres"),
	})
	if err != nil {
		across.Close()
		return store{}, err
	}
	lc.Append(fx.StopHook(func() { across.Close(); s.Close() }))
	return store{
		Ledger: s, Sessions: s.Sessions(), Runs: s.Runs(), Processes: s.Processes(), Settings: s.Settings(), Secrets: s.Secrets(), Wakeups: across, Partials: across.Partials(),
	}, nil
}
