package bus

import "sync"

// MaxWaiting is how many topics may wait to be sent before they become one call to everyone.
const MaxWaiting = 4_096

// Outbox collects the topics that other processes are to be told of.
type Outbox struct {
	filled chan struct{} // holds a token while something waits

	mu      sync.Mutex
	waiting map[Digest]struct{}
}

func newOutbox() *Outbox {
	return &Outbox{filled: make(chan struct{}, 1), waiting: make(map[Digest]struct{})}
}

// Filled receives when something waits.
func (o *Outbox) Filled() <-chan struct{} { return o.filled }

// Take returns what waits and leaves the outbox empty. Everyone stands alone.
func (o *Outbox) Take() map[Digest]struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.waiting
	o.waiting = make(map[Digest]struct{})
	return taken
}

// PutBack adds what could not be sent.
func (o *Outbox) PutBack(digests map[Digest]struct{}) {
	for d := range digests {
		o.add(d)
	}
}

func (o *Outbox) add(d Digest) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) >= MaxWaiting || d == Everyone {
		clear(o.waiting)
		d = Everyone
	}
	if _, all := o.waiting[Everyone]; !all {
		o.waiting[d] = struct{}{}
	}
	fill(o.filled)
}

// fill puts a token into a channel that holds one.
func fill(filled chan<- struct{}) {
	select {
	case filled <- struct{}{}:
	default:
	}
}
