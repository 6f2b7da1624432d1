package main

import (
	"context"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/bus"
	"github.com/keel-agent/keel/app/compaction"
	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// stubProvider answers at once.
type stubProvider struct {
	// answer makes the reply; nil means one call of the stub tool for an input and a last answer for its result.
	answer func(req ports.ModelRequest) ports.Reply
}

var _ ports.Provider = stubProvider{}

func (stubProvider) Name() string { return "stub" }

func (stubProvider) Models(context.Context, ports.Confidential) ([]ports.Model, error) {
	return nil, nil
}

func (p stubProvider) Generate(_ context.Context, req ports.ModelRequest, _ func(ports.Delta)) (ports.Reply, error) {
	if p.answer != nil {
		return p.answer(req), nil
	}
	if n := len(req.Messages); n > 0 && req.Messages[n-1].Role == domain.RoleTool {
		return lastAnswer(), nil
	}
	return toolCall(), nil
}

// stubText makes events of about one kibibyte.
var stubText = domain.Block{Type: domain.TextBlock, Text: filler[:kibibyte-200]}

func lastAnswer() ports.Reply {
	return ports.Reply{Content: []domain.Block{stubText}, StopReason: domain.StopEndTurn, Model: "stub"}
}

func toolCall() ports.Reply {
	call := domain.Block{Type: domain.CallBlock, Name: stubTool, Arguments: `{}`}
	return ports.Reply{Content: []domain.Block{stubText, call}, StopReason: domain.StopToolUse, Model: "stub"}
}

// stubTool is the one tool that sessions of the benchmark have.
const stubTool = "stub"

// stubTools returns its result at once.
type stubTools struct{}

var _ ports.Tools = stubTools{}

func (stubTools) Specs() []ports.ToolSpec {
	return []ports.ToolSpec{{Name: stubTool, Schema: `{"type":"object"}`, ReplaySafe: true}}
}

func (stubTools) Execute(context.Context, ports.ToolInvocation) (ports.ToolOutput, error) {
	return ports.ToolOutput{Content: []domain.Block{stubText}}, nil
}

type clock struct{}

func (clock) Now() time.Time { return time.Now() }

type ids struct{}

func (ids) New() string     { return newID() }
func (ids) Jitter() float64 { return rand.Float64() }

// stubModels has one model, whose window is as large as any backend's.
type stubModels struct{ p ports.Provider }

func (m stubModels) Resolve(context.Context, string, string) (domain.Model, domain.ModelDefaults, error) {
	return domain.Model{Provider: m.p.Name(), ContextWindow: 200_000}, domain.ModelDefaults{}, nil
}

// startRunner starts a runner on the rig's store. stop ends it.
func (r *rig) startRunner(ctx context.Context, p ports.Provider, cfg runner.Config) (stop func(), err error) {
	providers, err := runner.NewProviders(p)
	if err != nil {
		return nil, err
	}
	run := runner.New(runner.Deps{
		Ledger: r.ledger, Runs: r.runs, Processes: r.processes, Wakeups: r.wakeups, Partials: new(bus.Partials),
		Providers: providers, Models: stubModels{p}, Tools: []ports.Tools{stubTools{}},
		Compactor: compaction.New(compaction.Config{At: 0.8}), Clock: clock{}, IDs: ids{}, Log: zap.NewNop(),
	}, cfg)
	if r.told != nil {
		r.told.to.Store(run)
	}
	if err := run.Start(ctx); err != nil {
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = run.Drain(ctx)
	}, nil
}

// finishes tells of runs that ended, by session. It is a ports.Notifier; sessions are added before it is told anything.
type finishes map[string]chan struct{}

func newFinishes(refs []domain.SessionRef) finishes {
	f := finishes{}
	for _, ref := range refs {
		f[ref.Session] = make(chan struct{}, 1)
	}
	return f
}

func (f finishes) Committed(c ports.Commit) {
	ended, ok := f[c.Ref.Session]
	if !ok {
		return
	}
	for _, e := range c.Events {
		if e.Kind == domain.RunFinished {
			ended <- struct{}{}
		}
	}
}

// await waits for the end of the session's run.
func (f finishes) await(ctx context.Context, ref domain.SessionRef) error {
	select {
	case <-f[ref.Session]:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(30 * time.Second):
		return errStuck
	}
}
