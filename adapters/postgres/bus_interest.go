package postgres

import (
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/keel-agent/keel/adapters/bus"
)

// interestLasts is how long a process counts as interested in a session's partials since it last said so.
const interestLasts = 45 * time.Second

var _ bus.Interest = (*interest)(nil)

// interest is what the processes know of each other's subscribers of partials, so that nothing is sent for which there
// are none: each says what it wants when that begins, when it is asked, and now and then.
type interest struct {
	lasts  time.Duration
	filled chan struct{} // holds a token while something is to be said

	mu     sync.Mutex
	others map[bus.Digest]time.Time // until when other processes want a session's partials
	hears  bool                     // whether this one listens; it wants nothing that it could not hear
	say    map[bus.Digest]struct{}  // what it is to say that it wants
	asks   bool                     // whether it is to ask the others
}

func newInterest(lasts time.Duration) *interest {
	return &interest{
		lasts: lasts, filled: make(chan struct{}, 1), others: make(map[bus.Digest]time.Time), say: make(map[bus.Digest]struct{}),
	}
}

// Wanted implements bus.Interest.
func (i *interest) Wanted(d bus.Digest) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	until, ok := i.others[d]
	if ok && time.Now().After(until) {
		delete(i.others, d)
		return false
	}
	return ok
}

// Join implements bus.Interest.
func (i *interest) Join(d bus.Digest) { i.announce(d) }

// Leave implements bus.Interest. The others find out as time passes.
func (i *interest) Leave(d bus.Digest) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.say, d)
}

// listens tells whether this process hears the others. When that begins they are to be asked what they want: they may
// have said it before.
func (i *interest) listens(now bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.hears, i.asks = now, now
	if now {
		i.fill()
	}
}

// announce lets the others be told that this process wants the partials of some sessions.
func (i *interest) announce(sessions ...bus.Digest) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.hears || len(sessions) == 0 {
		return
	}
	for _, d := range sessions {
		i.say[d] = struct{}{}
	}
	i.fill()
}

// take returns what is to be said.
func (i *interest) take() (say map[bus.Digest]struct{}, asks bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	say, asks = i.say, i.asks
	i.say, i.asks = make(map[bus.Digest]struct{}), false
	return say, asks
}

// putBack undoes a take.
func (i *interest) putBack(say map[bus.Digest]struct{}, asks bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	maps.Copy(i.say, say)
	i.asks = i.asks || asks
	i.fill()
}

func (i *interest) fill() {
	select {
	case i.filled <- struct{}{}:
	default:
	}
}

// heard notes what another process wants, and forgets what nobody wants any more.
func (i *interest) heard(sessions iter.Seq[bus.Digest]) {
	now := time.Now()
	i.mu.Lock()
	defer i.mu.Unlock()
	for d := range sessions {
		i.others[d] = now.Add(i.lasts)
	}
	maps.DeleteFunc(i.others, func(_ bus.Digest, until time.Time) bool { return now.After(until) })
}
