package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keel-agent/keel/torture/check"
	"github.com/keel-agent/keel/torture/plan"
)

// tenants share the ids of their sessions: what is mixed up between them would be seen.
var tenants = []string{"t0", "t1"}

// onlyOf is a session that exists in one tenant alone.
func onlyOf(tenant string) string { return "only-" + tenant }

func tokenOf(tenant string) string { return "bearer-token-of-" + tenant }

// load is all clients. They know every server's address and go on at the next one when a request fails.
type load struct {
	seed    uint64
	urls    []string
	journal *journal
	http    *http.Client
	streams *http.Client
	ended   context.Context // from its end on nobody begins anything
	limit   context.Context // from its end on nobody waits for an acknowledgement

	group    sync.WaitGroup  // writers
	reads    sync.WaitGroup  // readers
	finished context.Context // ends when heads is known
	finish   context.CancelFunc
	heads    map[[2]string]int64

	inputs, retries, conns, frames, partials atomic.Int64
}

// requestTimeout is how long a client waits for an answer before it asks the next server.
const requestTimeout = 3 * time.Second

func newLoad(seed uint64, urls []string, j *journal) *load {
	transport := http.DefaultTransport.(*http.Transport).Clone() // the default transport is one of these
	transport.MaxIdleConnsPerHost = 64
	l := &load{
		seed: seed, urls: urls, journal: j,
		http: &http.Client{Transport: transport, Timeout: requestTimeout}, streams: &http.Client{Transport: transport},
	}
	l.finished, l.finish = context.WithCancel(context.Background())
	return l
}

// caller is one user of the API: it stays with a server until that fails.
type caller struct {
	*load
	tenant string
	server int
}

// answer is a conclusive answer: neither a failure of the connection, nor 5xx, nor 429.
type answer struct {
	status int
	body   []byte
	tries  int
}

// call repeats a request until the answer is conclusive, or the limit comes.
func (c *caller) call(method, path string, body any) (answer, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return answer{}, err
	}
	for tries := 1; ; tries++ {
		status, got, err := c.once(c.server, method, path, text)
		if err == nil && status < 500 && status != http.StatusTooManyRequests {
			return answer{status, got, tries}, nil
		}
		if status == http.StatusInternalServerError {
			c.journal.fail(check.Refused, c.tenant, "", fmt.Sprintf("%s %s was answered with 500: %s", method, path, got))
		}
		c.retries.Add(1)
		c.server = (c.server + 1) % len(c.urls)
		select {
		case <-c.limit.Done():
			return answer{tries: tries}, c.limit.Err()
		case <-time.After(min(time.Duration(tries)*20*time.Millisecond, 300*time.Millisecond)):
		}
	}
}

func (c *caller) once(server int, method, path string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(c.limit, method, c.urls[server]+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+tokenOf(c.tenant))
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	return res.StatusCode, got, err
}

// create makes a session.
func (c *caller) create(session string) bool {
	a, err := c.call(http.MethodPost, "/v1/sessions", map[string]any{"id": session, "tools": []string{"calculator", "sleep", "time"}})
	if err != nil {
		return false
	}
	if a.status != http.StatusCreated && a.status != http.StatusOK {
		c.refused(session, "create", a)
	}
	return true
}

func (c *caller) refused(session, what string, a answer) {
	c.journal.fail(check.Refused, c.tenant, session, fmt.Sprintf("%s was answered with %d after %d tries: %s", what, a.status, a.tries, a.body))
}

// client is a session after the other, two writers in each, and readers.
type client struct {
	*load
	number int
	tenant string

	mu      sync.Mutex
	session string
	moves   int
}

// startClients begins to write and to read.
func (l *load) startClients(n int) {
	for _, tenant := range tenants {
		c := caller{load: l, tenant: tenant}
		c.create(onlyOf(tenant))
	}
	for i := range n {
		c := &client{load: l, number: i, tenant: tenants[i%len(tenants)]}
		if !c.move(&caller{load: l, tenant: c.tenant, server: i % len(l.urls)}) {
			continue
		}
		for writer := range plan.Writers {
			l.group.Go(func() { c.write(writer) })
		}
	}
}

func (c *client) current() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// move makes a new session, which both writers then use, and lets readers follow it.
func (c *client) move(as *caller) bool {
	session := fmt.Sprintf("s%d.%d", c.number/len(tenants), c.moves)
	if !as.create(session) {
		return false
	}
	c.mu.Lock()
	c.session = session
	c.moves++
	c.mu.Unlock()
	for reader := range 1 + (c.number+c.moves)%2 {
		r := &reading{
			caller: caller{load: c.load, tenant: c.tenant, server: c.number % len(c.urls)}, session: session,
			name:   fmt.Sprintf("%s/%s/reader-%d", c.tenant, session, reader),
			script: plan.NewReaderScript(c.seed, c.number, 100*c.moves+reader),
		}
		c.reads.Go(r.run)
	}
	return true
}

// writer plays one script.
type writer struct {
	caller
	client *client
	number int
	count  int
	last   *check.Submit // acknowledged
}

func (c *client) write(number int) {
	w := &writer{caller: caller{load: c.load, tenant: c.tenant, server: (c.number + number) % len(c.urls)}, client: c, number: number}
	script := plan.NewScript(c.seed, c.number, number)
	for {
		step := script.Next()
		select {
		case <-c.ended.Done():
			return
		case <-time.After(step.Wait):
		}
		w.step(step)
	}
}

func (w *writer) step(s plan.Step) {
	session := w.client.current()
	switch s.Op {
	case plan.Move:
		w.client.move(&w.caller)
	case plan.Input:
		w.count++
		id := check.RequestID(w.tenant, session, fmt.Sprintf("w%d.%d", w.number, w.count))
		w.submit(check.Submit{
			Tenant: w.tenant, Session: session, RequestID: id, Text: check.Token(id) + " [do:" + s.Do + "]", Delivery: s.Delivery,
			Note: fmt.Sprintf(`{"n":9007199254740993%03d,"s":"né\u0000"}`, w.count%1000),
		}, s.Twice)
	case plan.Again:
		if w.last != nil {
			again := *w.last
			again.Acks, again.Tries = nil, 0
			w.submit(again, false)
		}
	case plan.Cancel:
		w.cancel()
	case plan.Ensure:
		if a, err := w.call(http.MethodPost, "/v1/sessions/"+session+"/run", struct{}{}); err == nil && a.status != http.StatusAccepted {
			w.refused(session, "run", a)
		}
	case plan.Page:
		w.page(session, 0)
	case plan.Probe:
		w.probe()
	}
}

// submit sends an input until it is acknowledged, and writes down what it got.
func (w *writer) submit(s check.Submit, twice bool) {
	s.SentAt = time.Now().UnixMilli()
	body := map[string]any{"text": s.Text, "requestId": s.RequestID, "note": json.RawMessage(s.Note)}
	if s.Delivery != "" {
		body["delivery"] = s.Delivery
	}
	path := "/v1/sessions/" + s.Session + "/input"
	var group sync.WaitGroup
	var mu sync.Mutex
	send := func(c *caller) {
		a, err := c.call(http.MethodPost, path, body)
		mu.Lock()
		defer mu.Unlock()
		s.Tries += a.tries
		if err != nil {
			return
		}
		w.acknowledged(&s, a)
	}
	if twice {
		other := w.caller
		other.server = (other.server + 1) % len(other.urls)
		group.Go(func() { send(&other) })
	}
	send(&w.caller)
	group.Wait()
	w.inputs.Add(1)
	w.journal.add(check.Record{Submit: &s})
	if len(s.Acks) > 0 {
		w.last = &s
	}
}

func (w *writer) acknowledged(s *check.Submit, a answer) {
	var got struct {
		Created  bool
		Seq      int64
		Delivery string
		Run      struct{ ID string }
	}
	if a.status != http.StatusCreated && a.status != http.StatusOK || json.Unmarshal(a.body, &got) != nil {
		w.refused(s.Session, "input "+s.RequestID, a)
		return
	}
	if got.Created != (a.status == http.StatusCreated) {
		w.refused(s.Session, "input "+s.RequestID+" (created and status differ)", a)
	}
	if len(s.Acks) == 0 && s.AckedAt == 0 {
		s.AckedAt = time.Now().UnixMilli()
	}
	s.Acks = append(s.Acks, check.Ack{Created: got.Created, Seq: got.Seq, Delivery: got.Delivery, Run: got.Run.ID})
}

func (w *writer) cancel() {
	if w.last == nil {
		return
	}
	run := w.last.Acks[len(w.last.Acks)-1].Run
	w.journal.add(check.Record{Cancel: &check.Cancel{Tenant: w.tenant, Session: w.last.Session, Run: run}})
	a, err := w.call(http.MethodPost, "/v1/sessions/"+w.last.Session+"/cancel", map[string]string{"runId": run})
	if err == nil && a.status != http.StatusAccepted {
		w.refused(w.last.Session, "cancel", a)
	}
}

// wireEvent is an event as the API gives it.
type wireEvent struct {
	Seq       int64           `json:"seq"`
	Kind      string          `json:"kind"`
	Payload   json.RawMessage `json:"payload"`
	CreatedAt string          `json:"createdAt"`
}

func (e wireEvent) frame(id int64) check.Frame {
	return check.Frame{ID: id, Seq: e.Seq, Kind: e.Kind, Hash: check.PayloadHash(e.Payload), At: e.CreatedAt}
}

// page reads a page of the snapshot and returns its cursor and whether there is more.
func (c *caller) page(session string, after int64) (int64, bool) {
	a, err := c.call(http.MethodGet, fmt.Sprintf("/v1/sessions/%s/events?after=%d&limit=1000", session, after), nil)
	if err != nil {
		return after, false
	}
	var page struct {
		Events  []wireEvent
		Cursor  int64
		HasMore bool
	}
	if a.status != http.StatusOK || json.Unmarshal(a.body, &page) != nil {
		c.refused(session, "events", a)
		return after, false
	}
	read := check.Read{Tenant: c.tenant, Session: session, After: after}
	for _, e := range page.Events {
		read.Frames = append(read.Frames, e.frame(e.Seq))
	}
	c.journal.add(check.Record{Read: &read})
	return page.Cursor, page.HasMore
}

// probe reaches for the session that only the other tenant has.
func (w *writer) probe() {
	other := tenants[0]
	if w.tenant == other {
		other = tenants[1]
	}
	session := onlyOf(other)
	for _, p := range []struct {
		method, path string
		body         any
	}{
		{http.MethodGet, "", nil}, {http.MethodGet, "/events", nil}, {http.MethodGet, "/events/stream?after=0", nil},
		{http.MethodGet, "/messages", nil}, {http.MethodGet, "/runs", nil}, {http.MethodPost, "/input", map[string]string{"text": "x"}},
		{http.MethodPost, "/cancel", struct{}{}}, {http.MethodPost, "/run", struct{}{}},
	} {
		a, err := w.call(p.method, "/v1/sessions/"+session+p.path, p.body)
		if err != nil {
			return
		}
		w.journal.add(check.Record{Probe: &check.Probe{Tenant: w.tenant, Session: session, What: p.method + " " + p.path, Status: a.status}})
	}
}
