package sse

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// A feed remembers at most so much of its session's latest frames, or one page of the ledger if that is more. What all
// streams have sent goes within two sweeps.
const (
	feedFrames = 256
	feedBytes  = 1 << 20
)

// feed is the latest frames of one session, shared by all its streams in this process.
//
// asked counts the reasons to look at the ledger, looked those that a finished look answered: a look answers the reasons
// that there were when it began. So none is lost, and one look answers for all streams. When the store is out of reach
// one look tells all of them too, until there is another reason to look.
type feed struct {
	hub     *Hub
	ref     domain.SessionRef
	end     func()        // of the feed's own work
	filling chan struct{} // holds a token while somebody reads the ledger for everybody

	mu      sync.Mutex
	frames  []Frame // without gaps, the last one is that of head
	bytes   int
	head    domain.Seq
	asked   int
	looked  int
	failed  int // the reasons whose look found the store out of reach
	failure error

	// The readers have a lock of their own, so that those who wake do not wait for mu until all are awake.
	waking  sync.Mutex
	readers map[*hubReader]struct{}
}

// newFeed is called under the hub's lock.
func newFeed(h *Hub, ref domain.SessionRef) *feed {
	f := &feed{hub: h, ref: ref, filling: make(chan struct{}, 1), asked: 1, readers: map[*hubReader]struct{}{}}
	wake, unsubscribe := h.cfg.Wakeups.Subscribe(ports.Topic{Session: ref, Remote: true})
	ctx, cancel := context.WithCancel(h.ctx)
	f.end = func() {
		unsubscribe()
		cancel()
	}
	if h.closed {
		return f
	}
	h.done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-wake:
				f.fallBehind(ctx)
			}
		}
	})
	return f
}

func (f *feed) add(r *hubReader) {
	f.waking.Lock()
	defer f.waking.Unlock()
	f.readers[r] = struct{}{}
}

func (f *feed) remove(r *hubReader) (left int) {
	f.waking.Lock()
	defer f.waking.Unlock()
	delete(f.readers, r)
	return len(f.readers)
}

// push adds what this process just committed. Commits may be told out of order: a gap is read from the ledger.
func (f *feed) push(events []domain.Event) {
	f.take(events)
	f.wakeAll()
}

func (f *feed) take(events []domain.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range events {
		if e.Seq == f.head+1 {
			f.extend(encode(e))
		}
	}
	f.trim(1)
	if events[len(events)-1].Seq > f.head {
		f.asked++
	}
}

// extend appends the frame that follows head.
func (f *feed) extend(frame Frame) {
	f.frames = append(f.frames, frame)
	f.bytes += len(frame.Bytes)
	f.head = frame.Seq
}

// trim forgets the oldest frames that are too many, but none of the latest keep.
func (f *feed) trim(keep int) {
	for len(f.frames) > keep && (len(f.frames) > feedFrames || f.bytes > feedBytes) {
		f.forget(1)
	}
}

// forget drops the oldest n frames.
func (f *feed) forget(n int) {
	for i := range n {
		f.bytes -= len(f.frames[i].Bytes)
	}
	clear(f.frames[:n]) // the array behind them lives on
	if f.frames = f.frames[n:]; len(f.frames) == 0 {
		f.frames = nil
	}
}

// fallBehind looks at the ledger when it was up to date, and then wakes the streams, which find what is new. Otherwise, and
// when it could not look, it leaves that to them.
func (f *feed) fallBehind(ctx context.Context) {
	if !f.ask() || f.fill(ctx) != nil {
		f.wakeAll()
	}
}

// ask is a reason to look at the ledger, whoever does. It reports whether there was none before.
func (f *feed) ask() (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return f.asked == f.looked+1
}

// ledgerAt tells the feed how far the ledger is, now and then. The feed forgets what all streams have sent.
func (f *feed) ledgerAt(head domain.Seq) {
	if f.compare(head) {
		f.wakeAll()
	}
}

// compare reports whether there may be something for the streams.
func (f *feed) compare(head domain.Seq) (more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	slowest := f.slowest()
	switch {
	case head > f.head || f.asked > f.looked:
		f.asked++
		more = true
	case slowest < head: // a stream could not read on, or the feed began anew beyond it
		more = true
	}
	f.forget(max(0, min(len(f.frames), int(slowest-f.oldest())+1)))
	return more
}

// slowest is the least of what the streams were given, head when there are none.
func (f *feed) slowest() domain.Seq {
	f.waking.Lock()
	defer f.waking.Unlock()
	slowest := f.head
	for r := range f.readers {
		slowest = min(slowest, r.at)
	}
	return slowest
}

// oldest is the seq of the first remembered frame, head+1 when there is none.
func (f *feed) oldest() domain.Seq { return f.head - domain.Seq(len(f.frames)) + 1 }

func (f *feed) wakeAll() {
	f.waking.Lock()
	defer f.waking.Unlock()
	for r := range f.readers {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// after gives r, which has no page, the next piece of the remembered frames. missing is true when the feed does not
// reach back so far, behind when it ends at r's cursor, or the piece does, and the ledger may hold more.
func (f *feed) after(r *hubReader) (missing, behind bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.at = r.cursor
	if r.cursor > f.head { // the feed is new, or far behind: it begins anew where the reader is
		f.frames, f.bytes, f.head = nil, 0, r.cursor
		f.asked++
	}
	oldest := f.oldest()
	switch {
	case r.cursor == f.head:
		return false, f.asked > f.looked
	case r.cursor+1 < oldest:
		return true, false
	}
	bytes := 0
	for _, frame := range f.frames[r.cursor+1-oldest:] {
		r.piece = append(r.piece, frame)
		if bytes += len(frame.Bytes); bytes >= pieceBytes {
			break
		}
	}
	r.at = r.piece[len(r.piece)-1].Seq
	return false, r.at < f.head || f.asked > f.looked
}

// fill reads what follows head from the ledger, for all streams of the session: one at a time, and not again when
// somebody else just did.
func (f *feed) fill(ctx context.Context) error {
	select {
	case f.filling <- struct{}{}:
		defer func() { <-f.filling }()
	case <-ctx.Done():
		return ctx.Err()
	}
	f.mu.Lock()
	asked, head := f.asked, f.head
	done, err := asked == f.looked, error(nil)
	if asked == f.failed {
		done, err = true, f.failure
	}
	f.mu.Unlock()
	if done {
		return err
	}
	events, err := f.hub.cfg.Ledger.Events(ctx, f.ref, head, pageEvents)
	if err == nil {
		err = checkPage(f.ref, head, events)
	}
	if err != nil {
		f.lookFailed(ctx, asked, err)
		return err
	}
	last := ports.IsLastPage(events, pageEvents)
	frames := make([]Frame, 0, len(events))
	for i, e := range events {
		frames = append(frames, encode(e))
		events[i] = domain.Event{} // what was made a frame goes
	}
	if f.found(asked, frames, last) {
		f.wakeAll()
	}
	return nil
}

// found takes what a look found, which answers so many reasons.
func (f *feed) found(asked int, frames []Frame, last bool) (more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked = asked
	for _, frame := range frames {
		if frame.Seq == f.head+1 {
			f.extend(frame)
		}
	}
	f.trim(len(frames))
	if !last {
		f.asked++
	}
	return len(frames) > 0
}

// lookFailed notes that the store was out of reach; that the stream which looked has ended is no news for the others.
func (f *feed) lookFailed(ctx context.Context, asked int, err error) {
	if ctx.Err() == nil && errors.Is(err, ports.ErrUnavailable) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.failed, f.failure = asked, err
	}
}

func encode(e domain.Event) Frame {
	data := e.AppendJSON(make([]byte, 0, len(e.Payload.String())+128))
	return Frame{
		Seq: e.Seq, Epoch: e.Epoch, Generation: generation(e),
		Bytes: appendEventFrame(make([]byte, 0, len(data)+32), e.Seq, data),
	}
}

// generation returns the generation id that an event's key names, "" when it names none.
func generation(e domain.Event) string {
	id, ok := strings.CutPrefix(e.Key, string(domain.GenerationID)+":")
	if !ok {
		return ""
	}
	return id
}
