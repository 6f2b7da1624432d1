package responses_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai"
	"github.com/keel-agent/keel/adapters/providers/openai/responses"
	"github.com/keel-agent/keel/adapters/providers/openai/responses/responsestest"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

const key = "sk-canary-0123456789"

func start(t *testing.T, answers ...responsestest.Response) (*responsestest.Server, *responses.Provider) {
	s := responsestest.Start(t)
	s.Push(answers...)
	return s, newProvider(t, openai.Config{BaseURL: s.URL(), Model: responsestest.Model, APIKey: key})
}

func ask(t *testing.T, p *responses.Provider, options ...func(*ports.ModelRequest)) (ports.Reply, error) {
	return wiretest.Ask(t, p, key, options...)
}

var hello = responsestest.Completed(responsestest.Text("Hel", "lo"))

func TestAnswerOverHTTP(t *testing.T) {
	s, p := start(t, hello, responsestest.Completed(responsestest.Refusal("No", ".")))
	reply, err := ask(t, p)
	require.NoError(t, err)
	require.Equal(t, ports.Reply{
		Content:    []domain.Block{{Type: domain.TextBlock, Text: "Hello"}},
		StopReason: domain.StopEndTurn, Usage: &domain.Usage{Input: 3, Output: 5}, Model: responsestest.Model,
	}, reply)
	require.Equal(t, "Bearer "+key, s.Requests()[0].Header.Get("Authorization"))
	require.Equal(t, "openai-responses", p.Name())
	reply, err = ask(t, p)
	require.NoError(t, err)
	require.Equal(t, domain.StopRefusal, reply.StopReason)
}

// TestReasoningRoundTrip: what a model thought goes back to it as it came, call and output behind it, and the strict
// backend finds it unchanged.
func TestReasoningRoundTrip(t *testing.T) {
	s, p := start(t, responsestest.Completed(responsestest.Reasoning("rs_1", "**One** 5 € 😀 <&> \u2028", "two"), responsestest.Call("call_1", "f", "{}")), hello)
	reply, err := ask(t, p)
	require.NoError(t, err)
	require.Equal(t, "**One** 5 € 😀 <&> \u2028\n\ntwo", reply.Content[0].Thinking)
	reply.Content[1].ID = "k1"
	said := domain.Message{Role: domain.RoleAssistant, Provider: p.Name(), Model: reply.Model, Content: reply.Content}
	result := domain.Message{Role: domain.RoleTool, CallID: "k1", Content: []domain.Block{{Type: domain.TextBlock, Text: "x"}}}
	_, err = ask(t, p, func(r *ports.ModelRequest) { r.Messages = append(r.Messages, said, result) })
	require.NoError(t, err)
	require.Contains(t, string(s.Requests()[1].Body), `{"type":"reasoning","id":"rs_1"`)
}

func TestEndsOfConnections(t *testing.T) {
	whole := responsestest.Begun(responsestest.Text("Hello"))
	done := responsestest.Completed(responsestest.Text("Hello"))
	open := func(t *testing.T, answer wiretest.Response) ports.Provider { _, p := start(t, answer); return p }
	wiretest.TestEnds(t, open, map[string]wiretest.Ended{
		"K04 E: reset behind the end":   {Answer: done.Ending(responsestest.Reset)},
		"closed behind the end":         {Answer: done.Ending(responsestest.Drop)},
		"K04 A: reset in the answer":    {Answer: whole.Ending(responsestest.Reset), Code: "connection"},
		"closed in the answer":          {Answer: whole.Ending(responsestest.Drop), Code: "connection"},
		"ended in the answer":           {Answer: whole, Code: "cut"},
		"nothing closed behind the end": {Answer: done.Ending(responsestest.Hang)},
	})
}

// TestRefusals: each status and code has its class.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		status        int
		code, message string
		class         ports.FaultClass
	}{
		{400, "invalid_value", "input[0]: no", ports.Fatal},
		{400, "context_length_exceeded", "Your input exceeds the context window of this model.", ports.Overflow},
		{400, "unsupported_value", "Unsupported value: 'minimal' is not supported with this model: " + key, ports.Fatal},
		{401, "invalid_api_key", "Incorrect API key provided: " + key, ports.Fatal},
		{404, "model_not_found", "no", ports.Fatal},
		{413, "", "too large", ports.TooLarge},
		{429, "rate_limit_exceeded", "Rate limit reached for tokens", ports.Retryable},
		{429, "insufficient_quota", "You exceeded your current quota", ports.Fatal},
		{500, "server_error", "The server had an error", ports.Retryable},
		{503, "", "slow down", ports.Retryable},
	} {
		_, p := start(t, responsestest.Error(c.status, responsestest.Fault(c.code, c.message)))
		reply, err := ask(t, p, func(r *ports.ModelRequest) { r.Options.Thinking = "low" })
		fault := wiretest.Fault(t, err)
		require.Equal(t, c.class, fault.Class, "%v", fault)
		require.Equal(t, c.status, fault.Status)
		require.Empty(t, reply.Content)
	}
}

// TestRefusedParameters: what a model refuses is left out of the same request's next try, and of later ones.
func TestRefusedParameters(t *testing.T) {
	warm := 0.5
	for name, c := range map[string]struct {
		options ports.Options
		message string
		before  string
		after   string
	}{
		"temperature": {
			ports.Options{Temperature: &warm}, "Unsupported parameter: 'temperature' is not supported with this model.", `"temperature":0.5,`, ``,
		},
		"summaries": {
			ports.Options{Thinking: "low"}, "Your organization must be verified to generate reasoning summaries.", `,"summary":"auto"`, ``,
		},
		"reasoning": {
			ports.Options{Thinking: "low"}, "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
			`"reasoning":{"effort":"low","summary":"auto"},`, ``,
		},
		"encrypted content": {
			ports.Options{Thinking: "low"}, "Encrypted content is not supported with this model.", `"include":["reasoning.encrypted_content"],`, ``,
		},
		"include": {
			ports.Options{}, "Unknown parameter: 'include'.", `"include":["reasoning.encrypted_content"],`, ``,
		},
	} {
		t.Run(name, func(t *testing.T) {
			refusal := responsestest.Error(400, responsestest.Fault("invalid_request", c.message))
			s, p := start(t, refusal, hello, hello)
			options := func(r *ports.ModelRequest) { r.Options = c.options }
			for range 2 {
				_, err := ask(t, p, options)
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

			s.Push(refusal)
			_, err := ask(t, p, options)
			require.Equal(t, ports.Fatal, wiretest.Fault(t, err).Class, "the same refusal twice is a fault")
		})
	}
}

// TestRefusedReasoning: an item that the backend no longer takes costs a try, not the session.
func TestRefusedReasoning(t *testing.T) {
	s := responsestest.StartLenient(t)
	p := newProvider(t, openai.Config{BaseURL: s.URL(), Model: responsestest.Model})
	s.Push(hello)
	forged := domain.Message{Role: domain.RoleAssistant, Provider: p.Name(), Model: responsestest.Model, Content: []domain.Block{
		{Type: domain.ThinkingBlock, Signature: `reasoning_item:{"id":"rs_1","summary":[],"encrypted_content":"forged"}`}, {Type: domain.TextBlock, Text: "Yes."},
	}}
	_, err := ask(t, p, func(r *ports.ModelRequest) {
		r.Messages = []domain.Message{wiretest.User(wiretest.Text("a")), forged, wiretest.User(wiretest.Text("b"))}
	})
	require.NoError(t, err)
	require.Len(t, s.Refused(), 1)
	require.ErrorContains(t, s.Refused()[0], "could not be verified")
	require.Contains(t, string(s.Requests()[0].Body), "forged")
	require.NotContains(t, string(s.Requests()[1].Body), "forged")
	require.Contains(t, string(s.Requests()[1].Body), "reasoning.encrypted_content", "only what was sent back is left out")
}

// open is a wiretest.Opener.
func open(t testing.TB, base, key, model string) (ports.Provider, error) {
	return responses.New(openai.Config{BaseURL: base, APIKey: key, Model: model, HTTPClient: wiretest.Client(t)})
}

func TestAddresses(t *testing.T) { wiretest.TestAddresses(t, open) }

func TestDefaultModelIsDiscovered(t *testing.T) {
	s := responsestest.Start(t)
	wiretest.TestDefaultModel(t, s, open, `{"data":[{"id":"first"},{"id":"second"}]}`, hello)
}

func TestModels(t *testing.T) {
	s := responsestest.Start(t)
	s.SetModels(`{"data":[{"id":"first"},{"id":"second"}]}`)
	models, err := newProvider(t, openai.Config{BaseURL: s.URL(), Model: "second"}).Models(t.Context(), ports.Confidential{})
	require.NoError(t, err)
	require.Equal(t, []ports.Model{{ID: "second", Listed: true}, {ID: "first", Listed: true}}, models)
}

// TestCancelledAtTheEnd: a cancellation wins over an answer that was complete by then.
func TestCancelledAtTheEnd(t *testing.T) {
	_, p := start(t, responsestest.Completed(responsestest.Text("x")))
	wiretest.TestCancelledAtTheEnd(t, p)
}

// TestSilence: events that say nothing are no life, and anything else is.
func TestSilence(t *testing.T) {
	pieces, _ := responsestest.Text("x", "")(0)
	empty := pieces[2]
	nothing := responsestest.Event(`{"type":"keepalive"}`)
	open := func(t *testing.T, client *http.Client) ports.Provider {
		return newProvider(t, openai.Config{BaseURL: "http://x", Model: "m", HTTPClient: client, IdleTimeout: 10 * time.Second})
	}
	wiretest.TestSilence(t, 3*time.Second, open, map[string]wiretest.Silence{
		"keepalives":              {Pieces: []string{nothing}, Want: 10 * time.Second, Code: "idle"},
		"the response is created": {Pieces: []string{responsestest.Created(), nothing}, Want: 10 * time.Second, Code: "idle"},
		"empty pieces":            {Pieces: []string{pieces[0], empty}, Want: 13 * time.Second, Code: "idle"},
		"silence after some life": {Pieces: []string{pieces[0], pieces[1], nothing}, Want: 16 * time.Second, Code: "idle"},
	})
}

// TestLongDescriptions: a model that refuses a long description of a tool gets short ones from then on.
func TestLongDescriptions(t *testing.T) {
	s, p := start(t, responsestest.Error(400, responsestest.Fault("string_above_max_length",
		"Invalid 'tools[0].description': string too long. Expected a string with maximum length 1024, but got a string with length 1500 instead.")), hello, hello)
	for range 2 {
		_, err := ask(t, p, func(r *ports.ModelRequest) {
			r.Tools = []ports.ToolSpec{{Name: "f", Description: strings.Repeat("é", 1500)}}
		})
		require.NoError(t, err)
	}
	var lengths []int
	for _, r := range s.Requests() {
		lengths = append(lengths, strings.Count(string(r.Body), "é"))
	}
	require.Equal(t, []int{1500, 1017, 1017}, lengths)
}

// TestRefusedSideBySide: requests that were under way when another one taught what the model refuses learn the same.
func TestRefusedSideBySide(t *testing.T) {
	warm := 0.5
	refusal := responsestest.Error(400, responsestest.Fault("unsupported_parameter", "Unsupported parameter: 'temperature' is not supported with this model."))
	s, p := start(t)
	wiretest.TestRefusedSideBySide(t, s, p, func(r *ports.ModelRequest) { r.Options.Temperature = &warm }, refusal, hello)
}
