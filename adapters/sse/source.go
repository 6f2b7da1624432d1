package sse

import (
	"context"
	"fmt"

	"github.com/keel-agent/keel/domain"
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
	// nothing more yet. What it returns is bounded, so a caller calls it until it returns none. The slice is good until
	// the next call.
	Next(ctx context.Context) ([]Frame, error)

	// Wake receives when Next may have more, at the latest some seconds after the commit.
	Wake() <-chan struct{}

	// LastLook says that no wake-up counts any more: Next, called until it returns none, returns all that was committed
	// before LastLook.
	LastLook()

	// Close frees what the reader holds.
	Close()
}

// pieceBytes bounds what Next returns: the frame that reaches it is the last one.
const pieceBytes = 256 << 10

// pageEvents is how many events are read at a time; the ledger bounds their bytes.
const pageEvents = 256

// hubReader is one stream's place in its session's ledger.
type hubReader struct {
	feed   *feed
	cursor domain.Seq
	wake   chan struct{}
	page   []domain.Event // read from cursor on, not yet returned
	piece  []Frame        // what Next returned last
	upto   bool           // that was all there was

	at domain.Seq // what the feed has given it, under the feed's lock
}

func (r *hubReader) Wake() <-chan struct{} { return r.wake }
func (r *hubReader) Close()                { r.feed.hub.leave(r) }

func (r *hubReader) LastLook() {
	r.upto = false
	r.feed.ask()
}

func (r *hubReader) Next(ctx context.Context) ([]Frame, error) {
	clear(r.piece)
	r.piece = r.piece[:0]
	if r.upto { // what came since has woken the reader
		return r.nothing()
	}
	for len(r.page) == 0 {
		missing, behind := r.feed.after(r)
		switch {
		case missing:
			if err := r.catchUp(ctx); err != nil || len(r.page) == 0 {
				return nil, err
			}
			continue
		case len(r.piece) > 0:
			r.cursor, r.upto = r.piece[len(r.piece)-1].Seq, !behind
			return r.piece, nil
		case !behind:
			return r.nothing()
		}
		if err := r.feed.fill(ctx); err != nil {
			return nil, err
		}
	}
	return r.nextOfPage(), nil
}

// nothing is what Next returns at the end.
func (r *hubReader) nothing() ([]Frame, error) {
	r.upto = false
	if cap(r.piece) > 16 {
		r.piece = nil // an idle stream keeps little
	}
	return nil, nil
}

// catchUp reads a page of the ledger from the reader's own cursor.
func (r *hubReader) catchUp(ctx context.Context) error {
	events, err := r.feed.hub.cfg.Ledger.Events(ctx, r.feed.ref, r.cursor, pageEvents)
	if err == nil {
		err = checkPage(r.feed.ref, r.cursor, events)
	}
	if err != nil {
		return err
	}
	r.page = events
	return nil
}

// nextOfPage encodes the next piece of the page. An event goes when its frame is made, so that a reader that dawdles
// holds one of the two.
func (r *hubReader) nextOfPage() []Frame {
	for bytes := 0; len(r.page) > 0 && bytes < pieceBytes; r.page = r.page[1:] {
		f := encode(r.page[0])
		r.page[0] = domain.Event{}
		r.piece = append(r.piece, f)
		r.cursor, bytes = f.Seq, bytes+len(f.Bytes)
	}
	if len(r.page) == 0 {
		r.page = nil
	}
	return r.piece
}

// checkPage returns an error when events do not follow after without a gap: a stream must not hide one.
func checkPage(ref domain.SessionRef, after domain.Seq, events []domain.Event) error {
	for _, e := range events {
		if e.Seq != after+1 {
			return fmt.Errorf("event %d of session %q is followed by %d", after, ref.Session, e.Seq)
		}
		after = e.Seq
	}
	return nil
}
