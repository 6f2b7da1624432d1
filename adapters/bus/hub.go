package bus

import (
	"sync"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

var (
	_ ports.Wakeups  = (*Hub)(nil)
	_ ports.Notifier = (*Hub)(nil)
)

// Hub carries wake-ups within one process. The zero value is ready for use. Wake-ups of one subscription that come
// faster than they are taken become one. A remote topic is woken when it is armed, and by Wake and WakeAll.
type Hub struct {
	mu   sync.Mutex
	subs map[ports.Topic]map[*subscription]struct{}
}

type subscription struct{ wake chan struct{} }

func (s *subscription) fire() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Subscribe implements ports.Wakeups.
func (h *Hub) Subscribe(t ports.Topic) (wake <-chan struct{}, cancel func()) {
	s := &subscription{wake: make(chan struct{}, 1)}
	s.fire()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = make(map[ports.Topic]map[*subscription]struct{})
	}
	if h.subs[t] == nil {
		h.subs[t] = make(map[*subscription]struct{})
	}
	h.subs[t][s] = struct{}{}
	return s.wake, func() { h.remove(t, s) }
}

func (h *Hub) remove(t ports.Topic, s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs[t], s)
	if len(h.subs[t]) == 0 {
		delete(h.subs, t)
	}
}

// Committed implements ports.Notifier.
func (h *Hub) Committed(c ports.Commit) {
	for t := range Topics(c.Ref, c.Wake) {
		h.Wake(t)
	}
}

// Wake fires the subscriptions of t.
func (h *Hub) Wake(t ports.Topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs[t] {
		s.fire()
	}
}

// WakeAll fires every subscription: wake-ups may have been lost.
func (h *Hub) WakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, subs := range h.subs {
		for s := range subs {
			s.fire()
		}
	}
}

// Topics yields the topics that a commit to the session ref wakes.
func Topics(ref domain.SessionRef, w domain.Wake) func(yield func(ports.Topic) bool) {
	return func(yield func(ports.Topic) bool) {
		if w.Readers && !yield(ports.Topic{Session: ref}) {
			return
		}
		if w.Queue && !yield(ports.QueueTopic) {
			return
		}
		if w.Owner != "" && !yield(ports.Topic{Process: w.Owner}) {
			return
		}
		if w.Parent != nil {
			yield(ports.Topic{Session: *w.Parent})
		}
	}
}
