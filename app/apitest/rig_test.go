// Package apitest drives the HTTP side over a real connection, on the memory store: handlers, service and streams
// together. Every exchange of its client is held against the OpenAPI document.
package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/keel-agent/keel/adapters/bus"
	"github.com/keel-agent/keel/adapters/httpapi"
	"github.com/keel-agent/keel/adapters/memory"
	"github.com/keel-agent/keel/adapters/sse"
	"github.com/keel-agent/keel/app/models"
	"github.com/keel-agent/keel/app/secrets"
	"github.com/keel-agent/keel/app/service"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a whole server without a runner; worker plays that part.
type rig struct {
	*client
	store    *memory.Store
	partials *bus.Partials
	clock    *clock
	url      string
	drain    func() // ends streams
	stop     func() // begins to drain
	ended    chan struct{}
}

// tokens of the rig's tenants.
const (
	ours   = "token-of-ours"
	theirs = "token-of-theirs"
)

// keyOfSecrets is what the rig seals secrets under.
const keyOfSecrets = "jVbXH7wG0k9nqWm3s5A1rT8yZ2uL6cP4eDfEoBhJtQI="

// notifiers tells all of them of each commit.
type notifiers struct{ all []ports.Notifier }

func (n *notifiers) Committed(c ports.Commit) {
	for _, each := range n.all {
		each.Committed(c)
	}
}

// streamLedger is what the streams read.
type streamLedger struct {
	*memory.Store
	memory.Sessions
}

type option func(*httpapi.Config, *sse.Config)

func newRig(t *testing.T, options ...option) *rig {
	t.Helper()
	r := &rig{partials: &bus.Partials{}, clock: newClock(), ended: make(chan struct{}, 1024)}
	hub, notify := &bus.Hub{}, &notifiers{}
	r.store = memory.New(memory.Config{Now: r.clock.Now, Notifier: notify})
	keys, err := secrets.ParseKeys("k1:" + keyOfSecrets)
	require.NoError(t, err)
	svc := service.New(service.Deps{
		Secrets: secrets.New(r.store.Secrets(), keys, r.clock),
		Ledger:  r.store, Sessions: r.store.Sessions(), Runs: r.store.Runs(), Clock: r.clock, IDs: ids{},
		Features: map[string]bool{"partials": true},
		Models:   models.New(models.Config{Settings: r.store.Settings(), Providers: []ports.Provider{anyModel{}}}),
	})
	drain, stop := make(chan struct{}), make(chan struct{})
	r.drain, r.stop = sync.OnceFunc(func() { close(drain) }), sync.OnceFunc(func() { close(stop) })
	feeds := sse.NewHub(sse.HubConfig{Cursors: svc, Ledger: streamLedger{r.store, r.store.Sessions()}, Wakeups: hub})
	t.Cleanup(feeds.Close)
	notify.all = []ports.Notifier{hub, feeds}
	streams := sse.Config{Source: feeds, Partials: r.partials, Drain: drain}
	cfg := httpapi.Config{
		Service: svc, IDs: ids{}, ServiceVersion: "keel-agent/test", Draining: stop,
		Auth: httpapi.NewTokens(map[string]string{ours: "ours", theirs: "theirs"}),
	}
	for _, o := range options {
		o(&cfg, &streams)
	}
	cfg.Streams = tellEnds{sse.New(streams), r.ended}
	listener, err := httpapi.Listen(t.Context(), "127.0.0.1:0", false)
	require.NoError(t, err)
	server := &httptest.Server{Listener: httpapi.Patient(listener), Config: &http.Server{Handler: httpapi.New(cfg)}}
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	r.url = server.URL
	r.client = newClient(t, server, ours)
	return r
}

// anyModel is a provider that does not tell which models it has.
type anyModel struct{ ports.Provider }

func (anyModel) Name() string                                                      { return "fake" }
func (anyModel) Models(context.Context, ports.Confidential) ([]ports.Model, error) { return nil, nil }

// tellEnds says when a stream is over.
type tellEnds struct {
	httpapi.Streams
	ended chan struct{}
}

func (s tellEnds) Serve(w http.ResponseWriter, r *http.Request, ref domain.SessionRef, after domain.Seq, partials bool) error {
	defer func() { s.ended <- struct{}{} }()
	return s.Streams.Serve(w, r, ref, after, partials)
}

type ids struct{}

func (ids) New() string     { return uuid.Must(uuid.NewV7()).String() }
func (ids) Jitter() float64 { return 0 }

// clock moves one millisecond with each look, and on demand.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) Now() time.Time          { return time.UnixMilli(c.ms.Add(1)).UTC() }
func (c *clock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// client talks to a rig as one tenant.
type client struct {
	t      *testing.T
	http   *http.Client
	url    string
	token  string
	schema *schema
}

func newClient(t *testing.T, server *httptest.Server, token string) *client {
	return &client{t: t, http: server.Client(), url: server.URL, token: token, schema: loadSchema(t, server.URL)}
}

// as returns the same client with another token.
func (c *client) as(token string) *client {
	other := *c
	other.token = token
	return &other
}

// answer is a whole response.
type answer struct {
	status int
	header http.Header
	raw    string
	body   map[string]any
}

func (c *client) get(path string) answer        { return c.call(http.MethodGet, path, "") }
func (c *client) post(path, body string) answer { return c.call(http.MethodPost, path, body) }

// call sends body as JSON and holds the exchange against the OpenAPI document.
func (c *client) call(method, path, body string) answer {
	c.t.Helper()
	req := c.request(method, path, body)
	a := c.do(req)
	c.schema.check(c.t, c.request(method, path, body), a)
	return a
}

func (c *client) request(method, path, body string) *http.Request {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, nil)
	require.NoError(c.t, err)
	if body != "" {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader([]byte(body))), int64(len(body))
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req
}

// do sends req as it is. Redirects are not followed.
func (c *client) do(req *http.Request) answer {
	c.t.Helper()
	noRedirects := *c.http
	noRedirects.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := noRedirects.Do(req)
	require.NoError(c.t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(c.t, err)
	a := answer{status: resp.StatusCode, header: resp.Header, raw: string(raw)}
	_ = json.Unmarshal(raw, &a.body)
	return a
}

// code is the problem's code, "" when the answer is no problem.
func (a answer) code() string { return a.text("code") }

func (a answer) text(path ...string) string {
	s, _ := a.at(path...).(string)
	return s
}

func (a answer) number(path ...string) int {
	n, ok := a.at(path...).(float64)
	if !ok {
		return -1
	}
	return int(n)
}

func (a answer) items() []map[string]any {
	var out []map[string]any
	for _, name := range []string{"items", "events"} {
		list, _ := a.body[name].([]any)
		for _, v := range list {
			out = append(out, v.(map[string]any))
		}
	}
	return out
}

func (a answer) at(path ...string) any {
	var v any = a.body
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// create makes a session and returns the path that its routes begin with.
func (c *client) create(id string) string {
	c.t.Helper()
	a := c.post("/v1/sessions", fmt.Sprintf(`{"id":%q}`, id))
	require.Equal(c.t, http.StatusCreated, a.status, a.raw)
	return "/v1/sessions/" + id
}

// input submits a text under a key.
func (c *client) input(session, key, text string) answer {
	c.t.Helper()
	a := c.post(session+"/input", fmt.Sprintf(`{"requestId":%q,"text":%q}`, key, text))
	require.Equal(c.t, http.StatusCreated, a.status, a.raw)
	return a
}

// worker claims the runs of a rig and plays the loop's part.
type worker struct {
	t       *testing.T
	rig     *rig
	process string
}

func (r *rig) worker(process string) *worker {
	r.t.Helper()
	require.NoError(r.t, r.store.Processes().Register(r.t.Context(), process, "here", 1000*time.Hour))
	return &worker{t: r.t, rig: r, process: process}
}

// claim begins an attempt of the only due run.
func (w *worker) claim() *attempt {
	w.t.Helper()
	claims, err := w.rig.store.Runs().Claim(w.t.Context(), ports.ClaimRequest{Process: w.process, Max: 10})
	require.NoError(w.t, err)
	require.Len(w.t, claims, 1)
	c := claims[0]
	return &attempt{
		worker: w, ref: c.Session.Ref, run: c.Run.ID, token: domain.Token{Process: w.process, Epoch: c.Session.Epoch},
		number: c.Run.Attempts,
	}
}

type attempt struct {
	*worker
	ref    domain.SessionRef
	run    string
	token  domain.Token
	number int
}

func (a *attempt) do(cmd domain.Command) domain.Outcome {
	a.t.Helper()
	out, err := a.rig.store.Do(context.WithoutCancel(a.t.Context()), a.ref, cmd)
	require.NoError(a.t, err)
	return out
}

// say commits an answer to the given inputs.
func (a *attempt) say(generation, text string, inputs ...domain.Seq) {
	a.t.Helper()
	a.commit(domain.Assistant{
		GenerationID: generation, Content: []domain.Block{{Type: domain.TextBlock, Text: text}}, InputSeqs: inputs,
		StopReason: domain.StopEndTurn, Usage: &domain.Usage{Input: 10, Output: 3},
	})
}

func (a *attempt) commit(m domain.Assistant) {
	a.t.Helper()
	m.HasInputSeqs, m.Provider, m.Model = true, "fake", "fake"
	p, err := m.Payload(0)
	require.NoError(a.t, err)
	a.do(domain.AppendAssistant{At: a.rig.clock.Now(), Run: a.run, Token: a.token, GenerationID: m.GenerationID, Payload: p})
}

func (a *attempt) result(out domain.ToolOutput) {
	a.t.Helper()
	p, err := out.Payload(0)
	require.NoError(a.t, err)
	a.do(domain.AppendToolResult{At: a.rig.clock.Now(), Run: a.run, Token: a.token, Call: out.ToolCallID, Payload: p})
}

func (a *attempt) settle(result domain.Result) {
	a.t.Helper()
	a.do(domain.Settle{
		At: a.rig.clock.Now(), Run: a.run, Token: a.token, Result: result, NewRun: ids{}.New(),
		Summary: domain.Summary{Turns: 1, Provider: "fake", Model: "fake", StopReason: domain.StopEndTurn},
	})
}
