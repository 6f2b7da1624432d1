package portstest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// ProviderHarness lets TestProvider arrange what a provider's backend does.
type ProviderHarness struct {
	// Play returns a provider whose backend plays scene in its next call, and the request to make. Whatever it starts
	// is stopped through t.Cleanup.
	Play func(t *testing.T, scene ProviderScene) (ports.Provider, ports.ModelRequest)
}

// ProviderScene is one answer of a backend: thinking, then text, then tool calls, then an end.
type ProviderScene struct {
	Thinking string
	Text     []string // in pieces; a backend may cut them otherwise
	Calls    []ProviderCall
	Stop     domain.StopReason // when End is EndComplete; "" means end_turn, or tool_use where there are calls
	End      ProviderEnd
	Fault    ProviderFault // when End is EndFault
}

// ProviderCall is a tool call in a scene.
type ProviderCall struct {
	ID        string
	Name      string
	Arguments string // argument text, malformed or not
}

// ProviderFault is an error that a backend reports: as the status of its answer if the scene holds nothing else, inside
// the stream otherwise.
type ProviderFault struct {
	Status     int
	Message    string
	RetryAfter int // seconds, 0 for none; only where there is nothing else in the scene
}

// ProviderEnd is how a scene ends.
type ProviderEnd int

// The ends of a scene.
const (
	EndComplete ProviderEnd = iota
	EndFault                // the backend reports Fault
	EndCut                  // the stream breaks without its end marker
	EndSilent               // nothing more comes; a Text of two pieces is broken off after its first
)

// TestProvider is the suite that every provider passes.
func TestProvider(t *testing.T, h ProviderHarness) {
	t.Run("answers", func(t *testing.T) { testProviderAnswers(t, h) })
	t.Run("token cap", func(t *testing.T) { testProviderTokenCap(t, h) })
	t.Run("faults", func(t *testing.T) { testProviderFaults(t, h) })
	t.Run("cut streams", func(t *testing.T) { testProviderCuts(t, h) })
	t.Run("cancellation", func(t *testing.T) { testProviderCancellation(t, h) })
}

func testProviderAnswers(t *testing.T, h ProviderHarness) {
	for _, c := range []struct {
		name  string
		scene ProviderScene
		want  []domain.Block
		stop  domain.StopReason
	}{
		{
			"text", ProviderScene{Text: []string{"Hello, ", "world."}},
			[]domain.Block{textBlock("Hello, world.")}, domain.StopEndTurn,
		},
		{
			"text beyond ASCII", ProviderScene{Text: []string{"5 € ", "for 👩‍👩‍👧 \u2028 \ufffe \"quoted\" \\ \n", "\u0001<&>"}},
			[]domain.Block{textBlock("5 € for 👩‍👩‍👧 \u2028 \ufffe \"quoted\" \\ \n\u0001<&>")}, domain.StopEndTurn,
		},
		{
			"thinking", ProviderScene{Thinking: "Let me see.", Text: []string{"Yes."}},
			[]domain.Block{{Type: domain.ThinkingBlock, Thinking: "Let me see."}, textBlock("Yes.")}, domain.StopEndTurn,
		},
		{
			"parallel calls", ProviderScene{Text: []string{"Reading."}, Calls: []ProviderCall{
				{"ca", "read_file", `{"p":8123456789012345677,"q":1.0}`}, {"cb", "read_file", `{"p":"\u00e9"}`},
			}},
			[]domain.Block{textBlock("Reading."), callBlock("ca", "read_file", `{"p":8123456789012345677,"q":1.0}`), callBlock("cb", "read_file", `{"p":"é"}`)},
			domain.StopToolUse,
		},
		{
			"call without arguments", ProviderScene{Calls: []ProviderCall{{"ca", "time", ""}}},
			[]domain.Block{callBlock("ca", "time", `{}`)}, domain.StopToolUse,
		},
		{
			"malformed arguments", ProviderScene{Calls: []ProviderCall{{"ca", "f", `{"a":1}{"a":1}`}, {"cb", "f", `[1]`}}},
			[]domain.Block{rawCallBlock("ca", "f", `{"a":1}{"a":1}`), rawCallBlock("cb", "f", `[1]`)}, domain.StopToolUse,
		},
		{
			"refusal", ProviderScene{Text: []string{"I cannot help with that."}, Stop: domain.StopRefusal},
			[]domain.Block{textBlock("I cannot help with that.")}, domain.StopRefusal,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			reply, err := playScene(t, h, c.scene)
			require.NoError(t, err)
			require.Equal(t, c.want, reply.Content)
			require.Equal(t, c.stop, reply.StopReason)
			require.NotEmpty(t, reply.Model)
		})
	}
}

func testProviderTokenCap(t *testing.T, h ProviderHarness) {
	t.Run("in the text", func(t *testing.T) {
		reply, err := playScene(t, h, ProviderScene{Text: []string{"Once upon "}, Stop: domain.StopLength})
		require.NoError(t, err)
		require.Equal(t, domain.StopLength, reply.StopReason)
		require.Equal(t, []domain.Block{textBlock("Once upon ")}, reply.Content)
	})
	for name, args := range map[string]string{"in a call": `{"city":"Os`, "before the arguments of a call": ""} {
		t.Run(name, func(t *testing.T) {
			reply, err := playScene(t, h, ProviderScene{Calls: []ProviderCall{{"ca", "weather", args}}, Stop: domain.StopLength})
			require.NoError(t, err)
			require.Equal(t, domain.StopLength, reply.StopReason)
			require.Len(t, reply.Content, 1)
			require.Empty(t, reply.Content[0].Arguments, "half a call must not run")
			require.NotEmpty(t, reply.Content[0].RawArguments)
		})
	}
	t.Run("before any text", func(t *testing.T) {
		reply, err := playScene(t, h, ProviderScene{Thinking: "Hm. Hm.", Stop: domain.StopLength})
		fault := requireFault(t, err, ports.Retryable)
		require.Equal(t, "length", fault.Code)
		require.Equal(t, domain.StopLength, reply.StopReason)
	})
}

func testProviderFaults(t *testing.T, h ProviderHarness) {
	for _, c := range []struct {
		name  string
		fault ProviderFault
		class ports.FaultClass
	}{
		{"overloaded", ProviderFault{Status: 503, Message: "overloaded"}, ports.Retryable},
		{"rate limit that speaks of tokens", ProviderFault{Status: 429, Message: "too many tokens per minute", RetryAfter: 7}, ports.Retryable},
		{"no quota", ProviderFault{Status: 429, Message: "insufficient_quota: pay first"}, ports.Fatal},
		{"credentials", ProviderFault{Status: 401, Message: "who are you"}, ports.Fatal},
		{"invalid request", ProviderFault{Status: 400, Message: "unknown field"}, ports.Fatal},
		{"context too long", ProviderFault{Status: 400, Message: "This model's maximum context length is 8192 tokens."}, ports.Overflow},
		{"too many bytes", ProviderFault{Status: 413, Message: "request entity too large"}, ports.TooLarge},
		{"an image", ProviderFault{Status: 400, Message: "Could not process image"}, ports.BadImage},
	} {
		t.Run(c.name, func(t *testing.T) {
			reply, err := playScene(t, h, ProviderScene{End: EndFault, Fault: c.fault})
			fault := requireFault(t, err, c.class)
			require.Contains(t, fault.Message, c.fault.Message)
			require.Equal(t, time.Duration(c.fault.RetryAfter)*time.Second, fault.RetryAfter)
			require.Empty(t, reply.Content)
		})
		t.Run(c.name+", inside the answer", func(t *testing.T) {
			scene := ProviderScene{Text: []string{"First we ", "open th"}, End: EndFault, Fault: c.fault}
			scene.Fault.RetryAfter = 0
			reply, err := playScene(t, h, scene)
			require.NotEmpty(t, requireFault(t, err, c.class).Message)
			require.Equal(t, []domain.Block{textBlock("First we open th")}, reply.Content)
		})
	}
}

func testProviderCuts(t *testing.T, h ProviderHarness) {
	for name, scene := range map[string]ProviderScene{
		"before anything":  {End: EndCut},
		"after thinking":   {Thinking: "Hm", End: EndCut},
		"in the text":      {Text: []string{"The answer ", "is"}, End: EndCut},
		"in a call":        {Calls: []ProviderCall{{"ca", "f", `{"a":`}}, End: EndCut},
		"behind all calls": {Calls: []ProviderCall{{"ca", "f", `{}`}, {"cb", "f", `{}`}}, End: EndCut},
	} {
		t.Run(name, func(t *testing.T) {
			reply, err := playScene(t, h, scene)
			require.NotEmpty(t, requireFault(t, err, ports.Retryable).Message)
			require.Empty(t, reply.StopReason, "a stop reason was invented")
			require.Equal(t, strings.Join(scene.Text, ""), replyText(reply))
		})
	}
}

var errProviderCancelled = errors.New("the test gave up")

func testProviderCancellation(t *testing.T, h ProviderHarness) {
	t.Run("before the call", func(t *testing.T) {
		checkLeaks(t)
		p, req := h.Play(t, ProviderScene{Text: []string{"never ", "seen"}})
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errProviderCancelled)
		_, err := p.Generate(ctx, req, func(ports.Delta) {})
		require.ErrorIs(t, err, errProviderCancelled)
	})
	for name, scene := range map[string]ProviderScene{
		"before the first byte": {End: EndSilent},
		"in the text":           {Text: []string{"Once ", "upon"}, End: EndSilent},
	} {
		t.Run(name, func(t *testing.T) {
			best := time.Hour
			for try := 0; try < 3 && best > cancelLimit; try++ {
				best = min(best, cancelOnce(t, h, scene))
			}
			require.LessOrEqual(t, best, cancelLimit, "cancellation takes too long")
		})
	}
}

const cancelLimit = 100 * time.Millisecond

// cancelOnce cancels a call in the middle of scene and returns how long it took to return.
func cancelOnce(t *testing.T, h ProviderHarness, scene ProviderScene) time.Duration {
	checkLeaks(t)
	p, req := h.Play(t, scene)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	begun := make(chan struct{})
	seen := deltaRecorder{onFirst: func() { close(begun) }}
	if len(scene.Text) == 0 {
		close(begun)
		seen.onFirst = func() {}
	}
	type outcome struct {
		reply ports.Reply
		err   error
		at    time.Time
	}
	result := make(chan outcome, 1)
	go func() {
		reply, err := p.Generate(ctx, req, seen.emit)
		result <- outcome{reply, err, time.Now()}
	}()
	<-begun
	start := time.Now()
	cancel(errProviderCancelled)
	got := <-result
	seen.closed.Store(true)
	require.ErrorIs(t, got.err, errProviderCancelled)
	require.Equal(t, seen.text.String(), replyText(got.reply))
	return got.at.Sub(start)
}

// playScene plays scene and holds what every call promises: deltas in order from one goroutine that join to the reply,
// none after the return, no id of the kernel, well-formed calls, a proper error, nothing left running.
func playScene(t *testing.T, h ProviderHarness, scene ProviderScene) (ports.Reply, error) {
	checkLeaks(t)
	seen := &deltaRecorder{}
	t.Cleanup(func() { require.Zero(t, seen.faults.Load(), "emit was called after the return, or twice at a time") })
	p, req := h.Play(t, scene)
	require.NotEmpty(t, p.Name())
	reply, err := p.Generate(t.Context(), req, seen.emit)
	seen.closed.Store(true)

	if err != nil {
		require.NotErrorIs(t, err, context.Canceled)
	} else {
		require.Contains(t, []domain.StopReason{domain.StopEndTurn, domain.StopToolUse, domain.StopLength, domain.StopRefusal}, reply.StopReason)
	}
	require.Equal(t, seen.text.String(), replyText(reply), "the text differs from what was emitted")
	var thinking strings.Builder
	calls := 0
	for _, b := range reply.Content {
		thinking.WriteString(b.Thinking)
		if b.Type != domain.CallBlock {
			continue
		}
		require.Empty(t, b.ID, "ids are for the kernel to give")
		require.NotEmpty(t, b.Name)
		require.NotEqual(t, b.Arguments == "", b.RawArguments == "", "arguments are an object, or raw text")
		require.Equal(t, b.Name, seen.call(calls).name)
		calls++
	}
	require.Equal(t, seen.thinking.String(), thinking.String())
	return reply, err
}

// deltaRecorder keeps what is emitted and counts the breaches of emit's contract.
type deltaRecorder struct {
	onFirst  func()
	text     strings.Builder
	thinking strings.Builder
	calls    []deltaCall

	busy, closed atomic.Bool
	faults       atomic.Int32
}

type deltaCall struct{ name, arguments string }

func (r *deltaRecorder) emit(d ports.Delta) {
	if r.closed.Load() || !r.busy.CompareAndSwap(false, true) {
		r.faults.Add(1)
		return
	}
	defer r.busy.Store(false)
	r.text.WriteString(d.Text)
	r.thinking.WriteString(d.Thinking)
	if c := d.ToolCall; c != nil {
		for len(r.calls) <= c.Index {
			r.calls = append(r.calls, deltaCall{})
		}
		r.calls[c.Index].name += c.Name
		r.calls[c.Index].arguments += c.Arguments
	}
	if r.onFirst != nil {
		r.onFirst()
		r.onFirst = nil
	}
}

func (r *deltaRecorder) call(i int) deltaCall {
	if i < len(r.calls) {
		return r.calls[i]
	}
	return deltaCall{}
}

// checkLeaks fails the test if goroutines of it are left when everything else was cleaned up.
func checkLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

func requireFault(t *testing.T, err error, class ports.FaultClass) *ports.ProviderError {
	t.Helper()
	var fault *ports.ProviderError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, class, fault.Class, "%v", fault)
	return fault
}

func replyText(r ports.Reply) string {
	var s strings.Builder
	for _, b := range r.Content {
		s.WriteString(b.Text)
	}
	return s.String()
}

func textBlock(s string) domain.Block { return domain.Block{Type: domain.TextBlock, Text: s} }

func callBlock(id, name, args string) domain.Block {
	return domain.Block{Type: domain.CallBlock, ProviderID: id, Name: name, Arguments: args}
}

func rawCallBlock(id, name, raw string) domain.Block {
	return domain.Block{Type: domain.CallBlock, ProviderID: id, Name: name, RawArguments: raw}
}
