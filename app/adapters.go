package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/fx"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/bus"
	"github.com/keel-agent/keel/adapters/httpapi"
	"github.com/keel-agent/keel/adapters/memory"
	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/sqlite"
	"github.com/keel-agent/keel/adapters/sse"
	"github.com/keel-agent/keel/adapters/tools/builtin"
	"github.com/keel-agent/keel/adapters/tools/workspace"
	"github.com/keel-agent/keel/app/compaction"
	"github.com/keel-agent/keel/app/models"
	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/app/secrets"
	"github.com/keel-agent/keel/app/service"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// One fx.Module per adapter: to add one is a folder under adapters and a line here.

var systemModule = fx.Module("system",
	fx.Provide(
		func() ports.Clock { return systemClock{} },
		func() ports.IDs { return uuids{} },
		func() *fanout { return new(fanout) },
	),
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

// toolSet provides a set of tools.
func toolSet(constructor any) fx.Option {
	return fx.Provide(fx.Annotate(constructor, fx.ResultTags(`group:"tools"`)))
}

// toolsModule has the sets of tools that are enabled.
func toolsModule(c Config) fx.Option {
	sets := []fx.Option{toolSet(func(c ports.Clock) ports.Tools { return builtin.New(c) })}
	if c.Workspace != "" {
		sets = append(sets, toolSet(newWorkspace))
	}
	if c.HTTPTools != "" {
		sets = append(sets, toolSet(newHTTPTools))
	}
	if c.MCP != "" {
		sets = append(sets, toolSet(newMCPTools))
	}
	return fx.Module("tools", sets...)
}

func newWorkspace(c Config, lc fx.Lifecycle, log *zap.Logger) (ports.Tools, error) {
	tools, err := workspace.New(workspace.Config{Dir: c.Workspace, Bash: c.Bash, BashNetwork: c.BashNetwork})
	if err != nil {
		return nil, fmt.Errorf("--workspace %s, --bash %s: %w", c.Workspace, cmp.Or(c.Bash, workspace.BashOff), err)
	}
	lc.Append(fx.StopHook(tools.Close))
	if s := tools.Sandbox(); s != "" {
		log.Info("sessions may run commands", zap.String("sandbox", s), zap.String("workspaces", c.Workspace))
	}
	return tools, nil
}

var runnerModule = fx.Module("runner", fx.Provide(newRunner, newCompactor))

func newCompactor(c Config) ports.Compactor {
	return compaction.New(compaction.Config{At: c.CompactAt, Keep: c.CompactKeep})
}

// turnModels are the catalogues as turns see them, who go by what providers list of their models: those of a process that
// has only just started wait for the lists.
type turnModels struct{ *models.Catalogues }

func (m turnModels) Resolve(ctx context.Context, tenant, model string) (domain.Model, domain.ModelDefaults, error) {
	m.Listed(ctx)
	return m.Catalogues.Resolve(ctx, tenant, model)
}

type runnerDeps struct {
	fx.In

	Config    Config
	Ledger    ports.Ledger
	Runs      ports.Runs
	Processes ports.Processes
	Wakeups   ports.Wakeups
	Partials  ports.Partials
	Providers *runner.Providers
	Models    *models.Catalogues
	Vault     *secrets.Vault
	Tools     []ports.Tools `group:"tools"`
	Compactor ports.Compactor
	Clock     ports.Clock
	IDs       ports.IDs
	Notifiers *fanout
	Log       *zap.Logger
}

func newRunner(d runnerDeps) (*runner.Runner, error) {
	if err := distinctTools(d.Tools); err != nil {
		return nil, err
	}
	store, _, err := d.Config.storeScheme()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range d.Providers.All() {
		names = append(names, p.Name())
	}
	model := zap.Skip() // the default follows from lists that are not read yet
	if d.Config.Model != "" {
		model = zap.String("model", d.Config.Model)
	}
	d.Log.Info("set up", zap.String("store", store), zap.Strings("providers", names), model)
	var credentials runner.Credentials
	if d.Vault != nil {
		credentials = d.Vault
	}
	r := runner.New(runner.Deps{
		Ledger: d.Ledger, Runs: d.Runs, Processes: d.Processes, Wakeups: d.Wakeups, Partials: d.Partials,
		Providers: d.Providers, Models: turnModels{d.Models}, Credentials: credentials, Tools: d.Tools,
		Compactor: d.Compactor, Clock: d.Clock, IDs: d.IDs, Log: d.Log.Named("runner"),
	}, runner.Config{
		Address: d.Config.Listen, Workers: d.Config.Workers, LeaseTTL: d.Config.LeaseTTL, Heartbeat: d.Config.Heartbeat,
		Budget: d.Config.Budget, MaxTurns: d.Config.MaxTurns, MaxBytes: d.Config.MaxPayload, SummaryModel: d.Config.CompactModel,
	})
	d.Notifiers.add(r)
	return r, nil
}

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
