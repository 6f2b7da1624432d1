package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// answer is one call of the scripted provider.
type answer func(ctx context.Context, req ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error)

// scripted plays answers in order, the last one for ever, and keeps the requests.
type scripted struct {
	mu       sync.Mutex
	answers  []answer
	requests []ports.ModelRequest
}

func (s *scripted) Name() string { return "scripted" }

func (s *scripted) Models(context.Context, ports.Confidential) ([]ports.Model, error) {
	return nil, nil
}

func (s *scripted) Generate(ctx context.Context, req ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error) {
	s.mu.Lock()
	a := s.answers[min(len(s.requests), len(s.answers)-1)]
	s.requests = append(s.requests, req)
	s.mu.Unlock()
	return a(ctx, req, emit)
}

func (w *world) script(answers ...answer) { w.provider.answers = answers }

func text(s string) answer {
	return func(_ context.Context, _ ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error) {
		emit(ports.Delta{Text: s})
		return ports.Reply{Content: []domain.Block{{Type: domain.TextBlock, Text: s}}, StopReason: domain.StopEndTurn}, nil
	}
}

// calls answers with tool calls, each "name" or "name{arguments}".
func calls(specs ...string) answer {
	return func(context.Context, ports.ModelRequest, func(ports.Delta)) (ports.Reply, error) {
		r := ports.Reply{StopReason: domain.StopToolUse}
		for _, s := range specs {
			name, args, found := strings.Cut(s, "{")
			b := domain.Block{Type: domain.CallBlock, Name: name, Arguments: "{}", ProviderID: "call_0"}
			if found {
				b.Arguments = "{" + args
			}
			r.Content = append(r.Content, b)
		}
		return r, nil
	}
}

// slowly waits before it answers, and gives up when told.
func slowly(d time.Duration, then answer) answer {
	return func(ctx context.Context, req ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error) {
		emit(ports.Delta{Text: "hm"})
		select {
		case <-ctx.Done():
			return ports.Reply{Content: []domain.Block{{Type: domain.TextBlock, Text: "hm"}}}, context.Cause(ctx)
		case <-time.After(d):
			return then(ctx, req, emit)
		}
	}
}

func fault(class ports.FaultClass, after time.Duration) answer {
	return func(context.Context, ports.ModelRequest, func(ports.Delta)) (ports.Reply, error) {
		return ports.Reply{}, &ports.ProviderError{Class: class, Message: string(class), RetryAfter: after}
	}
}

// testTools counts executions.
type testTools struct {
	known chan struct{} // closed when the set knows its tools; nil when it does from the beginning

	mu  sync.Mutex
	ran []string
}

func newTestTools() *testTools { return &testTools{} }

func (*testTools) MayHave(context.Context, string, string) bool { return false }

func (*testTools) Known(context.Context, string) []string { return nil }

func (tt *testTools) Load(ctx context.Context, tenant string, _ []string) []ports.ToolSpec {
	if tt.known != nil {
		select {
		case <-tt.known:
		case <-ctx.Done():
		}
	}
	if tenant != "default" {
		return nil
	}
	return tt.Specs()
}

func (tt *testTools) Specs() []ports.ToolSpec {
	if tt.known != nil {
		select {
		case <-tt.known:
		default:
			return nil
		}
	}
	return []ports.ToolSpec{{Name: "count"}, {Name: "panic"}, {Name: "safe", ReplaySafe: true}, {Name: "slow"}, {Name: "step", Sequential: true}, {Name: "stubborn"}}
}

// Execute sleeps for the argument s in seconds; stubborn does not listen to ctx.
func (tt *testTools) Execute(ctx context.Context, c ports.ToolInvocation) (ports.ToolOutput, error) {
	var args struct{ S float64 }
	if err := json.Unmarshal([]byte(c.Arguments), &args); err != nil {
		return ports.ToolOutput{}, err
	}
	tt.mu.Lock()
	tt.ran = append(tt.ran, c.Name)
	tt.mu.Unlock()
	if c.Name == "panic" {
		panic("boom")
	}
	done := ctx.Done()
	if c.Name == "stubborn" {
		done = nil
	}
	select {
	case <-done:
		return ports.ToolOutput{}, context.Cause(ctx)
	case <-time.After(time.Duration(args.S * float64(time.Second))):
	}
	out := fmt.Sprintf("%s %s", c.Name, c.Arguments)
	return ports.ToolOutput{Content: []domain.Block{{Type: domain.TextBlock, Text: out}}}, nil
}

func (tt *testTools) times(name string) int {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(tt.ran), func(s string) bool { return s != name }))
}
