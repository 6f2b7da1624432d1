package sse_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/keel-agent/keel/adapters/sse"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Heads tells the hub of commits that no wake-up told of.
func (l *ledger) Heads(context.Context, []domain.SessionRef) ([]domain.Seq, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks++
	return []domain.Seq{domain.Seq(len(l.events))}, l.down
}

// ledger is one session's events, its wake-ups and its partials.
type ledger struct {
	mu         sync.Mutex
	events     []domain.Event
	down       error
	reads      int
	looks      int // at the head
	wake       chan struct{}
	frames     chan ports.Partial
	subscribed int // wake-ups and partials held
	onCheck    func()
}

func newLedger() *ledger {
	return &ledger{wake: make(chan struct{}, 1), frames: make(chan ports.Partial, 256)}
}

var ref = domain.SessionRef{Tenant: "t", Session: "s"}

// commit appends n events of size bytes, without a wake-up.
func (l *ledger) commit(n, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		l.events = append(l.events, domain.Event{
			Seq: domain.Seq(len(l.events) + 1), Kind: domain.UserMessage,
			Payload: domain.StoredPayload(`{"text":"` + strings.Repeat("x", size) + `"}`),
		})
	}
}

func (l *ledger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = err
}

func (l *ledger) CheckCursor(_ context.Context, _ domain.SessionRef, after domain.Seq) error {
	if l.onCheck != nil {
		l.onCheck()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if int(after) > len(l.events) {
		return domain.ErrCursorAhead
	}
	return nil
}

func (l *ledger) Events(_ context.Context, _ domain.SessionRef, after domain.Seq, limit int) ([]domain.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	if l.down != nil {
		return nil, l.down
	}
	return pageOf(l.events[after:], limit), nil
}

// pageOf returns the page that a ledger returns of rest.
func pageOf(rest []domain.Event, limit int) []domain.Event {
	n := 0
	for bytes := 0; n < min(limit, len(rest)) && bytes <= ports.PageBytes; n++ {
		bytes += len(rest[n].Payload.String())
	}
	return append([]domain.Event(nil), rest[:n]...)
}

func (l *ledger) hold(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subscribed += n
}

func (l *ledger) held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.subscribed
}

// wakeups and partials are views of a ledger.
type (
	wakeups  struct{ *ledger }
	partials struct{ *ledger }
)

func (w wakeups) Subscribe(ports.Topic) (<-chan struct{}, func()) {
	w.hold(1)
	return w.wake, sync.OnceFunc(func() { w.hold(-1) })
}

func (p partials) Publish(frame ports.Partial) { p.frames <- frame }
func (p partials) Subscribe(domain.SessionRef) (<-chan ports.Partial, func()) {
	p.hold(1)
	return p.frames, sync.OnceFunc(func() { p.hold(-1) })
}

// server serves streams of a ledger over in-memory connections, which a synctest bubble can wait for.
type server struct {
	t     *testing.T
	conns chan net.Conn
	ended chan error
}

func (l *ledger) handler(t *testing.T, drain chan struct{}) *sse.Handler {
	return sse.New(sse.Config{Source: l.newHub(t), Partials: partials{l}, Drain: drain})
}

func (l *ledger) newHub(t *testing.T) *sse.Hub {
	h := sse.NewHub(sse.HubConfig{Cursors: l, Ledger: l, Wakeups: wakeups{l}})
	t.Cleanup(h.Close)
	return h
}

func serve(t *testing.T, h *sse.Handler, after domain.Seq) *server {
	ended := make(chan error, 8)
	s := serveWith(t, func(w http.ResponseWriter, r *http.Request) {
		ended <- h.Serve(w, r, ref, after, r.URL.Query().Has("partials"))
	})
	s.ended = ended
	return s
}

func serveWith(t *testing.T, h http.HandlerFunc) *server {
	s := &server{t: t, conns: make(chan net.Conn)}
	srv := &http.Server{ReadTimeout: time.Second, WriteTimeout: time.Second, Handler: h} // a stream outlives both
	go func() { _ = srv.Serve(listener{s}) }()
	t.Cleanup(func() { srv.Close() })
	return s
}

// over waits for the end of a stream.
func (s *server) over() {
	s.t.Helper()
	require.NoError(s.t, <-s.ended, "the answer had begun")
}

type listener struct{ *server }

func (l listener) Accept() (net.Conn, error) {
	conn, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l listener) Close() error {
	close(l.conns)
	return nil
}
func (listener) Addr() net.Addr { return &net.UnixAddr{} }

// open begins a stream and returns its connection, past the headers.
func (s *server) open(query string) (net.Conn, *bufio.Reader) {
	s.t.Helper()
	near, far := net.Pipe()
	s.conns <- far
	_, err := fmt.Fprintf(near, "GET /%s HTTP/1.0\r\nHost: localhost\r\n\r\n", query)
	require.NoError(s.t, err)
	body := bufio.NewReader(near)
	resp, err := http.ReadResponse(body, nil)
	require.NoError(s.t, err)
	s.t.Cleanup(func() {
		near.Close()
		resp.Body.Close()
	})
	require.Equal(s.t, http.StatusOK, resp.StatusCode)
	return near, body
}

// expect reads exactly these bytes.
func expect(t *testing.T, body io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	_, err := io.ReadFull(body, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

// event is the frame of event n of a ledger whose texts are size long.
func event(n, size int) string {
	return fmt.Sprintf("id: %d\ndata: {\"seq\":%d,\"kind\":\"user.message\",\"payload\":{\"text\":\"%s\"},\"createdAt\":\"0001-01-01T00:00:00.000Z\"}\n\n",
		n, n, strings.Repeat("x", size))
}
