package anthropic_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/anthropic"
	"github.com/keel-agent/keel/adapters/providers/anthropic/anthropictest"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// TestRefusedParameters: what a model refuses is left out of the same request's next try, and of later ones.
func TestRefusedParameters(t *testing.T) {
	refusal := func(message string) anthropictest.Response {
		return anthropictest.Error(400, anthropictest.Fault("invalid_request_error", message))
	}
	warm := 0.5
	options := func(o ports.Options) func(*ports.ModelRequest) {
		return func(r *ports.ModelRequest) { r.Options = o }
	}
	for name, c := range map[string]struct {
		model   string
		options ports.Options
		message string
		before  string
		after   string
	}{
		"the token cap": {
			"claude-test-3", ports.Options{}, "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for claude-test-3",
			`"max_tokens":32000,`, `"max_tokens":8192,`,
		},
		"temperature": {
			"claude-test-5", ports.Options{Temperature: &warm}, "`temperature` is deprecated for this model.",
			`"temperature":0.5,`, ``,
		},
		"a budget": {
			"imitation", ports.Options{Thinking: "low"}, "thinking.type.enabled is not supported for this model. Use thinking.type.adaptive.",
			`"thinking":{"type":"enabled","budget_tokens":2048},`, `"thinking":{"type":"adaptive"},"output_config":{"effort":"low"},`,
		},
		"adaptive thinking": {
			"claude-test-5", ports.Options{Thinking: "low"}, "adaptive thinking is not supported on this model",
			`"thinking":{"type":"adaptive"},"output_config":{"effort":"low"},`, `"thinking":{"type":"enabled","budget_tokens":2048},`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := anthropictest.Start(t)
			p := newProvider(t, anthropic.Config{BaseURL: s.URL(), Model: c.model})
			s.Push(refusal(c.message), hello, hello)
			for range 2 {
				_, err := ask(t, p, options(c.options))
				require.NoError(t, err)
			}
			var got []string
			for _, r := range s.Requests() {
				got = append(got, string(r.Body))
			}
			require.Len(t, got, 3)
			require.Contains(t, got[0], c.before)
			require.Equal(t, strings.Replace(got[0], c.before, c.after, 1), got[1])
			require.Equal(t, got[1], got[2], "what was refused is remembered")

			s.Push(refusal(c.message))
			_, err := ask(t, p, options(c.options))
			require.Equal(t, ports.Fatal, wiretest.Fault(t, err).Class, "the same refusal twice is a fault")
		})
	}
}

// TestRefusedThinking: a signature that the backend no longer takes costs a try, not the session.
func TestRefusedThinking(t *testing.T) {
	s := anthropictest.StartLenient(t)
	p := newProvider(t, anthropic.Config{BaseURL: s.URL(), Model: anthropictest.Model})
	s.Push(hello)
	forged := domain.Message{Role: domain.RoleAssistant, Provider: "anthropic", Model: anthropictest.Model, Content: []domain.Block{
		{Type: domain.ThinkingBlock, Thinking: "Hm", Signature: "forged"}, {Type: domain.TextBlock, Text: "Yes."},
	}}
	_, err := ask(t, p, func(r *ports.ModelRequest) {
		r.Messages = []domain.Message{wiretest.User(wiretest.Text("a")), forged, wiretest.User(wiretest.Text("b"))}
	})
	require.NoError(t, err)
	require.Len(t, s.Refused(), 1)
	require.ErrorContains(t, s.Refused()[0], "Invalid `signature`")
	require.Contains(t, string(s.Requests()[0].Body), "forged")
	require.NotContains(t, string(s.Requests()[1].Body), "forged")
}

// TestRefusedSideBySide: a request that was under way when another one taught what the model refuses learns the same.
func TestRefusedSideBySide(t *testing.T) {
	warm := 0.5
	refusal := anthropictest.Error(400, anthropictest.Fault("invalid_request_error", "`temperature` is deprecated for this model."))
	s, p := start(t)
	wiretest.TestRefusedSideBySide(t, s, p, func(r *ports.ModelRequest) { r.Options.Temperature = &warm }, refusal, hello)
}
