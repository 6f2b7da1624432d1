package sse

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Ledger is what a Hub reads.
type Ledger interface {
	Events(ctx context.Context, ref domain.SessionRef, after domain.Seq, limit int) ([]domain.Event, error)

	// Heads returns the head of each session, 0 for one that is missing.
	Heads(ctx context.Context, refs []domain.SessionRef) ([]domain.Seq, error)
}

// Cursors checks a cursor against a ledger.
type Cursors interface {
	// CheckCursor returns nil when after is a position of the session's ledger, with the errors of Source.Open.
	CheckCursor(ctx context.Context, ref domain.SessionRef, after domain.Seq) error
}

// HubConfig is what a Hub is made of.
type HubConfig struct {
	Cursors Cursors
	Ledger  Ledger
	Wakeups ports.Wakeups // for commits of other processes
	Log     *zap.Logger   // nil: no log
	Sweep   time.Duration // between looks for commits that no wake-up told of; 5 s
}

// Hub is the Source of a process: it hands the events that this process commits to the streams of their session,
// encoded once, and reads the ledger once per session for those of other processes. A stream that is further behind
// than the feed of its session remembers reads the ledger itself, from its own cursor, so it never holds up another.
//
// It is a ports.Notifier: the store tells it of each commit. One query now and then, whatever the number of sessions,
// finds what no wake-up told of.
type Hub struct {
	cfg  HubConfig
	ctx  context.Context // of the hub's own work
	stop func()
	done sync.WaitGroup

	mu     sync.Mutex
	feeds  map[domain.SessionRef]*feed
	closed bool
}

var (
	_ Source         = (*Hub)(nil)
	_ ports.Notifier = (*Hub)(nil)
)

// NewHub returns a running hub; Close ends it.
func NewHub(cfg HubConfig) *Hub {
	cfg.Sweep = orDefault(cfg.Sweep, 5*time.Second)
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	h := &Hub{cfg: cfg, feeds: map[domain.SessionRef]*feed{}}
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.done.Go(h.sweepLoop)
	return h
}

// Close ends the hub's own work. Streams that are still open hear of nothing more but what this process commits.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.stop()
	h.done.Wait()
}

// Open joins the feed of the session before it looks at the ledger, so that no commit falls between the two.
func (h *Hub) Open(ctx context.Context, ref domain.SessionRef, after domain.Seq) (Reader, error) {
	r := h.join(ref, after)
	if err := h.cfg.Cursors.CheckCursor(ctx, ref, after); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (h *Hub) join(ref domain.SessionRef, after domain.Seq) *hubReader {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.feeds[ref]
	if f == nil {
		f = newFeed(h, ref)
		h.feeds[ref] = f
	}
	r := &hubReader{feed: f, cursor: after, at: after, wake: make(chan struct{}, 1)}
	f.add(r)
	return r
}

func (h *Hub) leave(r *hubReader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := r.feed; f.remove(r) == 0 && h.feeds[f.ref] == f {
		delete(h.feeds, f.ref)
		f.end()
	}
}

// Committed implements ports.Notifier. It costs nothing for a session that nobody reads here.
func (h *Hub) Committed(c ports.Commit) {
	if len(c.Events) == 0 {
		return
	}
	h.mu.Lock()
	f := h.feeds[c.Ref]
	h.mu.Unlock()
	if f != nil {
		f.push(c.Events)
	}
}

func (h *Hub) sweepLoop() {
	tick := time.NewTicker(h.cfg.Sweep)
	defer tick.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-tick.C:
			h.sweep()
		}
	}
}

// sweepPage is how many sessions one look covers.
const sweepPage = 1000

// sweep compares the heads of all feeds with their ledgers.
func (h *Hub) sweep() {
	h.mu.Lock()
	feeds := make([]*feed, 0, len(h.feeds))
	for _, f := range h.feeds {
		feeds = append(feeds, f)
	}
	h.mu.Unlock()
	for page := range slices.Chunk(feeds, sweepPage) {
		refs := make([]domain.SessionRef, len(page))
		for i, f := range page {
			refs[i] = f.ref
		}
		ctx, cancel := context.WithTimeout(h.ctx, h.cfg.Sweep)
		heads, err := h.cfg.Ledger.Heads(ctx, refs)
		cancel()
		if err != nil {
			h.cfg.Log.Debug("cannot look for missed commits", zap.Error(err))
			return
		}
		for i, f := range page {
			f.ledgerAt(heads[i])
		}
	}
}
