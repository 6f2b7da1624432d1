package app

import (
	"cmp"
	"context"
	"fmt"

	"go.uber.org/fx"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/tools/builtin"
	"github.com/keel-agent/keel/adapters/tools/workspace"
	"github.com/keel-agent/keel/app/compaction"
	"github.com/keel-agent/keel/app/models"
	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/app/secrets"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// One fx.Module per adapter: to add one is a folder under adapters and a line here, in stores.go or in providers.go.

var systemModule = fx.Module("system",
	fx.Provide(
		func() ports.Clock { return systemClock{} },
		func() ports.IDs { return uuids{} },
		func() *fanout { return new(fanout) },
	),
)

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
