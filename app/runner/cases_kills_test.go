package runner_test

import (
	"context"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// effects are the test tools with a hook behind the effect of a call; all of them may run again, or none.
type effects struct {
	*testTools
	replaySafe bool
	after      func(name string)
}

func (e effects) Specs() []ports.ToolSpec {
	return []ports.ToolSpec{{Name: "count", ReplaySafe: e.replaySafe}, {Name: "slow", ReplaySafe: e.replaySafe}}
}

func (e effects) Load(context.Context, string, []string) []ports.ToolSpec { return e.Specs() }

func (e effects) Execute(ctx context.Context, c ports.ToolInvocation) (ports.ToolOutput, error) {
	out, err := e.testTools.Execute(ctx, c)
	if c.Name == "count" && e.after != nil {
		e.after(c.Name)
	}
	return out, err
}

// startWith starts a process that has only these tools.
func (w *world) startWith(tools ports.Tools) *node {
	w.t.Helper()
	providers, err := runner.NewProviders(w.provider)
	require.NoError(w.t, err)
	l := &line{store: w.store}
	n := &node{w: w, line: l, Runner: runner.New(runner.Deps{
		Ledger: l, Runs: lineRuns{l, w.store.Runs()}, Processes: lineProcesses{l, w.store.Processes()},
		Wakeups: w.hub, Partials: w.partials, Providers: providers, Tools: []ports.Tools{tools},
		Clock: clock{}, IDs: w.ids, Log: zap.NewNop(),
	}, runner.Config{Workers: 4})}
	require.NoError(w.t, n.Start(context.Background()))
	w.nodes = append(w.nodes, n)
	synctest.Wait()
	return n
}

// turns is how many requests the last attempt made.
var turns = regexp.MustCompile(`turns=[12]`)

const (
	saidCount   = "result count {}"
	saidSlow    = `result slow {"s":30}`
	saidUnknown = "result The call was interrupted and may have had effects; its outcome is unknown. (error) (interrupted)"
)

// K25: a process dies at each point around two calls. What was committed never runs again; what was not runs
// again where its tool allows that, and is answered by a stand-in where not.
func TestK25KilledAtEachPoint(t *testing.T) {
	type point struct {
		arm      func(w *world, n *node, tools *effects)
		results  [2][2]string // for tools that may not run again, and for those that may
		effects  [2][2]int    // of count and slow
		requests int
	}
	for name, p := range map[string]point{
		"before c1 starts": {
			arm: func(_ *world, n *node, _ *effects) {
				n.dies(func(c domain.Command) bool { _, is := c.(domain.AppendAssistant); return is })
			},
			results: [2][2]string{{saidUnknown, saidUnknown}, {saidCount, saidSlow}}, effects: [2][2]int{{0, 0}, {1, 1}}, requests: 2,
		},
		"after the effect of c1": {
			arm: func(_ *world, n *node, tools *effects) {
				var once atomic.Bool
				tools.after = func(string) {
					if once.CompareAndSwap(false, true) {
						time.Sleep(time.Second) // c2 has begun
						n.line.setCut(true)
					}
				}
			},
			results: [2][2]string{{saidUnknown, saidUnknown}, {saidCount, saidSlow}}, effects: [2][2]int{{1, 1}, {2, 2}}, requests: 2,
		},
		"after the commit of c1": {
			arm: func(_ *world, n *node, _ *effects) {
				n.dies(func(c domain.Command) bool { _, is := c.(domain.AppendToolResult); return is })
			},
			results: [2][2]string{{saidCount, saidUnknown}, {saidCount, saidSlow}}, effects: [2][2]int{{1, 1}, {1, 2}}, requests: 2,
		},
		"after both commits": {
			arm: func(_ *world, n *node, _ *effects) {
				left := 2
				n.dies(func(c domain.Command) bool {
					if _, is := c.(domain.AppendToolResult); is {
						left--
					}
					return left == 0
				})
			},
			results: [2][2]string{{saidCount, saidSlow}, {saidCount, saidSlow}}, effects: [2][2]int{{1, 1}, {1, 1}}, requests: 2,
		},
		"before the calls are committed": {
			arm: func(w *world, n *node, _ *effects) {
				first := w.provider.answers[0]
				w.script(n.diesBehind(first), first, text("done"))
			},
			results: [2][2]string{{saidCount, saidSlow}, {saidCount, saidSlow}}, effects: [2][2]int{{1, 1}, {1, 1}}, requests: 3,
		},
		"before the answer is committed": {
			arm: func(w *world, n *node, _ *effects) {
				w.script(w.provider.answers[0], n.diesBehind(text("done")), text("done"))
			},
			results: [2][2]string{{saidCount, saidSlow}, {saidCount, saidSlow}}, effects: [2][2]int{{1, 1}, {1, 1}}, requests: 3,
		},
	} {
		for i, kind := range []string{"once", "replay-safe"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				play(t, func(w *world) {
					t := w.t
					w.script(calls("count", `slow{"s":30}`), text("done"))
					tools := &effects{testTools: w.tools, replaySafe: i == 1}
					first := w.startWith(tools)
					p.arm(w, first, tools)
					w.say("go")
					for range 100 {
						if first.line.err() != nil {
							break
						}
						time.Sleep(time.Second)
					}
					require.Error(t, first.line.err(), "it died")
					second := w.startWith(tools)
					want := []string{
						"1 user queue go", `2 assistant [1] tool_use: count{} | slow{"s":30}`, "3 " + p.results[i][0], "4 " + p.results[i][1],
						"5 assistant [1] end_turn: done", "6 finished done turns=N end_turn",
					}
					w.settled()
					got := w.text()
					require.Equal(t, want, strings.Split(turns.ReplaceAllString(got, "turns=N"), "\n"))
					require.Equal(t, p.effects[i], [2]int{w.tools.times("count"), w.tools.times("slow")}, "effects")
					require.Len(t, w.provider.requests, p.requests, "no further request")
					generations := map[string]bool{}
					for _, e := range w.ledger() {
						if e.Kind == domain.AssistantMessage {
							m, err := domain.ParseAssistant(e.Payload)
							require.NoError(t, err)
							generations[m.GenerationID] = true
						}
					}
					require.Len(t, generations, 2)
					first.line.lose = nil
					first.line.setCut(false)
					time.Sleep(2 * time.Minute)
					require.Equal(t, got, w.text(), "the dead one writes nothing when it comes back")
					require.Len(t, w.provider.requests, p.requests)
					first.drain(time.Second)
					second.drain(time.Second)
				})
			})
		}
	}
}

// dies cuts the line right behind the first command that at accepts; the command was applied.
func (n *node) dies(at func(domain.Command) bool) {
	var dead atomic.Bool
	n.line.lose = func(c domain.Command) bool {
		if dead.Load() || !at(c) {
			return false
		}
		dead.Store(true)
		n.line.setCut(true)
		return true
	}
}

// diesBehind is an answer that arrives, and that the process does not live to commit.
func (n *node) diesBehind(a answer) answer {
	return func(ctx context.Context, req ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error) {
		reply, err := a(ctx, req, emit)
		n.line.setCut(true)
		return reply, err
	}
}
