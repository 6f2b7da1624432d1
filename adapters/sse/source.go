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
	// nothing more yet. What it returns is bounded, so a caller calls it until it returns none.
	Next(ctx context.Context) ([]Frame, error)

	// Wake receives when Next may have more, at the latest some seconds after the commit.
	Wake() <-chan struct{}

	// LastLook says that no wake-up counts any more: Next, called until it returns none, returns all that was committed
	// before LastLook.
	LastLook()

	// Close frees what the reader holds.
	Close()
}

// A page of a reader that catches up aims at pageBytes, in events by the size of those before.
const (
	pageBytes  = 256 << 10
	firstPage  = 16
	largestRun = 512
)

// hubReader is one stream's place in its session's ledger.
type hubReader struct {
	feed   *feed
	cursor domain.Seq
	wake   chan struct{}
	page   int
}

func (r *hubReader) Wake() <-chan struct{} { return r.wake }
func (r *hubReader) LastLook()             { r.feed.lastLook() }
func (r *hubReader) Close()                { r.feed.hub.leave(r) }

func (r *hubReader) Next(ctx context.Context) ([]Frame, error) {
	for {
		frames, missing, behind := r.feed.after(r.cursor)
		switch {
		case missing:
			return r.catchUp(ctx)
		case len(frames) > 0:
			r.cursor = frames[len(frames)-1].Seq
			return frames, nil
		case !behind:
			return nil, nil
		}
		if err := r.feed.fill(ctx); err != nil {
			return nil, err
		}
	}
}

// catchUp reads a page of the ledger from the reader's own cursor.
func (r *hubReader) catchUp(ctx context.Context) ([]Frame, error) {
	events, err := r.feed.hub.cfg.Ledger.Events(ctx, r.feed.ref, r.cursor, r.page)
	if err != nil || len(events) == 0 {
		return nil, err
	}
	frames := make([]Frame, 0, len(events))
	for _, e := range events {
		if e.Seq != r.cursor+1 {
			return nil, fmt.Errorf("event %d of session %q is followed by %d", r.cursor, r.feed.ref.Session, e.Seq)
		}
		f := encode(e)
		frames = append(frames, f)
		r.cursor = e.Seq
	}
	r.page = nextPage(frames)
	return frames, nil
}

// nextPage returns how many events like these are about pageBytes.
func nextPage(frames []Frame) int {
	total := 1
	for _, f := range frames {
		total += len(f.Bytes)
	}
	return min(max(pageBytes*len(frames)/total, 1), largestRun)
}
