package sse

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// A feed remembers at most so much of its session's latest frames.
const (
	feedFrames = 256
	feedBytes  = 1 << 20
)

// feed is the latest frames of one session, shared by all its streams in this process.
type feed struct {
	hub     *Hub
	ref     domain.SessionRef
	stop    chan struct{}
	cancel  func()        // of the wake-ups
	filling chan struct{} // holds a token while somebody reads the ledger for everybody

	mu      sync.Mutex
	frames  []Frame // without gaps, the last one is that of head
	bytes   int
	head    domain.Seq
	asked   int  // how often there was reason to think that the ledger holds more than head
	looked  int  // the last of them that a finished look at the ledger answered
	last    bool // lastLook was called
	page    int  // events of the next read, by the size of those before
	readers map[*hubReader]struct{}
}

func newFeed(h *Hub, ref domain.SessionRef) *feed {
	f := &feed{
		hub: h, ref: ref, stop: make(chan struct{}), filling: make(chan struct{}, 1), asked: 1, page: firstPage,
		readers: map[*hubReader]struct{}{},
	}
	wake, cancel := h.cfg.Wakeups.Subscribe(ports.Topic{Session: ref, Remote: true})
	f.cancel = cancel
	h.done.Go(func() {
		for {
			select {
			case <-f.stop:
				return
			case <-h.stop:
				return
			case <-wake:
				f.fallBehind()
			}
		}
	})
	return f
}

func (f *feed) end() {
	f.cancel()
	close(f.stop)
}

func (f *feed) add(r *hubReader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers[r] = struct{}{}
}

func (f *feed) remove(r *hubReader) (left int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.readers, r)
	return len(f.readers)
}

// push adds what this process just committed. Commits may be told out of order: a gap is read from the ledger.
func (f *feed) push(events []domain.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.extend(events)
	if events[len(events)-1].Seq > f.head {
		f.asked++
	}
	f.wakeAll()
}

// extend appends the events that follow head.
func (f *feed) extend(events []domain.Event) {
	for _, e := range events {
		if e.Seq == f.head+1 {
			frame := encode(e)
			f.frames = append(f.frames, frame)
			f.bytes += len(frame.Bytes)
			f.head = e.Seq
		}
	}
	drop := 0
	for len(f.frames)-drop > feedFrames || f.bytes > feedBytes && len(f.frames)-drop > 1 {
		f.bytes -= len(f.frames[drop].Bytes)
		drop++
	}
	f.frames = f.frames[drop:] // never changed in place: readers hold parts of it
}

func (f *feed) fallBehind() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	f.wakeAll()
}

// lastLook makes the feed look at the ledger once more, whoever asks first.
func (f *feed) lastLook() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.last {
		f.last = true
		f.asked++
	}
}

// ledgerAt tells the feed how far the ledger is.
func (f *feed) ledgerAt(head domain.Seq) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if head > f.head || f.asked > f.looked {
		f.asked++
		f.wakeAll()
	}
}

func (f *feed) wakeAll() {
	for r := range f.readers {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// after returns the remembered frames that follow cursor. missing is true when the feed does not reach back so far,
// behind when it ends at cursor and the ledger may hold more.
func (f *feed) after(cursor domain.Seq) (frames []Frame, missing, behind bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cursor > f.head { // the feed is new, or far behind: it begins anew where the reader is
		f.frames, f.bytes, f.head = nil, 0, cursor
		f.asked++
	}
	if cursor == f.head {
		return nil, false, f.asked > f.looked
	}
	oldest := f.head - domain.Seq(len(f.frames)) + 1
	if cursor+1 < oldest {
		return nil, true, false
	}
	frames = f.frames[cursor+1-oldest:]
	return frames[:len(frames):len(frames)], false, false
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
	asked := f.asked
	if asked == f.looked {
		f.mu.Unlock()
		return nil
	}
	head, page := f.head, f.page
	f.mu.Unlock()
	events, err := f.hub.cfg.Ledger.Events(ctx, f.ref, head, page)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		return err
	}
	f.looked = asked
	f.extend(events)
	if n := len(events); n > 0 {
		if last := events[n-1].Seq; last > f.head {
			return fmt.Errorf("session %q: a gap between events %d and %d", f.ref.Session, f.head, last)
		}
		if n == page {
			f.asked++
		}
		f.page = nextPage(f.frames)
		f.wakeAll()
	}
	return nil
}

func encode(e domain.Event) Frame {
	data := e.AppendJSON(nil)
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
