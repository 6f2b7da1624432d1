package memory

import (
	"sync"

	"github.com/keel-agent/keel/ports"
)

// Hub hands the wake-ups of commits to the waiters of this process. A wake-up that nobody took yet absorbs the next
// one. There are no other processes, so a remote topic wakes once, when it is armed. The zero value is ready for use.
type Hub struct {
	mu      sync.Mutex
	waiters map[ports.Topic]map[chan struct{}]struct{}
}

var (
	_ ports.Wakeups  = (*Hub)(nil)
	_ ports.Notifier = (*Hub)(nil)
)

// Subscribe implements ports.Wakeups.
func (h *Hub) Subscribe(t ports.Topic) (<-chan struct{}, func()) {
	wake := make(chan struct{}, 1)
	wake <- struct{}{}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiters == nil {
		h.waiters = map[ports.Topic]map[chan struct{}]struct{}{}
	}
	if h.waiters[t] == nil {
		h.waiters[t] = map[chan struct{}]struct{}{}
	}
	h.waiters[t][wake] = struct{}{}
	return wake, func() { h.cancel(t, wake) }
}

func (h *Hub) cancel(t ports.Topic, wake chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiters[t], wake)
	if len(h.waiters[t]) == 0 {
		delete(h.waiters, t)
	}
}

// Committed implements ports.Notifier.
func (h *Hub) Committed(c ports.Commit) {
	if c.Wake.Readers {
		h.wake(ports.Topic{Session: c.Ref})
	}
	if c.Wake.Parent != nil {
		h.wake(ports.Topic{Session: *c.Wake.Parent})
	}
	if c.Wake.Owner != "" {
		h.wake(ports.Topic{Process: c.Wake.Owner})
	}
	if c.Wake.Queue {
		h.wake(ports.QueueTopic)
	}
}

func (h *Hub) wake(t ports.Topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for wake := range h.waiters[t] {
		fire(wake)
	}
}

func fire(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
