package bus

import (
	"sync"

	"github.com/keel-agent/keel/ports"
)

var (
	_ ports.Wakeups  = (*Wakeups)(nil)
	_ ports.Notifier = (*Wakeups)(nil)
)

// Wakeups wakes the waiters of this process at once and collects what other processes are to be told. It never blocks.
type Wakeups struct {
	hub Hub
	out *Outbox

	mu     sync.Mutex
	topics map[Digest]*listened // what this process subscribes to
}

// listened is a topic and how many subscribe to it.
type listened struct {
	topic ports.Topic
	count int
}

// NewWakeups returns wake-ups without waiters.
func NewWakeups() *Wakeups {
	return &Wakeups{out: newOutbox(), topics: make(map[Digest]*listened)}
}

// Outbox holds what other processes are to be told.
func (w *Wakeups) Outbox() *Outbox { return w.out }

// Committed implements ports.Notifier.
func (w *Wakeups) Committed(c ports.Commit) {
	w.hub.Committed(c)
	for t := range Topics(c.Ref, c.Wake) {
		w.out.add(DigestOf(t))
	}
}

// Subscribe implements ports.Wakeups.
func (w *Wakeups) Subscribe(t ports.Topic) (wake <-chan struct{}, cancel func()) {
	d := DigestOf(t)
	w.mu.Lock()
	if w.topics[d] == nil {
		w.topics[d] = &listened{topic: ports.Topic{Session: t.Session, Process: t.Process}}
	}
	w.topics[d].count++
	w.mu.Unlock()
	wake, remove := w.hub.Subscribe(t)
	return wake, sync.OnceFunc(func() {
		remove()
		w.forget(d)
	})
}

func (w *Wakeups) forget(d Digest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.topics[d].count--; w.topics[d].count == 0 {
		delete(w.topics, d)
	}
}

// Received wakes the waiters of the topic behind d, if there are any: another process committed.
func (w *Wakeups) Received(d Digest) {
	if d == Everyone {
		w.WakeAll()
		return
	}
	w.mu.Lock()
	l := w.topics[d]
	w.mu.Unlock()
	if l != nil {
		w.hub.Wake(l.topic)
		remote := l.topic
		remote.Remote = true
		w.hub.Wake(remote)
	}
}

// WakeAll wakes every waiter: something may have been missed.
func (w *Wakeups) WakeAll() { w.hub.WakeAll() }
