package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// job is something to ask of the server, as often as it takes.
type job struct {
	urgent  bool // goes before what is being tried again
	try     func(ctx context.Context) (done func(), err error)
	refused func(err error)
}

// mailer does jobs in their order, one at a time.
type mailer struct {
	done chan func() // what is to be done after each job

	mu    sync.Mutex
	queue []*job
	poke  chan struct{} // there is a new job
}

func newMailer() *mailer {
	return &mailer{done: make(chan func()), poke: make(chan struct{}, 1)}
}

// give adds a job. It does not block.
func (m *mailer) give(j *job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue = append(m.queue, j)
	select {
	case m.poke <- struct{}{}:
	default:
	}
}

// first returns the next job, nil when there is none.
func (m *mailer) first() *job {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) == 0 {
		return nil
	}
	return m.queue[0]
}

func (m *mailer) removeFirst() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue = m.queue[1:]
}

// hurry puts an urgent job, if there is one behind the first, before all others, and reports whether it did.
func (m *mailer) hurry() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := 1 + slices.IndexFunc(m.queue[1:], func(j *job) bool { return j.urgent })
	if i == 0 || m.queue[0].urgent {
		return false
	}
	j := m.queue[i]
	m.queue = slices.Insert(slices.Delete(m.queue, i, i+1), 0, j)
	return true
}

// run works until ctx ends.
func (m *mailer) run(ctx context.Context, notes chan<- string) {
	for wait := firstPause; ; {
		j := m.first()
		if j == nil {
			select {
			case <-m.poke:
				continue
			case <-ctx.Done():
				return
			}
		}
		done, err := j.try(ctx)
		if errors.Is(err, errRefused) {
			refusal := err
			done, err = func() { j.refused(refusal) }, nil
		}
		if err == nil {
			m.removeFirst()
			wait = firstPause
			if send(ctx, m.done, done) != nil {
				return
			}
			continue
		}
		if send(ctx, notes, fmt.Sprintf("not sent yet: %v; trying again in %s", err, wait)) != nil {
			return
		}
		m.pause(ctx, wait)
		wait = min(2*wait, longPause)
	}
}

// pause waits, unless something urgent comes.
func (m *mailer) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for !m.hurry() {
		select {
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-m.poke:
		}
	}
}
