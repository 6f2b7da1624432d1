package sse_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/sse"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// store is the ledgers of many sessions, with their wake-ups.
type store struct {
	mu          sync.Mutex
	events      map[domain.SessionRef][]domain.Event
	subscribers map[chan struct{}]domain.SessionRef
	down        error

	reads, looks, refs atomic.Int64
	onRead             func(after domain.Seq)
}

func newStore() *store {
	return &store{events: map[domain.SessionRef][]domain.Event{}, subscribers: map[chan struct{}]domain.SessionRef{}}
}

func (s *store) hub(t testing.TB) *sse.Hub {
	h := sse.NewHub(sse.HubConfig{Cursors: s, Ledger: s, Wakeups: s})
	t.Cleanup(h.Close)
	return h
}

// commit appends n events of size bytes and returns what a notifier is told.
func (s *store) commit(ref domain.SessionRef, n, size int) ports.Commit {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := ports.Commit{Ref: ref}
	for range n {
		c.Events = append(c.Events, domain.Event{
			Seq: domain.Seq(len(s.events[ref]) + len(c.Events) + 1), Kind: domain.UserMessage,
			Payload: domain.StoredPayload(`{"text":"` + strings.Repeat("x", size) + `"}`),
		})
	}
	s.events[ref] = append(s.events[ref], c.Events...)
	return c
}

func (s *store) wake(ref domain.SessionRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for wake, of := range s.subscribers {
		if of == ref {
			select {
			case wake <- struct{}{}:
			default:
			}
		}
	}
}

func (s *store) Subscribe(t ports.Topic) (<-chan struct{}, func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wake := make(chan struct{}, 1)
	s.subscribers[wake] = t.Session
	return wake, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subscribers, wake)
	}
}

func (s *store) subscribed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.subscribers)
}

func (s *store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

func (s *store) CheckCursor(_ context.Context, ref domain.SessionRef, after domain.Seq) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int(after) > len(s.events[ref]) {
		return domain.ErrCursorAhead
	}
	return nil
}

func (s *store) Events(_ context.Context, ref domain.SessionRef, after domain.Seq, limit int) ([]domain.Event, error) {
	s.reads.Add(1)
	if s.onRead != nil {
		s.onRead(after)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return nil, s.down
	}
	return pageOf(s.events[ref][after:], limit), nil
}

func (s *store) Heads(_ context.Context, refs []domain.SessionRef) ([]domain.Seq, error) {
	s.looks.Add(1)
	s.refs.Add(int64(len(refs)))
	s.mu.Lock()
	defer s.mu.Unlock()
	heads := make([]domain.Seq, len(refs))
	for i, ref := range refs {
		heads[i] = domain.Seq(len(s.events[ref]))
	}
	return heads, nil
}

// seen is a stream without a connection: it checks that each event comes once, in order.
type seen struct {
	t      testing.TB
	reader sse.Reader
	seq    domain.Seq
}

func follow(t testing.TB, h *sse.Hub, ref domain.SessionRef, after domain.Seq) *seen {
	reader, err := h.Open(t.Context(), ref, after)
	require.NoError(t, err)
	return &seen{t: t, reader: reader, seq: after}
}

// next takes one piece and returns how many frames it had.
func (s *seen) next() int {
	frames, err := s.reader.Next(s.t.Context())
	if err != nil {
		s.t.Error(err)
	}
	for _, f := range frames {
		if f.Seq != s.seq+1 || len(f.Bytes) == 0 {
			s.t.Errorf("event %d after %d", f.Seq, s.seq)
		}
		s.seq = f.Seq
	}
	return len(frames)
}

func (s *seen) all() {
	for s.next() > 0 {
	}
}

// until follows the session until it has seen event n.
func (s *seen) until(n domain.Seq) {
	for s.all(); s.seq < n; s.all() {
		<-s.reader.Wake()
	}
}

// wokenWithin waits for a wake-up, which must come within d.
func (s *seen) wokenWithin(d time.Duration) {
	s.t.Helper()
	select {
	case <-s.reader.Wake():
	case <-time.After(d):
		require.FailNow(s.t, "no wake-up came")
	}
}
