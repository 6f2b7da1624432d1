package gemini_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/gemini"
	"github.com/keel-agent/keel/adapters/providers/gemini/geminitest"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

const key = "AIza-canary-0123456789"

func start(t *testing.T, answers ...geminitest.Response) (*geminitest.Server, *gemini.Provider) {
	s := geminitest.Start(t)
	s.Push(answers...)
	return s, newProvider(t, gemini.Config{BaseURL: s.URL(), Model: geminitest.Model, APIKey: key})
}

func ask(t *testing.T, p *gemini.Provider, options ...func(*ports.ModelRequest)) (ports.Reply, error) {
	return wiretest.Ask(t, p, key, options...)
}

var hello = geminitest.Stream(geminitest.Chunk(geminitest.Text("Hel")), geminitest.Last("STOP", geminitest.Text("lo")))

func TestAnswerOverHTTP(t *testing.T) {
	s, p := start(t, hello)
	reply, err := ask(t, p)
	require.NoError(t, err)
	require.Equal(t, ports.Reply{
		Content:    []domain.Block{{Type: domain.TextBlock, Text: "Hello"}},
		StopReason: domain.StopEndTurn, Usage: &domain.Usage{Input: 3, Output: 5}, Model: geminitest.Model,
	}, reply)
	r := s.Requests()[0]
	require.Equal(t, "/v1beta/models/"+geminitest.Model+":streamGenerateContent", r.Path)
	require.Equal(t, "alt=sse", r.Query, "the key is in no URL")
	require.Equal(t, key, r.Header.Get("X-Goog-Api-Key"))
	require.Equal(t, "application/json", r.Header.Get("Content-Type"))
	require.Equal(t, "gemini", p.Name())
}

func TestEndsOfConnections(t *testing.T) {
	begun := geminitest.Stream(geminitest.Chunk(geminitest.Text("Hello")))
	stopped := geminitest.Stream(geminitest.Last("STOP", geminitest.Text("Hello")))
	open := func(t *testing.T, answer wiretest.Response) ports.Provider { _, p := start(t, answer); return p }
	wiretest.TestEnds(t, open, map[string]wiretest.Ended{
		"K04 E: reset behind the finish reason": {Answer: stopped.Ending(geminitest.Reset)},
		"closed behind the finish reason":       {Answer: stopped.Ending(geminitest.Drop)},
		"K04 A: reset in the answer":            {Answer: begun.Ending(geminitest.Reset), Code: "connection"},
		"closed in the answer":                  {Answer: begun.Ending(geminitest.Drop), Code: "connection"},
		"ended in the answer":                   {Answer: begun, Code: "cut"},
	})
}

// TestRefusals: each status has its class (K33: overflow is told from too many bytes and from a rate limit).
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		status  int
		message string
		code    string
		class   ports.FaultClass
	}{
		{400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", "INVALID_ARGUMENT", ports.Overflow},
		{400, "Request payload size exceeds the limit: 20971520 bytes.", "INVALID_ARGUMENT", ports.TooLarge},
		{400, "Request contains an invalid argument.", "INVALID_ARGUMENT", ports.Fatal},
		{401, "Request had invalid authentication credentials: " + key, "UNAUTHENTICATED", ports.Fatal},
		{403, "Method doesn't allow unregistered callers.", "PERMISSION_DENIED", ports.Fatal},
		{404, "models/gemini-x is not found for API version v1beta", "NOT_FOUND", ports.Fatal},
		{413, "too large", "413", ports.TooLarge},
		{429, "Resource has been exhausted (e.g. check quota): too many tokens.", "RESOURCE_EXHAUSTED", ports.Retryable},
		{500, "An internal error has occurred.", "INTERNAL", ports.Retryable},
		{503, "The model is overloaded. Please try again later.", "UNAVAILABLE", ports.Retryable},
		{504, "Deadline expired before operation could complete.", "DEADLINE_EXCEEDED", ports.Retryable},
	} {
		_, p := start(t, geminitest.Error(c.status, geminitest.Fault(c.status, c.message)), geminitest.Error(c.status, "["+geminitest.Fault(c.status, c.message)+"]"))
		for range 2 { // as an object, and in a list
			reply, err := ask(t, p)
			fault := wiretest.Fault(t, err)
			require.Equal(t, c.class, fault.Class, "%v", fault)
			require.Equal(t, c.code, fault.Code)
			require.Equal(t, c.status, fault.Status)
			require.Empty(t, reply.Content)
		}
	}
}

func TestKeyIsNeverTold(t *testing.T) {
	quoting := geminitest.Fault(400, "API key not valid: "+key)
	_, p := start(t,
		geminitest.Error(400, quoting), geminitest.Error(500, "no "+key), geminitest.Whole(quoting),
		geminitest.Stream(geminitest.Chunk(geminitest.Text("Hm")), quoting), geminitest.Bytes(key+"\n"),
	)
	for range 5 {
		_, err := ask(t, p)
		require.Contains(t, err.Error(), "[redacted]")
	}
}

// TestWaits: the header counts before what the error says in itself, which counts inside a stream, too.
func TestWaits(t *testing.T) {
	limited := geminitest.Fault(429, "You exceeded your current quota", geminitest.RetryIn(37))
	header := geminitest.Error(429, limited)
	header.Header["Retry-After"] = "5"
	inside := geminitest.Stream(geminitest.Chunk(geminitest.Text("Hm")), limited)
	inside.Header = map[string]string{"Retry-After": "5"}
	_, p := start(t, geminitest.Error(429, limited), header, inside, geminitest.Error(429, geminitest.Fault(429, "slow down")))
	for _, want := range []time.Duration{37 * time.Second, 5 * time.Second, 37 * time.Second, 0} {
		_, err := ask(t, p)
		require.Equal(t, want, wiretest.Fault(t, err).RetryAfter)
		require.Equal(t, ports.Retryable, wiretest.Fault(t, err).Class)
	}
}

func TestModels(t *testing.T) {
	s := geminitest.Start(t)
	asked := 0
	s.SetModelPages(func(r *http.Request) string {
		asked++
		switch r.URL.Query().Get("pageToken") {
		case "":
			return `{"models":[{"name":"models/a","inputTokenLimit":1048576,"supportedGenerationMethods":["generateContent","countTokens"]},
				{"name":"models/embedding","supportedGenerationMethods":["embedContent"]},{"name":"models/b"},{}],"nextPageToken":"p2"}`
		case "p2":
			return `{"models":[{"name":"models/c"},{"name":"models/a"}],"nextPageToken":"p3"}`
		}
		return `{"models":[],"nextPageToken":"p3"}`
	})
	for configured, want := range map[string][]ports.Model{
		"":         {{ID: "a", ContextWindow: 1048576}, {ID: "b"}, {ID: "c"}},
		"models/c": {{ID: "c"}, {ID: "a", ContextWindow: 1048576}, {ID: "b"}},
		"hidden":   {{ID: "hidden"}, {ID: "a", ContextWindow: 1048576}, {ID: "b"}, {ID: "c"}},
	} {
		got, err := newProvider(t, gemini.Config{BaseURL: s.URL(), Model: configured}).Models(t.Context(), ports.Confidential{})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.Equal(t, 9, asked, "three pages each: the backend repeats itself")
	s.SetModels("")
	got, err := newProvider(t, gemini.Config{BaseURL: s.URL(), Model: "x"}).Models(t.Context(), ports.Confidential{})
	require.NoError(t, err)
	require.Equal(t, []ports.Model{{ID: "x"}}, got)
}

func TestManyModels(t *testing.T) {
	wiretest.TestManyModels(t, geminitest.Start(t), open, `{"models":[`, `{"name":"models/m%d"}`, `],"nextPageToken":"x"}`)
}

// open is a wiretest.Opener.
func open(t testing.TB, base, key, model string) (ports.Provider, error) {
	return gemini.New(gemini.Config{BaseURL: base, APIKey: key, Model: model, HTTPClient: wiretest.Client(t)})
}

func TestAddresses(t *testing.T) { wiretest.TestAddresses(t, open) }

func TestDefaultModelIsDiscovered(t *testing.T) {
	s := geminitest.Start(t)
	wiretest.TestDefaultModel(t, s, open, `{"models":[{"name":"models/first"},{"name":"models/second"}]}`, hello)
}

func fromEnv(getenv func(string) string) (wiretest.Closing, error) {
	cfg, err := gemini.ConfigFromEnv(getenv)
	if err != nil {
		return nil, err
	}
	return gemini.New(cfg)
}

func TestFromEnv(t *testing.T) {
	s := geminitest.Start(t)
	requests := wiretest.TestEnvironment(t, s, hello, wiretest.Environment{
		Prefix: "GEMINI", NotConfigured: gemini.ErrNotConfigured, Open: fromEnv,
		Bases: []string{s.URL(), s.URL() + "/", s.URL() + "/v1beta", s.URL() + "/v1beta/"},
	})
	require.Empty(t, requests[0].Header.Get("X-Goog-Api-Key"))
}

// TestOtherNamesInEnv: Google's own name of the key counts where GEMINI_API_KEY is not set, and models go by either name.
func TestOtherNamesInEnv(t *testing.T) {
	s := geminitest.Start(t)
	env := map[string]string{"GEMINI_BASE_URL": s.URL(), "GOOGLE_API_KEY": key + "\n", "GEMINI_MODEL": "models/local"}
	for _, want := range []string{key, "AIza-other-0123"} {
		s.Push(hello)
		p, err := fromEnv(func(name string) string { return env[name] })
		require.NoError(t, err)
		_, err = wiretest.Ask(t, p, key)
		p.Close()
		require.NoError(t, err)
		asked := s.Requests()[len(s.Requests())-1]
		require.Equal(t, want, asked.Header.Get("X-Goog-Api-Key"))
		require.Equal(t, "/v1beta/models/local:streamGenerateContent", asked.Path)
		env["GEMINI_API_KEY"] = "AIza-other-0123"
	}
}

func TestModelsWhileCancelled(t *testing.T) {
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	_, p := start(t)
	models, err := p.Models(ctx, ports.Confidential{})
	require.Empty(t, models)
	require.ErrorIs(t, err, enough)
}

// TestCancelledAtTheEnd: a cancellation wins over an answer that was complete by then.
func TestCancelledAtTheEnd(t *testing.T) {
	_, p := start(t, geminitest.Stream(geminitest.Last("STOP", geminitest.Text("x"))))
	wiretest.TestCancelledAtTheEnd(t, p)
}

// TestSilence: comments and chunks without content are no life, and content is. A finish reason is waited behind for
// usage, and what is no finish after all starts the silence anew.
func TestSilence(t *testing.T) {
	piece := geminitest.Event(geminitest.Chunk(geminitest.Text("x")))
	empty := geminitest.Event(geminitest.Chunk())
	stop := geminitest.Event(geminitest.Last("STOP"))
	open := func(t *testing.T, client *http.Client) ports.Provider {
		return newProvider(t, gemini.Config{BaseURL: "http://x", Model: "m", HTTPClient: client, IdleTimeout: 10 * time.Second})
	}
	wiretest.TestSilence(t, 2*time.Second, open, map[string]wiretest.Silence{
		"comments":                    {Pieces: []string{": ping\n\n"}, Want: 10 * time.Second, Code: "idle"},
		"empty chunks":                {Pieces: []string{piece, empty}, Want: 12 * time.Second, Code: "idle"},
		"silence after some life":     {Pieces: []string{piece, piece, empty}, Want: 14 * time.Second, Code: "idle"},
		"no end behind the stop":      {Pieces: []string{piece, stop, ": ping\n\n"}, Want: 7 * time.Second},
		"content behind the stop":     {Pieces: []string{stop, piece, empty}, Want: 14 * time.Second, Code: "idle"},
		"a second stop behind a text": {Pieces: []string{stop, piece, stop, ": ping\n\n"}, Want: 9 * time.Second},
	})
}
