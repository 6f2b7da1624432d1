package bus

import (
	"container/list"
	"sync"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

const (
	// partialsBuffer is how many frames wait for a subscriber before further ones are joined.
	partialsBuffer = 64
	// idleEpochs is of how many sessions without subscribers the epoch is remembered.
	idleEpochs = 1024
)

// Partials carries token-level frames within this process. The zero value is ready for use.
//
// The highest epoch of a session is remembered while it has subscribers, and that of the sessions last heard of without
// any, so that a fenced worker cannot reach a client that comes late.
type Partials struct {
	mu       sync.Mutex
	sessions map[domain.SessionRef]*frames
	idle     list.List // of domain.SessionRef, those without subscribers, last heard of first
}

var _ ports.Partials = (*Partials)(nil)

// frames is what is known of one session.
type frames struct {
	epoch       int64
	subscribers map[*subscriber]struct{}
	idle        *list.Element // nil while there are subscribers
}

// Publish implements ports.Partials.
func (p *Partials) Publish(frame ports.Partial) { p.publish(frame) }

// publish reports whether the frame is of the highest epoch heard of.
func (p *Partials) publish(frame ports.Partial) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.session(frame.Ref)
	if frame.Epoch < f.epoch {
		return false
	}
	f.epoch = frame.Epoch
	for to := range f.subscribers {
		to.offer(frame)
	}
	return true
}

// Subscribe implements ports.Partials.
func (p *Partials) Subscribe(ref domain.SessionRef) (<-chan ports.Partial, func()) {
	to := &subscriber{out: make(chan ports.Partial, partialsBuffer), gone: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.session(ref)
	f.subscribers[to] = struct{}{}
	if f.idle != nil {
		p.idle.Remove(f.idle)
		f.idle = nil
	}
	return to.out, sync.OnceFunc(func() { p.cancel(ref, to) })
}

func (p *Partials) cancel(ref domain.SessionRef, to *subscriber) {
	close(to.gone)
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.sessions[ref]
	delete(f.subscribers, to)
	if len(f.subscribers) == 0 {
		p.rest(ref, f)
	}
}

// session returns what is known of ref, and counts as hearing of it.
func (p *Partials) session(ref domain.SessionRef) *frames {
	f, ok := p.sessions[ref]
	if !ok {
		f = &frames{subscribers: map[*subscriber]struct{}{}}
		if p.sessions == nil {
			p.sessions = map[domain.SessionRef]*frames{}
		}
		p.sessions[ref] = f
	}
	if len(f.subscribers) == 0 {
		p.rest(ref, f)
	}
	return f
}

// rest puts a session without subscribers at the head of the idle ones and forgets those beyond the bound.
func (p *Partials) rest(ref domain.SessionRef, f *frames) {
	if f.idle != nil {
		p.idle.MoveToFront(f.idle)
		return
	}
	f.idle = p.idle.PushFront(ref)
	if p.idle.Len() > idleEpochs {
		delete(p.sessions, p.idle.Remove(p.idle.Back()).(domain.SessionRef))
	}
}

// subscriber is one subscription. Frames that its channel has no room for wait in a queue, and somebody carries them
// over while there are any.
type subscriber struct {
	out  chan ports.Partial
	gone chan struct{}

	mu       sync.Mutex
	carrying bool
	waiting  queue
}

func (s *subscriber) offer(p ports.Partial) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.carrying {
		select {
		case s.out <- p:
			return
		default:
		}
		s.carrying = true
		go s.carry()
	}
	s.waiting.add(p)
}

func (s *subscriber) carry() {
	for {
		s.mu.Lock()
		p, ok := s.waiting.take()
		s.carrying = ok
		s.mu.Unlock()
		if !ok {
			return
		}
		select {
		case s.out <- p:
		case <-s.gone:
			return
		}
	}
}
