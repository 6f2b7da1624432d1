package runner_test

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/keel-agent/keel/adapters/memory"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// line is a process's connection to the store. It can be cut, and it can lose replies.
type line struct {
	store *memory.Store

	mu   sync.Mutex
	cut  bool
	lose func(domain.Command) bool // whether the reply to a command that was applied gets lost

	slow   func(domain.Command) time.Duration // how long a command takes
	before func(domain.Command)               // called before a command is applied
	after  func(domain.Command)               // called when it was, before its reply comes
	read   int                                // events read
	asked  tally
	calls  int // of any kind

	claimLost bool // the last run of the next claim that takes any gets lost with its reply
}

func (l *line) loseNextClaim() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claimLost = true
}

func (l *line) losesClaim() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := l.claimLost
	l.claimLost = false
	return lost
}

// tally counts what a process asked of the store.
type tally struct{ commands, pages, runs int }

// count returns what was asked over the line since the last count.
func (l *line) count() tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.asked
	l.asked = tally{}
	return n
}

func (l *line) add(n tally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked.commands += n.commands
	l.asked.pages += n.pages
	l.asked.runs += n.runs
}

// called is how many calls were made over the line so far.
func (l *line) called() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

// eventsRead is how many events were read over the line so far.
func (l *line) eventsRead() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.read
}

func (l *line) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
}

// err counts a call, and returns an error when it does not get through.
func (l *line) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if l.cut {
		return fmt.Errorf("cut: %w", ports.ErrUnavailable)
	}
	return nil
}

func (l *line) Do(ctx context.Context, ref domain.SessionRef, c domain.Command) (domain.Outcome, error) {
	if err := cmp.Or(ctx.Err(), l.err()); err != nil {
		return domain.Outcome{}, err
	}
	if l.slow != nil {
		time.Sleep(l.slow(c)) // fake time
	}
	l.add(tally{commands: 1})
	if l.before != nil {
		l.before(c)
	}
	out, err := l.store.Do(ctx, ref, c)
	if l.after != nil {
		l.after(c)
	}
	l.mu.Lock()
	lose := l.lose
	l.mu.Unlock()
	if lose != nil && err == nil && lose(c) {
		return domain.Outcome{}, fmt.Errorf("reply lost: %w", ports.ErrUnavailable)
	}
	return out, err
}

func (l *line) Events(ctx context.Context, ref domain.SessionRef, after domain.Seq, limit int) ([]domain.Event, error) {
	if err := cmp.Or(ctx.Err(), l.err()); err != nil {
		return nil, err
	}
	l.add(tally{pages: 1})
	events, err := l.store.Events(ctx, ref, after, limit)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read += len(events)
	return events, err
}

type lineRuns struct {
	line *line
	ports.Runs
}

func (r lineRuns) Claim(ctx context.Context, c ports.ClaimRequest) ([]ports.Claim, error) {
	if err := r.line.err(); err != nil {
		return nil, err
	}
	claims, err := r.Runs.Claim(ctx, c)
	if n := len(claims); n > 0 && r.line.losesClaim() {
		return claims[:n-1], fmt.Errorf("reply lost: %w", ports.ErrUnavailable)
	}
	return claims, err
}

func (r lineRuns) Get(ctx context.Context, ref domain.SessionRef, run string) (domain.Run, error) {
	if err := r.line.err(); err != nil {
		return domain.Run{}, err
	}
	r.line.add(tally{runs: 1})
	return r.Runs.Get(ctx, ref, run)
}

func (r lineRuns) Forsaken(ctx context.Context, parent domain.SessionRef, limit int) ([]ports.RunRef, error) {
	if err := r.line.err(); err != nil {
		return nil, err
	}
	return r.Runs.Forsaken(ctx, parent, limit)
}

type lineProcesses struct {
	line *line
	ports.Processes
}

func (p lineProcesses) Renew(ctx context.Context, id string, ttl time.Duration) ([]ports.Owned, error) {
	if err := p.line.err(); err != nil {
		return nil, err
	}
	return p.Processes.Renew(ctx, id, ttl)
}

func (p lineProcesses) Owned(ctx context.Context, id string) ([]ports.Owned, error) {
	if err := p.line.err(); err != nil {
		return nil, err
	}
	return p.Processes.Owned(ctx, id)
}

func (p lineProcesses) Bury(ctx context.Context) ([]ports.RunRef, time.Duration, error) {
	if err := p.line.err(); err != nil {
		return nil, 0, err
	}
	return p.Processes.Bury(ctx)
}

func (p lineProcesses) Register(ctx context.Context, id, address string, ttl time.Duration) error {
	if err := p.line.err(); err != nil {
		return err
	}
	return p.Processes.Register(ctx, id, address, ttl)
}
