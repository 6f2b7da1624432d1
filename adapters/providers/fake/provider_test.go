package fake_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/fake"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
	"github.com/keel-agent/keel/ports/portstest"
)

func TestConformance(t *testing.T) {
	portstest.TestProvider(t, portstest.ProviderHarness{Play: play})
}

// play turns a scene into a script.
func play(t *testing.T, scene portstest.ProviderScene) (ports.Provider, ports.ModelRequest) {
	turn := map[string]any{"text": strings.Join(scene.Text, ""), "thinking": scene.Thinking, "stopReason": string(scene.Stop)}
	var calls []map[string]any
	for _, c := range scene.Calls {
		calls = append(calls, map[string]any{"id": c.ID, "name": c.Name, "arguments": c.Arguments})
	}
	turn["toolCalls"] = calls
	const forever = int64(24 * time.Hour / time.Millisecond)
	switch scene.End {
	case portstest.EndFault:
		turn["error"] = map[string]any{"status": scene.Fault.Status, "message": scene.Fault.Message, "retryAfter": scene.Fault.RetryAfter}
	case portstest.EndCut:
		turn["cut"] = true
	case portstest.EndSilent:
		turn["chunkDelayMs"] = forever
		if len(scene.Text) == 0 {
			turn["delayMs"] = forever
		}
	}
	selection, err := json.Marshal(map[string]any{"script": []any{turn}})
	require.NoError(t, err)
	return newFake(t, ""), ports.ModelRequest{Turn: ports.Turn{Selection: string(selection)}}
}

func newFake(t *testing.T, script string) *fake.Provider {
	p, err := fake.New(fake.Config{Script: []byte(script)})
	require.NoError(t, err)
	return p
}

func user(s string) domain.Message {
	return domain.Message{Role: domain.RoleUser, Content: []domain.Block{{Type: domain.TextBlock, Text: s}}}
}

func answer(s string) domain.Message {
	return domain.Message{Role: domain.RoleAssistant, Content: []domain.Block{{Type: domain.TextBlock, Text: s}}}
}

func text(s string) []domain.Block { return []domain.Block{{Type: domain.TextBlock, Text: s}} }

func collect(t *testing.T, p ports.Provider, req ports.ModelRequest) (ports.Reply, []string, error) {
	var deltas []string
	reply, err := p.Generate(t.Context(), req, func(d ports.Delta) { deltas = append(deltas, d.Thinking+d.Text) })
	return reply, deltas, err
}

func TestEcho(t *testing.T) {
	for name, c := range map[string]struct {
		messages []domain.Message
		want     string
	}{
		"one":            {[]domain.Message{user("hello there")}, "echo: hello there"},
		"latest only":    {[]domain.Message{user("a"), answer("echo: a"), user("b")}, "echo: b"},
		"all unanswered": {[]domain.Message{answer("x"), user("a"), user("b")}, "echo: a\nb"},
		"behind a tool":  {[]domain.Message{user("a"), answer(""), {Role: domain.RoleTool, Content: text("r")}}, "echo: a"},
		"nothing":        {nil, "echo: "},
	} {
		t.Run(name, func(t *testing.T) {
			reply, deltas, err := collect(t, newFake(t, ""), ports.ModelRequest{Messages: c.messages, Model: "any"})
			require.NoError(t, err)
			require.Equal(t, ports.Reply{Content: text(c.want), StopReason: domain.StopEndTurn, Model: "fake"}, reply)
			require.Equal(t, c.want, strings.Join(deltas, ""))
			require.Equal(t, strings.Count(strings.TrimSuffix(c.want, " "), " ")+1, len(deltas), "%q", deltas)
		})
	}
}

func TestScriptFollowsTheLedger(t *testing.T) {
	p := newFake(t, `[{"text":"configured"}]`)
	const selection = `{"model":"m","script":[{"error":{"status":500,"message":"down","retryAfter":1.5}},{"text":"two"},{"text":"three"}]}`
	for call, want := range []string{"", "two", "three", "three"} {
		reply, _, err := collect(t, p, ports.ModelRequest{Turn: ports.Turn{Selection: selection, Call: call}})
		if call == 0 {
			var fault *ports.ProviderError
			require.ErrorAs(t, err, &fault)
			require.Equal(t, ports.ProviderError{Class: ports.Retryable, Status: 500, Message: "down", RetryAfter: 1500 * time.Millisecond}, *fault)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, text(want), reply.Content)
	}
	for _, selection := range []string{"", `{}`, `{"script":null}`} {
		reply, _, err := collect(t, p, ports.ModelRequest{Turn: ports.Turn{Selection: selection}})
		require.NoError(t, err)
		require.Equal(t, text("configured"), reply.Content)
	}
}

func TestScriptArguments(t *testing.T) {
	const selection = `{"script":[{"toolCalls":[
		{"name":"a","arguments":{"n":9007199254740993, "m":1e400}},{"name":"b","arguments":"{\"x\":"},{"name":"c"},{"name":"d","arguments":[1]},
		{"name":"e","arguments":"{\"x\": 1}","id":"call_0"}]}]}`
	reply, _, err := collect(t, newFake(t, ""), ports.ModelRequest{Turn: ports.Turn{Selection: selection}})
	require.NoError(t, err)
	require.Equal(t, domain.StopToolUse, reply.StopReason)
	require.Equal(t, []domain.Block{
		{Type: domain.CallBlock, Name: "a", Arguments: `{"n":9007199254740993,"m":1e400}`},
		{Type: domain.CallBlock, Name: "b", RawArguments: `{"x":`},
		{Type: domain.CallBlock, Name: "c", Arguments: `{}`},
		{Type: domain.CallBlock, Name: "d", RawArguments: `[1]`},
		{Type: domain.CallBlock, Name: "e", Arguments: `{"x":1}`, ProviderID: "call_0"},
	}, reply.Content)
}

func TestMalformedScripts(t *testing.T) {
	for name, script := range map[string]string{
		"no array":        `{"text":"x"}`,
		"empty":           `[]`,
		"wrong type":      `[{"text":1}]`,
		"unknown member":  `[{"txt":"x"}]`,
		"call unnamed":    `[{"toolCalls":[{"arguments":{}}]}]`,
		"negative delay":  `[{"delayMs":-1}]`,
		"endless delay":   `[{"chunkDelayMs":9000000000000000000}]`,
		"stop reason":     `[{"stopReason":"aborted"}]`,
		"not JSON at all": `[`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fake.New(fake.Config{Script: []byte(script)})
			require.Error(t, err)
			if !json.Valid([]byte(script)) {
				return
			}
			_, _, err = collect(t, newFake(t, ""), ports.ModelRequest{Turn: ports.Turn{Selection: `{"script":` + script + `}`}})
			var fault *ports.ProviderError
			require.ErrorAs(t, err, &fault)
			require.Equal(t, ports.Fatal, fault.Class)
			require.Equal(t, "malformed_script", fault.Code)
			require.Contains(t, fault.Message, "script")
		})
	}
}

func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		p := newFake(t, `[{"thinking":"hm","text":"a b c","delayMs":100,"chunkDelayMs":10}]`)
		_, err := p.Generate(t.Context(), ports.ModelRequest{}, func(ports.Delta) { at = append(at, time.Since(start)) })
		require.NoError(t, err)
		require.Equal(t, []time.Duration{100 * time.Millisecond, 100 * time.Millisecond, 110 * time.Millisecond, 120 * time.Millisecond}, at)

		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 105*time.Millisecond, cause)
		defer cancel()
		reply, err := p.Generate(ctx, ports.ModelRequest{}, func(ports.Delta) {})
		require.ErrorIs(t, err, cause)
		require.Equal(t, []domain.Block{{Type: domain.ThinkingBlock, Thinking: "hm"}, {Type: domain.TextBlock, Text: "a "}}, reply.Content)
	})
}

// A summary is no answer: no script has a say in it.
func TestSummary(t *testing.T) {
	p, err := fake.New(fake.Config{Script: []byte(`[{"text":"scripted"}]`)})
	require.NoError(t, err)
	reply, err := p.Generate(t.Context(), ports.ModelRequest{
		Messages: []domain.Message{{Role: domain.RoleUser, Content: []domain.Block{{Type: domain.TextBlock, Text: "hello"}}}},
		Turn:     ports.Turn{Summary: true},
	}, func(ports.Delta) {})
	require.NoError(t, err)
	require.Equal(t, "(summary of 5 bytes)", reply.Content[0].Text)
}
