package sse

import (
	"context"
	"fmt"
	"strings"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Source opens readers of committed events.
type Source interface {
	// Open returns a reader of the events with seq > after. It returns domain.ErrNotFound when the session is missing
	// or foreign and domain.ErrCursorAhead when after lies beyond the head.
	Open(ctx context.Context, ref domain.SessionRef, after domain.Seq) (Reader, error)
}

// Reader reads one session's committed events in order. One goroutine uses it.
type Reader interface {
	// Next returns the frames that follow those already returned, ascending and without a gap; none when there is
	// nothing more yet. What it returns is bounded, so a caller calls it until it returns none.
	Next(ctx context.Context) ([]Frame, error)

	// Wake receives when Next may have more. It is a hint and may be lost.
	Wake() <-chan struct{}

	// Close frees what the reader holds.
	Close()
}

// Cursors checks a cursor against a ledger.
type Cursors interface {
	// CheckCursor returns nil when after is a position of the session's ledger, with the errors of Source.Open.
	CheckCursor(ctx context.Context, ref domain.SessionRef, after domain.Seq) error
}

// Events is the part of ports.Ledger that a LedgerSource reads.
type Events interface {
	Events(ctx context.Context, ref domain.SessionRef, after domain.Seq, limit int) ([]domain.Event, error)
}

// A page of a LedgerSource aims at pageBytes, in events by the size of those before.
const (
	pageBytes  = 256 << 10
	firstPage  = 16
	largestRun = 512
)

// LedgerSource reads each stream's events from the ledger itself.
type LedgerSource struct {
	cursors Cursors
	events  Events
	wakeups ports.Wakeups
}

// NewLedgerSource returns a source over a ledger.
func NewLedgerSource(cursors Cursors, events Events, wakeups ports.Wakeups) *LedgerSource {
	return &LedgerSource{cursors: cursors, events: events, wakeups: wakeups}
}

// Open subscribes first and looks at the ledger after, so that no commit falls between the two.
func (s *LedgerSource) Open(ctx context.Context, ref domain.SessionRef, after domain.Seq) (Reader, error) {
	wake, cancel := s.wakeups.Subscribe(ports.Topic{Session: ref})
	if err := s.cursors.CheckCursor(ctx, ref, after); err != nil {
		cancel()
		return nil, err
	}
	return &ledgerReader{events: s.events, ref: ref, cursor: after, page: firstPage, wake: wake, cancel: cancel}, nil
}

type ledgerReader struct {
	events Events
	ref    domain.SessionRef
	cursor domain.Seq
	page   int
	wake   <-chan struct{}
	cancel func()
}

func (r *ledgerReader) Wake() <-chan struct{} { return r.wake }
func (r *ledgerReader) Close()                { r.cancel() }

func (r *ledgerReader) Next(ctx context.Context) ([]Frame, error) {
	events, err := r.events.Events(ctx, r.ref, r.cursor, r.page)
	if err != nil || len(events) == 0 {
		return nil, err
	}
	frames := make([]Frame, 0, len(events))
	total := 0
	var data []byte
	for _, e := range events {
		if e.Seq != r.cursor+1 {
			return nil, fmt.Errorf("event %d of session %q is followed by %d", r.cursor, r.ref.Session, e.Seq)
		}
		data = e.AppendJSON(data[:0])
		f := Frame{Seq: e.Seq, Epoch: e.Epoch, Generation: generation(e)}
		f.Bytes = appendEventFrame(make([]byte, 0, len(data)+32), e.Seq, data)
		frames = append(frames, f)
		total += len(f.Bytes)
		r.cursor = e.Seq
	}
	r.page = min(max(pageBytes*len(frames)/total, 1), largestRun)
	return frames, nil
}

// generation returns the generation id that an event's key names, "" when it names none.
func generation(e domain.Event) string {
	id, ok := strings.CutPrefix(e.Key, string(domain.GenerationID)+":")
	if !ok {
		return ""
	}
	return id
}
