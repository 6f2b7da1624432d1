package openai_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai"
	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

const key = "sk-canary-0123456789"

func start(t *testing.T, answers ...openaitest.Response) (*openaitest.Server, *openai.Provider) {
	s := openaitest.Start(t)
	s.Push(answers...)
	return s, newProvider(t, openai.Config{BaseURL: s.URL(), Model: "test-model", APIKey: key})
}

func ask(t *testing.T, p *openai.Provider, options ...func(*ports.ModelRequest)) (ports.Reply, error) {
	return wiretest.Ask(t, p, key, options...)
}

var hello = openaitest.Stream(openaitest.Text("Hel"), openaitest.Text("lo"), openaitest.Finish("stop"), openaitest.Usage(3, 5))

func TestAnswerOverHTTP(t *testing.T) {
	s, p := start(t, hello)
	reply, err := ask(t, p)
	require.NoError(t, err)
	require.Equal(t, ports.Reply{
		Content:    []domain.Block{{Type: domain.TextBlock, Text: "Hello"}},
		StopReason: domain.StopEndTurn, Usage: &domain.Usage{Input: 3, Output: 5}, Model: "test-model",
	}, reply)
	require.Equal(t, "Bearer "+key, s.Requests()[0].Header.Get("Authorization"))
	require.Equal(t, "openai", p.Name())
}

// TestSplitsOverHTTP sends streams in two writes, cut at places spread over the whole.
func TestSplitsOverHTTP(t *testing.T) {
	body := openaitest.Event(openaitest.Text("5 € 😀")) + ": ping\n\n" + openaitest.Event(openaitest.CallHead(0, "ca", "f")) +
		openaitest.Event(openaitest.CallArguments(0, `{"s":"€"}`)) + openaitest.Event(openaitest.Finish("tool_calls")) + openaitest.Done
	s, p := start(t)
	for cut := 1; cut < len(body); cut += 37 {
		s.Push(openaitest.Bytes(body[:cut], body[cut:]))
		reply, err := ask(t, p)
		require.NoError(t, err)
		require.Equal(t, []domain.Block{
			{Type: domain.TextBlock, Text: "5 € 😀"}, {Type: domain.CallBlock, ProviderID: "ca", Name: "f", Arguments: `{"s":"€"}`},
		}, reply.Content, "cut at byte %d", cut)
	}
}

func TestEndsOfConnections(t *testing.T) {
	good := []string{openaitest.Text("Hello"), openaitest.Finish("stop")}
	open := func(t *testing.T, answer wiretest.Response) ports.Provider { _, p := start(t, answer); return p }
	wiretest.TestEnds(t, open, map[string]wiretest.Ended{
		"K04 E: reset behind the finish reason": {Answer: openaitest.Events(good...).Ending(openaitest.Reset)},
		"closed behind the finish reason":       {Answer: openaitest.Events(good...).Ending(openaitest.Drop)},
		"K04 A: reset in the answer":            {Answer: openaitest.Events(good[0]).Ending(openaitest.Reset), Code: "connection"},
		"closed in the answer":                  {Answer: openaitest.Events(good[0]).Ending(openaitest.Drop), Code: "connection"},
		"closed in a frame":                     {Answer: openaitest.Bytes(openaitest.Event(good[0]) + "data: {").Ending(openaitest.Drop), Code: "connection"},
		"ended in a frame":                      {Answer: openaitest.Bytes(openaitest.Event(good[0]) + "data: {"), Code: "cut"},
	})
}

func TestKeyIsNeverTold(t *testing.T) {
	quoting := openaitest.Fault("Incorrect API key provided: "+key, "invalid_api_key")
	_, p := start(t,
		openaitest.Error(401, quoting), openaitest.Error(500, "no "+key), openaitest.Whole(quoting),
		openaitest.Stream(openaitest.Text("x"), quoting), openaitest.Bytes(key+"\n"),
	)
	for range 5 {
		_, err := ask(t, p)
		require.Contains(t, err.Error(), "[redacted]")
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	s, p := start(t)
	s.Push(openaitest.Response{Status: http.StatusPermanentRedirect, Header: map[string]string{"Location": s.URL() + "/chat/completions"}})
	_, err := ask(t, p)
	require.Equal(t, ports.Fatal, wiretest.Fault(t, err).Class)
	require.Len(t, s.Requests(), 1)
}

// TestRefusedParameters: what a model refuses is left out of the same request's next try, and of later ones.
func TestRefusedParameters(t *testing.T) {
	warm := 0.7
	s, p := start(t,
		openaitest.Error(400, openaitest.Fault("Unknown parameter: 'stream_options'.", "unknown_parameter")),
		openaitest.Error(400, openaitest.Fault("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", "unsupported_parameter")),
		openaitest.Error(400, coldRefused),
		hello, hello, hello,
	)
	options := func(r *ports.ModelRequest) { r.Options = ports.Options{MaxTokens: 7, Temperature: &warm} }
	another := func(r *ports.ModelRequest) { options(r); r.Model = "another" }
	for _, asked := range []func(*ports.ModelRequest){options, options, another} {
		_, err := ask(t, p, asked)
		require.NoError(t, err)
	}
	var got []string
	for _, r := range s.Requests() {
		_, tail, _ := strings.Cut(string(r.Body), `}],`)
		got = append(got, tail)
	}
	require.Equal(t, []string{
		`"temperature":0.7,"max_tokens":7,"stream":true,"stream_options":{"include_usage":true}}`,
		`"temperature":0.7,"max_tokens":7,"stream":true}`,
		`"temperature":0.7,"max_completion_tokens":7,"stream":true}`,
		`"max_completion_tokens":7,"stream":true}`,
		`"max_completion_tokens":7,"stream":true}`,
		`"temperature":0.7,"max_tokens":7,"stream":true}`,
	}, got, "what was refused is remembered, of a model what that one refused")

	for _, again := range []string{openaitest.Fault("stream_options again", "x"), coldRefused} {
		s.Push(openaitest.Error(400, again))
		_, err := ask(t, p, options)
		require.Equal(t, ports.Fatal, wiretest.Fault(t, err).Class, "the same refusal twice is a fault")
	}
}

// coldRefused is what models that reason say of a temperature.
const coldRefused = `{"error":{"message":"Unsupported value: 'temperature' does not support 0.7 with this model. Only the default (1) value is supported.",` +
	`"type":"invalid_request_error","param":"temperature","code":"unsupported_value"}}`

func TestRetryAfter(t *testing.T) {
	_, p := start(t, openaitest.TooMany("86400"), openaitest.TooMany("-5"), openaitest.TooMany("1.5"),
		openaitest.Response{Header: map[string]string{"Retry-After-Ms": "250"}, Steps: []openaitest.Step{{Write: openaitest.Event(openaitest.Fault("slow", "429"))}}})
	for _, want := range []time.Duration{24 * time.Hour, 0, 1500 * time.Millisecond, 250 * time.Millisecond} {
		_, err := ask(t, p)
		require.Equal(t, want, wiretest.Fault(t, err).RetryAfter)
		require.Equal(t, ports.Retryable, wiretest.Fault(t, err).Class)
	}
}

func TestModels(t *testing.T) {
	s := openaitest.Start(t)
	for _, c := range []struct {
		body, configured string
		want             []ports.Model
	}{
		{`{"data":[{"id":"a","context_length":8192},{"id":"b","max_model_len":"4096"},{"id":"a"},{}]}`, "", []ports.Model{{ID: "a", ContextWindow: 8192, Listed: true}, {ID: "b", ContextWindow: 4096, Listed: true}}},
		{`{"data":[{"id":"a"},{"id":"b"}]}`, "b", []ports.Model{{ID: "b", Listed: true}, {ID: "a", Listed: true}}},
		{`{"data":[{"id":"a"}]}`, "hidden", []ports.Model{{ID: "hidden"}, {ID: "a", Listed: true}}},
		{`{"models":[{"name":"a","meta":{"n_ctx":512}}]}`, "", []ports.Model{{ID: "a", ContextWindow: 512, Listed: true}}},
		{`["a"]`, "", []ports.Model{{ID: "a", Listed: true}}},
		{`{"data":null}`, "", nil},
		{`hello`, "c", []ports.Model{{ID: "c"}}},
		{``, "c", []ports.Model{{ID: "c"}}},
	} {
		s.SetModels(c.body)
		got, err := newProvider(t, openai.Config{BaseURL: s.URL(), Model: c.configured}).Models(t.Context(), ports.Confidential{})
		require.NoError(t, err)
		require.Equal(t, c.want, got, c.body)
	}
}

func TestManyModels(t *testing.T) {
	wiretest.TestManyModels(t, openaitest.Start(t), open, `{"data":[`, `{"id":"m%d"}`, `]}`)
}

// open is a wiretest.Opener.
func open(t testing.TB, base, key, model string) (ports.Provider, error) {
	return openai.New(openai.Config{BaseURL: base, APIKey: key, Model: model, HTTPClient: wiretest.Client(t)})
}

func TestAddresses(t *testing.T) { wiretest.TestAddresses(t, open) }

func TestDefaultModelIsDiscovered(t *testing.T) {
	s := openaitest.Start(t)
	wiretest.TestDefaultModel(t, s, open, `{"data":[{"id":"first"},{"id":"second"}]}`, hello)
}

func fromEnv(getenv func(string) string) (wiretest.Closing, error) {
	cfg, err := openai.ConfigFromEnv(getenv)
	if err != nil {
		return nil, err
	}
	return openai.New(cfg)
}

func TestFromEnv(t *testing.T) {
	s := openaitest.Start(t)
	requests := wiretest.TestEnvironment(t, s, hello, wiretest.Environment{
		Prefix: "OPENAI", NotConfigured: openai.ErrNotConfigured, Open: fromEnv,
		Bases: []string{s.URL(), s.URL() + "/", s.Origin(), s.Origin() + "/"},
	})
	require.Empty(t, requests[0].Header.Get("Authorization"))
}

func TestConcurrentUse(t *testing.T) {
	s, p := start(t)
	var wg sync.WaitGroup
	for range 8 {
		s.Push(hello)
		wg.Go(func() {
			reply, err := p.Generate(t.Context(), ports.ModelRequest{}, func(ports.Delta) {})
			if err != nil || reply.Content[0].Text != "Hello" {
				t.Errorf("%v, %v", reply, err)
			}
		})
	}
	wg.Wait()
}

// TestCancelledAtTheEnd: a cancellation wins over an answer that was complete by then.
func TestCancelledAtTheEnd(t *testing.T) {
	_, p := start(t, openaitest.Bytes(openaitest.Event(openaitest.Text("x"))+openaitest.Event(openaitest.Finish("stop"))+openaitest.Done))
	wiretest.TestCancelledAtTheEnd(t, p)
}

// TestSilence: neither comments nor empty chunks are life, and anything else is.
func TestSilence(t *testing.T) {
	piece := openaitest.Event(openaitest.Text("x"))
	open := func(t *testing.T, client *http.Client) ports.Provider {
		return newProvider(t, openai.Config{BaseURL: "http://x", Model: "m", HTTPClient: client, IdleTimeout: 10 * time.Second})
	}
	wiretest.TestSilence(t, 3*time.Second, open, map[string]wiretest.Silence{
		"comments":                    {Pieces: []string{": ping\n\n"}, Want: 10 * time.Second, Code: "idle"},
		"chunks without choices":      {Pieces: []string{`data: {"choices":[]}` + "\n\n"}, Want: 10 * time.Second, Code: "idle"},
		"chunks of another choice":    {Pieces: []string{piece, `data: {"choices":[{"index":1,"delta":{"content":"x"}}]}` + "\n\n"}, Want: 13 * time.Second, Code: "idle"},
		"empty deltas":                {Pieces: []string{`data: {"choices":[{"index":0,"delta":{}}]}` + "\n\n"}, Want: 10 * time.Second, Code: "idle"},
		"empty text and role":         {Pieces: []string{`data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"}, Want: 10 * time.Second, Code: "idle"},
		"silence after some life":     {Pieces: []string{piece, piece, ": ping\n\n"}, Want: 16 * time.Second, Code: "idle"},
		"no end behind a good finish": {Pieces: []string{piece, openaitest.Event(openaitest.Finish("stop")), ": ping\n\n"}, Want: 9 * time.Second},
	})
}

// TestRefusedSideBySide: a request that was under way when another one taught what the model refuses learns the same.
func TestRefusedSideBySide(t *testing.T) {
	refusal := openaitest.Error(400, openaitest.Fault("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", "unsupported_parameter"))
	s, p := start(t)
	wiretest.TestRefusedSideBySide(t, s, p, func(r *ports.ModelRequest) { r.Options.MaxTokens = 7 }, refusal, hello)
}
