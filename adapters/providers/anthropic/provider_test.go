package anthropic_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/anthropic"
	"github.com/keel-agent/keel/adapters/providers/anthropic/anthropictest"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

const key = "sk-ant-canary-0123456789"

func start(t *testing.T, answers ...anthropictest.Response) (*anthropictest.Server, *anthropic.Provider) {
	s := anthropictest.Start(t)
	s.Push(answers...)
	return s, newProvider(t, anthropic.Config{BaseURL: s.URL(), Model: anthropictest.Model, APIKey: key})
}

func ask(t *testing.T, p *anthropic.Provider, options ...func(*ports.ModelRequest)) (ports.Reply, error) {
	return wiretest.Ask(t, p, key, options...)
}

var hello = anthropictest.Stream("end_turn", anthropictest.Text("Hel", "lo"))

func TestAnswerOverHTTP(t *testing.T) {
	s, p := start(t, hello)
	reply, err := ask(t, p)
	require.NoError(t, err)
	require.Equal(t, ports.Reply{
		Content:    []domain.Block{{Type: domain.TextBlock, Text: "Hello"}},
		StopReason: domain.StopEndTurn, Usage: &domain.Usage{Input: 3, Output: 5}, Model: anthropictest.Model,
	}, reply)
	require.Equal(t, key, s.Requests()[0].Header.Get("X-Api-Key"))
	require.Equal(t, "2023-06-01", s.Requests()[0].Header.Get("Anthropic-Version"))
	require.Equal(t, "application/json", s.Requests()[0].Header.Get("Content-Type"))
	require.Equal(t, "anthropic", p.Name())
}

func TestEndsOfConnections(t *testing.T) {
	whole := anthropictest.Begun(anthropictest.Text("Hello"))
	stopped := anthropictest.Begun(anthropictest.Text("Hello"))
	stopped.Steps = append(stopped.Steps, anthropictest.Step{Write: anthropictest.Stop("end_turn")})
	open := func(t *testing.T, answer wiretest.Response) ports.Provider { _, p := start(t, answer); return p }
	wiretest.TestEnds(t, open, map[string]wiretest.Ended{
		"K04 E: reset behind the stop reason": {Answer: stopped.Ending(anthropictest.Reset)},
		"closed behind the stop reason":       {Answer: stopped.Ending(anthropictest.Drop)},
		"K04 A: reset in the answer":          {Answer: whole.Ending(anthropictest.Reset), Code: "connection"},
		"closed in the answer":                {Answer: whole.Ending(anthropictest.Drop), Code: "connection"},
		"ended in the answer":                 {Answer: whole, Code: "cut"},
	})
}

// TestRefusals: each status and type of error has its class.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		status        int
		kind, message string
		class         ports.FaultClass
	}{
		{400, "invalid_request_error", "messages.0: no", ports.Fatal},
		{400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", ports.Overflow},
		{400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000", ports.Overflow},
		{400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API.", ports.Fatal},
		{401, "authentication_error", "invalid x-api-key: " + key, ports.Fatal},
		{402, "billing_error", "pay", ports.Fatal},
		{403, "permission_error", "not yours", ports.Fatal},
		{404, "not_found_error", "model: x", ports.Fatal},
		{413, "request_too_large", "Request exceeds the maximum size", ports.TooLarge},
		{429, "rate_limit_error", "This request would exceed your limit of 30,000 input tokens per minute", ports.Retryable},
		{500, "api_error", "Internal server error", ports.Retryable},
		{504, "timeout_error", "slow", ports.Retryable},
		{529, "overloaded_error", "Overloaded", ports.Retryable},
	} {
		_, p := start(t, anthropictest.Error(c.status, anthropictest.Fault(c.kind, c.message)))
		reply, err := ask(t, p)
		fault := wiretest.Fault(t, err)
		require.Equal(t, c.class, fault.Class, "%v", fault)
		require.Equal(t, c.kind, fault.Code)
		require.Equal(t, c.status, fault.Status)
		require.Empty(t, reply.Content)
	}
}

func TestKeyIsNeverTold(t *testing.T) {
	quoting := anthropictest.Fault("authentication_error", "invalid x-api-key: "+key)
	_, p := start(t,
		anthropictest.Error(401, quoting), anthropictest.Error(500, "no "+key), anthropictest.Whole(quoting),
		anthropictest.Events(anthropictest.Begin(), anthropictest.Event(quoting)), anthropictest.Bytes(key+"\n"),
	)
	for range 5 {
		_, err := ask(t, p)
		require.Contains(t, err.Error(), "[redacted]")
	}
}

func TestRetryAfter(t *testing.T) {
	limited := func(header, value string) anthropictest.Response {
		r := anthropictest.Error(429, anthropictest.Fault("rate_limit_error", "slow down"))
		r.Header[header] = value
		return r
	}
	inside := anthropictest.Events(anthropictest.Event(anthropictest.Fault("overloaded_error", "Overloaded")))
	inside.Header = map[string]string{"Retry-After-Ms": "250"}
	_, p := start(t, limited("Retry-After", "86400"), limited("Retry-After", "1.5"), limited("Retry-After", "1m30s"), inside)
	for _, want := range []time.Duration{24 * time.Hour, 1500 * time.Millisecond, 90 * time.Second, 250 * time.Millisecond} {
		_, err := ask(t, p)
		require.Equal(t, want, wiretest.Fault(t, err).RetryAfter)
		require.Equal(t, ports.Retryable, wiretest.Fault(t, err).Class)
	}
}

func TestModels(t *testing.T) {
	s := anthropictest.Start(t)
	s.SetModelPages(func(r *http.Request) string {
		switch r.URL.Query().Get("after_id") {
		case "":
			return `{"data":[{"type":"model","id":"a","max_input_tokens":200000},{"id":"b"},{}],"has_more":true,"last_id":"b"}`
		case "b":
			return `{"data":[{"id":"c"},{"id":"a"}],"has_more":true,"last_id":"c"}`
		}
		return `{"data":[],"has_more":true,"last_id":"c"}`
	})
	for configured, want := range map[string][]ports.Model{
		"":       {{ID: "a", ContextWindow: 200000}, {ID: "b"}, {ID: "c"}},
		"c":      {{ID: "c"}, {ID: "a", ContextWindow: 200000}, {ID: "b"}},
		"hidden": {{ID: "hidden"}, {ID: "a", ContextWindow: 200000}, {ID: "b"}, {ID: "c"}},
	} {
		got, err := newProvider(t, anthropic.Config{BaseURL: s.URL(), Model: configured}).Models(t.Context(), ports.Confidential{})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	s.SetModels("")
	got, err := newProvider(t, anthropic.Config{BaseURL: s.URL(), Model: "x"}).Models(t.Context(), ports.Confidential{})
	require.NoError(t, err)
	require.Equal(t, []ports.Model{{ID: "x"}}, got)
}

func TestManyModels(t *testing.T) {
	wiretest.TestManyModels(t, anthropictest.Start(t), open, `{"data":[`, `{"id":"m%d"}`, `],"has_more":true,"last_id":"x"}`)
}

// open is a wiretest.Opener.
func open(t testing.TB, base, key, model string) (ports.Provider, error) {
	return anthropic.New(anthropic.Config{BaseURL: base, APIKey: key, Model: model, HTTPClient: wiretest.Client(t)})
}

func TestAddresses(t *testing.T) { wiretest.TestAddresses(t, open) }

func TestDefaultModelIsDiscovered(t *testing.T) {
	s := anthropictest.Start(t)
	wiretest.TestDefaultModel(t, s, open, `{"data":[{"id":"first"},{"id":"second"}]}`, hello)
}

func fromEnv(getenv func(string) string) (wiretest.Closing, error) {
	cfg, err := anthropic.ConfigFromEnv(getenv)
	if err != nil {
		return nil, err
	}
	return anthropic.New(cfg)
}

func TestFromEnv(t *testing.T) {
	s := anthropictest.Start(t)
	requests := wiretest.TestEnvironment(t, s, hello, wiretest.Environment{
		Prefix: "ANTHROPIC", NotConfigured: anthropic.ErrNotConfigured, Open: fromEnv,
		Bases: []string{s.URL(), s.URL() + "/", s.URL() + "/v1", s.URL() + "/v1/"},
	})
	require.Empty(t, requests[0].Header.Get("X-Api-Key"))
}

// TestCancelledAtTheEnd: a cancellation wins over an answer that was complete by then.
func TestCancelledAtTheEnd(t *testing.T) {
	_, p := start(t, anthropictest.Stream("end_turn", anthropictest.Text("x")))
	wiretest.TestCancelledAtTheEnd(t, p)
}

// TestSilence: pings are no life, inside a block or outside of one, and anything else is.
func TestSilence(t *testing.T) {
	pieces := anthropictest.Text("x", "y")(0)
	empty := anthropictest.Text("", "")(0)[1]
	open := func(t *testing.T, client *http.Client) ports.Provider {
		return newProvider(t, anthropic.Config{BaseURL: "http://x", Model: "m", HTTPClient: client, IdleTimeout: 10 * time.Second})
	}
	wiretest.TestSilence(t, 3*time.Second, open, map[string]wiretest.Silence{
		"pings":                   {Pieces: []string{anthropictest.Ping()}, Want: 10 * time.Second, Code: "idle"},
		"pings inside a block":    {Pieces: []string{anthropictest.Begin(), pieces[0], anthropictest.Ping()}, Want: 16 * time.Second, Code: "idle"},
		"empty pieces":            {Pieces: []string{pieces[0], empty}, Want: 13 * time.Second, Code: "idle"},
		"silence after some life": {Pieces: []string{pieces[0], pieces[1], pieces[2], anthropictest.Ping()}, Want: 19 * time.Second, Code: "idle"},
		"no end behind the stop":  {Pieces: []string{pieces[0], pieces[1], anthropictest.Stop("end_turn"), anthropictest.Ping()}, Want: 12 * time.Second},
	})
}
