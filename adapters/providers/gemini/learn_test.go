package gemini_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/gemini"
	"github.com/keel-agent/keel/adapters/providers/gemini/geminitest"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// called returns a history with a call of a model, whose signature is given.
func called(provider, model, signature string) func(*ports.ModelRequest) {
	call := domain.Block{Type: domain.CallBlock, ID: "k1", Name: "f", Arguments: "{}", Signature: signature}
	return func(r *ports.ModelRequest) {
		r.Messages = []domain.Message{
			wiretest.User(wiretest.Text("a")), {Role: domain.RoleAssistant, Provider: provider, Model: model, Content: []domain.Block{call}},
			{Role: domain.RoleTool, CallID: "k1", ToolName: "f", Content: []domain.Block{{Type: domain.TextBlock, Text: "x"}}},
		}
	}
}

func bodies(s *geminitest.Server) (list []string) {
	for _, r := range s.Requests() {
		list = append(list, string(r.Body))
	}
	return list
}

func refusal(message string) geminitest.Response {
	return geminitest.Error(400, geminitest.Fault(400, message))
}

// TestCallsOfOtherModels: a model that is known to want signatures gets the stand-in at once.
func TestCallsOfOtherModels(t *testing.T) {
	s, p := start(t, hello)
	_, err := ask(t, p, called("openai", "gpt", ""))
	require.NoError(t, err)
	require.Contains(t, bodies(s)[0], geminitest.NoSignature)
}

// TestMissingSignature: a model whose name does not tell that it wants signatures says so once.
func TestMissingSignature(t *testing.T) {
	const missing = "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly."
	s := geminitest.Start(t)
	p := newProvider(t, gemini.Config{BaseURL: s.URL(), Model: "house-model"})
	s.Push(refusal(missing), hello, hello)
	for range 2 {
		_, err := ask(t, p, called("openai", "gpt", ""))
		require.NoError(t, err)
	}
	got := bodies(s)
	require.Len(t, got, 3)
	require.NotContains(t, got[0], geminitest.NoSignature)
	require.Contains(t, got[1], geminitest.NoSignature)
	require.Equal(t, got[1], got[2], "what was refused is remembered")

	s.Push(refusal(missing))
	_, err := ask(t, p, called("openai", "gpt", ""))
	require.Equal(t, ports.Fatal, wiretest.Fault(t, err).Class, "the same refusal twice is a fault")

	s.Push(geminitest.Stream(geminitest.Last("MISSING_THOUGHT_SIGNATURE")), hello)
	other := func(r *ports.ModelRequest) { r.Model = "other-model" }
	_, err = ask(t, p, called("openai", "gpt", ""), other)
	require.Equal(t, ports.Retryable, wiretest.Fault(t, err).Class)
	_, err = ask(t, p, called("openai", "gpt", ""), other)
	require.NoError(t, err)
	got = bodies(s)
	require.NotContains(t, got[4], geminitest.NoSignature)
	require.Contains(t, got[5], geminitest.NoSignature, "the retry mends what the attempt failed for")
}

// TestRefusedSideBySide: a request that was under way when another one taught what the model refuses learns the same, and no
// more.
func TestRefusedSideBySide(t *testing.T) {
	s := geminitest.Start(t)
	p := newProvider(t, gemini.Config{BaseURL: s.URL(), Model: "gemini-3-test"})
	thinking := refusal("Thinking level MEDIUM is not supported for this model.")
	wiretest.TestRefusedSideBySide(t, s, p, func(r *ports.ModelRequest) { r.Options.Thinking = "medium" }, thinking, hello)
	for _, body := range bodies(s)[2:] {
		require.Contains(t, body, `"thinkingConfig":{"includeThoughts":true}`, "the level alone was refused")
	}
	s = geminitest.Start(t)
	p = newProvider(t, gemini.Config{BaseURL: s.URL(), Model: "house-model"})
	wiretest.TestRefusedSideBySide(t, s, p, called("openai", "gpt", ""), refusal("Function call is missing a thought_signature."), hello)
}

// TestRefusedSignature: a signature that the backend no longer takes costs a try, not the session.
func TestRefusedSignature(t *testing.T) {
	s := geminitest.StartLenient(t)
	p := newProvider(t, gemini.Config{BaseURL: s.URL(), Model: geminitest.Model})
	s.Push(hello)
	_, err := ask(t, p, called("gemini", geminitest.Model, "forged"))
	require.NoError(t, err)
	require.Len(t, s.Refused(), 1)
	require.ErrorContains(t, s.Refused()[0], "corrupted thought signature")
	require.Contains(t, bodies(s)[0], "forged")
	require.NotContains(t, bodies(s)[1], "forged")

	s.Push(refusal("Invalid thought signature."), refusal("Invalid thought signature."))
	_, err = ask(t, p, called("gemini", geminitest.Model, geminitest.Sign(geminitest.Model, "call f {}")))
	require.Equal(t, ports.Fatal, wiretest.Fault(t, err).Class, "the same refusal twice is a fault")
	require.Len(t, s.Requests(), 4)
}

// TestRefusedThinking: of a wish for thinking that the backend refuses, the level is left out, then all.
func TestRefusedThinking(t *testing.T) {
	s := geminitest.Start(t)
	p := newProvider(t, gemini.Config{BaseURL: s.URL(), Model: "gemini-3-test"})
	s.Push(refusal("Thinking level MEDIUM is not supported for this model."), hello, refusal("Thinking is not supported by this model."), hello, hello)
	medium := func(r *ports.ModelRequest) { r.Options.Thinking = "medium" }
	for range 3 {
		_, err := ask(t, p, medium)
		require.NoError(t, err)
	}
	got := bodies(s)
	require.Len(t, got, 5)
	require.Contains(t, got[0], `"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"MEDIUM"}}`)
	require.Contains(t, got[1], `"generationConfig":{"thinkingConfig":{"includeThoughts":true}}`)
	require.Equal(t, got[1], got[2])
	require.NotContains(t, got[3], "generationConfig")
	require.Equal(t, got[3], got[4])

	s.Push(hello, refusal("Thinking is what I do not do."))
	_, err := ask(t, p, func(r *ports.ModelRequest) { r.Model, r.Options.Thinking = "models/gemini-3-test", "low" })
	require.NoError(t, err)
	require.Contains(t, bodies(s)[5], `"thinkingLevel":"LOW"`, "each level stands for itself")
	_, err = ask(t, p, medium)
	require.Equal(t, ports.Fatal, wiretest.Fault(t, err).Class)
	require.Len(t, s.Requests(), 7, "there is nothing left to leave out")

	s.Push(refusal("Thinking level MINIMAL is not supported for this model."), hello)
	_, err = ask(t, p, func(r *ports.ModelRequest) { r.Options.Thinking = "none" })
	require.NoError(t, err)
	require.Contains(t, bodies(s)[7], `"thinkingConfig":{"thinkingLevel":"MINIMAL"}`)
	require.NotContains(t, bodies(s)[8], "generationConfig")
}
