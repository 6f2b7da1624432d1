package bus

import (
	"sync"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// maxOutgoing is how many bytes of frames wait for the transport before further ones are dropped.
const maxOutgoing = 1 << 20

// Interest is what the transport knows of who listens. Nothing of it may block.
type Interest interface {
	// Wanted reports whether another process may have subscribers of the session behind d.
	Wanted(d Digest) bool

	// Join and Leave tell that this process has its first, or no more, subscribers of the session behind d.
	Join(d Digest)
	Leave(d Digest)
}

// Relay is a Partials whose frames reach other processes too: subscribers of this process get them at once, and what
// others want is collected for the transport. Frames that wait are joined or dropped; nothing blocks.
type Relay struct {
	local    Partials
	interest Interest
	filled   chan struct{} // holds a token while something waits

	mu      sync.Mutex
	heard   map[Digest]*heard // the sessions that this process has subscribers of
	out     map[Digest]*queue
	waiting int // bytes in out

	encoder encoder // of Take
}

// heard is a session and how many subscribe to it.
type heard struct {
	ref   domain.SessionRef
	count int
}

var _ ports.Partials = (*Relay)(nil)

// NewRelay returns a relay without subscribers that sends texts of at most limit bytes.
func NewRelay(interest Interest, limit int) *Relay {
	return &Relay{
		interest: interest, filled: make(chan struct{}, 1), heard: make(map[Digest]*heard), out: make(map[Digest]*queue),
		encoder: encoder{max: limit},
	}
}

// Publish implements ports.Partials.
func (r *Relay) Publish(p ports.Partial) {
	if !r.local.publish(p) {
		return
	}
	d := DigestOf(ports.Topic{Session: p.Ref})
	if !r.interest.Wanted(d) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting >= maxOutgoing {
		return
	}
	q := r.out[d]
	if q == nil {
		q = new(queue)
		r.out[d] = q
	}
	r.waiting -= q.bytes
	q.add(p)
	r.waiting += q.bytes
	fill(r.filled)
}

// Subscribe implements ports.Partials.
func (r *Relay) Subscribe(ref domain.SessionRef) (<-chan ports.Partial, func()) {
	frames, remove := r.local.Subscribe(ref)
	d := DigestOf(ports.Topic{Session: ref})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heard[d] == nil {
		r.heard[d] = &heard{ref: ref}
		r.interest.Join(d)
	}
	r.heard[d].count++
	return frames, sync.OnceFunc(func() {
		remove()
		r.forget(d)
	})
}

func (r *Relay) forget(d Digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heard[d].count--; r.heard[d].count == 0 {
		delete(r.heard, d)
		r.interest.Leave(d)
	}
}

// Heard returns the digests of the sessions that this process has subscribers of.
func (r *Relay) Heard() []Digest {
	r.mu.Lock()
	defer r.mu.Unlock()
	digests := make([]Digest, 0, len(r.heard))
	for d := range r.heard {
		digests = append(digests, d)
	}
	return digests
}

// Outgoing is one text for the other processes.
type Outgoing struct {
	To   Digest
	Text []byte
}

// Filled receives when something waits.
func (r *Relay) Filled() <-chan struct{} { return r.filled }

// Take returns what waits, in order within a session. One goroutine at a time may call it.
func (r *Relay) Take() []Outgoing {
	r.mu.Lock()
	out := r.out
	r.out, r.waiting = make(map[Digest]*queue), 0
	r.mu.Unlock()
	var taken []Outgoing
	for d, q := range out {
		for _, p := range q.frames {
			for _, text := range r.encoder.encode(p) {
				taken = append(taken, Outgoing{To: d, Text: text})
			}
		}
	}
	return taken
}

// Received hands a text of another process to the subscribers of this one. What is no frame, or of a session without
// subscribers here, is dropped.
func (r *Relay) Received(to Digest, text []byte) {
	r.mu.Lock()
	h := r.heard[to]
	r.mu.Unlock()
	if h == nil {
		return
	}
	p, err := decode(text)
	if err != nil {
		return
	}
	p.Ref = h.ref
	r.local.publish(p)
}
