package postgres

import (
	"context"
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

const (
	// crowdedAt commands in flight turn group commits on; groups in a row of fewer than sparseAt over all lanes turn them
	// off again. The number in flight would not do for that: it is low whenever a group has just ended.
	crowdedAt, sparseAt = 24, 12
	sparseGroups        = 4 * laneCount

	laneCount = 2

	// maxBatch and maxBatchBytes bound what commits together.
	maxBatch      = 256
	maxBatchBytes = 4 << 20
)

// crowd counts the commands in flight and says whether they go together.
type crowd struct {
	crowdedAt, sparseAt int64
	inFlight            atomic.Int64
	together            atomic.Bool
	sparse              atomic.Int64 // small groups in a row
}

// enter counts a command until it leaves, and reports whether it goes through a lane.
func (c *crowd) enter() bool {
	if n := c.inFlight.Add(1); n >= c.crowdedAt && !c.together.Load() {
		c.sparse.Store(0)
		c.together.Store(true)
	}
	return c.together.Load()
}

func (c *crowd) leave() { c.inFlight.Add(-1) }

// grouped takes note of a group's size.
func (c *crowd) grouped(size int) {
	switch {
	case int64(size*laneCount) >= c.sparseAt:
		c.sparse.Store(0)
	case c.sparse.Add(1) >= sparseGroups:
		c.together.Store(false)
	}
}

// lane commits the commands of its sessions in groups: while one group commits the next one gathers. There is no timer,
// so a lone command does not wait.
type lane struct {
	s *Store

	mu      sync.Mutex
	waiting []*doing
	busy    bool
}

var laneSeed = maphash.MakeSeed()

func (s *Store) laneOf(ref domain.SessionRef) *lane {
	return &s.lanes[maphash.Comparable(laneSeed, ref)%laneCount]
}

// put queues d. Its ticket is done when the group that it was in is.
func (l *lane) put(d *doing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, d)
	if !l.busy {
		l.busy = true
		go l.run()
	}
}

func (l *lane) run() {
	for group := l.next(); len(group) > 0; group = l.next() {
		l.s.crowd.grouped(len(group))
		l.s.together(group)
		// Those who were waiting may have more to say: let them, or the next group is the first of them alone.
		for range yields {
			if l.gathered(len(group)) {
				break
			}
			runtime.Gosched()
		}
	}
}

// yields is how often a lane lets others run before its next group; it does not sleep.
const yields = 4

func (l *lane) gathered(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) >= n
}

// next takes the commands of the next group, in the order of their arrival; none when the lane comes to rest.
func (l *lane) next() []*doing {
	l.mu.Lock()
	defer l.mu.Unlock()
	var group []*doing
	n, bytes := 0, 0
	for n < len(l.waiting) && len(group) < maxBatch && bytes <= maxBatchBytes {
		d := l.waiting[n]
		if n++; d.ticket.take() {
			group, bytes = append(group, d), bytes+payloadBytes(d.cmd)
		}
	}
	clear(l.waiting[:n])
	if l.waiting = l.waiting[n:]; len(l.waiting) == 0 {
		l.waiting = nil
	}
	l.busy = len(group) > 0
	return group
}

// ticket is a command's place in a lane.
type ticket struct {
	taken   atomic.Bool   // by the lane, or back by the command itself
	done    chan struct{} // closed when the group has ended
	settled bool          // the command's outcome or refusal stands; else it goes on alone
	err     error
}

func (t *ticket) take() bool { return t.taken.CompareAndSwap(false, true) }

// lane takes d through the lane of its session and reports whether that settled it.
func (d *doing) lane(ctx context.Context) (settled bool, err error) {
	d.ctx, d.ticket = ctx, &ticket{done: make(chan struct{})}
	d.s.laneOf(d.ref).put(d)
	select {
	case <-d.ticket.done:
	case <-ctx.Done():
		if d.ticket.take() {
			return true, translate(ctx, ctx.Err(), final)
		}
		<-d.ticket.done
	}
	return d.ticket.settled, d.ticket.err
}

// gregarious reports whether a command may go through a lane: all that are frequent and need nothing rare of the view.
func gregarious(cmd domain.Command, n domain.Needs) bool {
	_, creates := cmd.(domain.CreateSession)
	return !creates && plain(n)
}

// plain reports whether needs are the rows that group commits load and that a store keeps of sessions it runs.
func plain(n domain.Needs) bool {
	return n.Made == "" && !n.OpenCalls && n.CallsBefore == 0 && !n.OwnerLive
}

func payloadBytes(cmd domain.Command) int {
	var p domain.Payload
	switch c := cmd.(type) {
	case domain.SubmitInput:
		p = c.Payload
	case domain.AppendExternal:
		p = c.Payload
	case domain.AppendAssistant:
		p = c.Payload
	case domain.AppendToolResult:
		p = c.Payload
	}
	return len(p.String())
}

// together commits a group and lets its commands go on. A group that fails as a whole leaves each command to its own
// way: one that the database refuses harms no other, and one whose commit may have gone through finds out by itself.
func (s *Store) together(all []*doing) {
	g := &group{s: s, all: all}
	sent, f, err := s.briefly(context.Background(), func(ctx context.Context) (bool, fate, error) { return s.once(ctx, g.attempt) })
	if err != nil {
		s.groupFailed(f)
	}
	for _, m := range g.order {
		switch {
		case err == nil && m.applied:
			g.remember(m)
			s.tell(m.ref, m.merged)
		case err != nil:
			s.views.drop(m.ref)
		}
	}
	for _, d := range all {
		m := g.sessions[d.ref]
		switch {
		case err == nil && (m.applied || m.merged.Session == nil):
			d.ticket.settled = true
			if d.change != nil {
				d.outcome = d.change.effects.Outcome
			}
		case err != nil && f == lost && sent && d.change != nil:
			d.lost, d.ticket.err = &d.change.effects, nil
		default:
			d.outcome, d.ticket.err = domain.Outcome{}, nil
		}
		close(d.ticket.done)
	}
}

// groupFailed takes note of what concerns more than the group's own commands.
func (s *Store) groupFailed(f fate) { s.plan(f, map[fate]int{f: 1}, false) }

// merge adds the wake-ups of a later commit.
func merge(w *domain.Wake, next domain.Wake) {
	w.Readers = w.Readers || next.Readers
	w.Queue = w.Queue || next.Queue
	if next.Owner != "" {
		w.Owner = next.Owner
	}
	if next.Parent != nil {
		w.Parent = next.Parent
	}
}

var _ ports.Ledger = (*Store)(nil)
