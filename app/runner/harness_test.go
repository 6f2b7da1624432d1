package runner_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/keel-agent/keel/adapters/bus"
	"github.com/keel-agent/keel/adapters/memory"
	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// world is one store with any number of runners on it, in the fake time of a synctest bubble.
type world struct {
	t        *testing.T
	store    *memory.Store
	hub      *bus.Hub
	partials *bus.Partials
	provider *scripted
	tools    *testTools
	models   runner.Models   // nil: none
	compacts ports.Compactor // of processes that start; nil: none
	ids      *counter
	ref      domain.SessionRef

	credentials *credentials // nil: nobody has any

	mu    sync.Mutex
	nodes []*node
}

func (w *world) join(n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes = append(w.nodes, n)
}

// hears says whether n is told of commits from now on.
func (w *world) hears(n *node, hears bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n.deaf = !hears
}

// stopAll ends what a test left running; synctest wants no goroutine to outlive its bubble.
func (w *world) stopAll() {
	w.provider.mu.Lock()
	w.provider.answers = []answer{text("the test is over")}
	w.provider.mu.Unlock()
	for _, n := range w.nodes {
		n.line.setCut(false)
		n.line.lose = nil
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = n.Drain(ctx)
		cancel()
	}
	time.Sleep(2 * time.Minute)
}

func play(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		hub := new(bus.Hub)
		w := &world{
			t: t, hub: hub, partials: new(bus.Partials),
			provider: &scripted{}, tools: newTestTools(), ids: &counter{}, ref: domain.SessionRef{Tenant: "default", Session: "s1"},
		}
		w.store = memory.New(memory.Config{Now: time.Now, Notifier: w})
		w.create()
		defer w.stopAll()
		f(w)
	})
}

// Committed implements ports.Notifier: every process hears of every commit at once, unless it is deaf.
func (w *world) Committed(c ports.Commit) {
	defer w.hub.Committed(c)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		if !n.deaf {
			n.Runner.Committed(c)
		}
	}
}

func (w *world) create() {
	w.do(domain.CreateSession{
		At: time.Now(), Request: payload(w.t, `{"id":"s1"}`),
		Info: domain.SessionInfo{Tools: []string{"count", "slow", "stubborn", "safe", "panic", "step"}},
	})
}

func payload(t *testing.T, raw string) domain.Payload {
	t.Helper()
	p, err := domain.ParsePayload([]byte(raw), 0)
	require.NoError(t, err)
	return p
}

func (w *world) do(c domain.Command) domain.Outcome {
	w.t.Helper()
	out, err := w.store.Do(context.Background(), w.ref, c)
	require.NoError(w.t, err)
	return out
}

// say submits an input; extra are further members of its payload.
func (w *world) say(text string, extra ...string) domain.Outcome {
	w.t.Helper()
	id := "r-" + text
	raw := fmt.Sprintf(`{"text":%q,"requestId":%q%s}`, text, id, strings.Join(append([]string{""}, extra...), ","))
	return w.do(domain.SubmitInput{At: time.Now(), RequestID: id, Payload: payload(w.t, raw), NewRun: w.ids.New()})
}

func (w *world) guide(text string) domain.Outcome {
	w.t.Helper()
	return w.say(text, `"delivery":"guide"`)
}

func (w *world) cancel() { w.t.Helper(); w.do(domain.RequestCancel{}) }

// node is one process.
type node struct {
	*runner.Runner
	w    *world
	line *line
	deaf bool // it is told of no commit, as of those of other processes
}

// start starts a process; opts change its configuration.
func (w *world) start(opts ...func(*runner.Config)) *node {
	w.t.Helper()
	providers, err := runner.NewProviders(w.provider)
	require.NoError(w.t, err)
	cfg := runner.Config{Workers: 4}
	for _, o := range opts {
		o(&cfg)
	}
	log := zap.NewNop()
	if testing.Verbose() {
		log = zaptest.NewLogger(w.t)
	}
	l := &line{store: w.store}
	n := &node{w: w, line: l, Runner: runner.New(runner.Deps{
		Ledger: l, Runs: lineRuns{l, w.store.Runs()}, Processes: lineProcesses{l, w.store.Processes()},
		Wakeups: w.hub, Partials: w.partials, Providers: providers, Models: w.models, Tools: []ports.Tools{w.tools},
		Compactor: w.compacts, Clock: clock{}, IDs: w.ids, Log: log, Credentials: w.credentials.port(),
	}, cfg)}
	w.join(n)
	require.NoError(w.t, n.Start(context.Background()))
	synctest.Wait()
	return n
}

// drain ends the process in an orderly way.
func (n *node) drain(grace time.Duration) {
	n.w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	require.NoError(n.w.t, n.Drain(ctx))
	synctest.Wait()
}

// settled waits until no run is active and returns the ledger.
func (w *world) settled() []domain.Event {
	w.t.Helper()
	for range 10000 {
		synctest.Wait()
		s, run, err := w.store.Sessions().Get(context.Background(), w.ref)
		require.NoError(w.t, err)
		if run == nil && s.ActiveRun == "" {
			return w.ledger()
		}
		time.Sleep(50 * time.Millisecond) // fake time
	}
	w.t.Fatalf("the run never settled; ledger:\n%s", w.text())
	return nil
}

func (w *world) ledger() []domain.Event {
	w.t.Helper()
	events, err := w.store.Events(context.Background(), w.ref, 0, 10000)
	require.NoError(w.t, err)
	for i, e := range events {
		require.EqualValues(w.t, i+1, e.Seq)
	}
	return events
}

// text is the ledger in one line per event, without ids and times.
func (w *world) text() string {
	var b strings.Builder
	for _, e := range w.ledger() {
		fmt.Fprintf(&b, "%d %s\n", e.Seq, describe(w.t, e))
	}
	return strings.TrimSpace(b.String())
}

func describe(t *testing.T, e domain.Event) string {
	switch e.Kind {
	case domain.UserMessage:
		in, err := domain.ParseInput(e.Payload)
		require.NoError(t, err)
		return "user " + cmp.Or(string(in.Delivery), "queue") + " " + in.Text
	case domain.AssistantMessage:
		m, err := domain.ParseAssistant(e.Payload)
		require.NoError(t, err)
		var parts []string
		for _, c := range m.Content {
			parts = append(parts, strings.TrimSpace(c.Text+c.Name+c.Arguments+c.RawArguments))
		}
		return strings.TrimSpace(fmt.Sprintf("assistant %v %s: %s", m.InputSeqs, m.StopReason, strings.Join(parts, " | ")))
	case domain.ToolResult:
		out, err := domain.ParseToolOutput(e.Payload)
		require.NoError(t, err)
		s := "result " + out.Content[0].Text
		if out.IsError {
			s += " (error)"
		}
		if out.Interrupted {
			s += " (interrupted)"
		}
		return s
	case domain.Compaction:
		c, err := domain.ParseCompaction(e.Payload)
		require.NoError(t, err)
		return fmt.Sprintf("compaction from %d: %s", c.FirstKept, c.Summary)
	default:
		var f struct {
			Status, StopReason, Error string
			Turns                     int
		}
		require.NoError(t, json.Unmarshal(e.Payload.Bytes(), &f))
		return strings.TrimSpace(fmt.Sprintf("finished %s turns=%d %s %s", f.Status, f.Turns, f.StopReason, f.Error))
	}
}

func (w *world) expect(lines ...string) {
	w.t.Helper()
	w.settled()
	require.Equal(w.t, strings.Join(lines, "\n"), w.text())
}

func (w *world) runs() []domain.Run {
	w.t.Helper()
	runs, err := w.store.Runs().List(context.Background(), w.ref, nil, 100)
	require.NoError(w.t, err)
	return runs
}

type clock struct{}

func (clock) Now() time.Time { return time.Now() }

// counter mints ids in order.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) New() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return fmt.Sprintf("id-%06d", c.n)
}

func (*counter) Jitter() float64 { return 0.5 }
