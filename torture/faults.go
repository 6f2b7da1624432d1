package main

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/keel-agent/keel/torture/plan"
)

// faults plays the lanes of a plan against a fleet.
type faults struct {
	fleet   *fleet
	cluster *cluster // nil unless Postgres is ours
	store   string
	say     func(format string, args ...any)

	mu     sync.Mutex
	did    map[string]int // by kind, and by point
	count  int
	missed int // points that were not passed in time
}

// pointLimit is how long a server may serve without passing the point where it is to end.
const pointLimit = 4 * time.Second

// begin starts every server and waits until they are ready.
func (f *faults) begin(ctx context.Context) error {
	for _, s := range f.fleet.slots {
		s.mu.Lock()
		err := s.start("")
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return f.fleet.allReady(ctx)
}

// play plays all lanes side by side and returns when the last one has ended.
func (f *faults) play(ctx context.Context, p plan.Plan) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for _, lane := range p.Lanes {
		group.Go(func() {
			for i, a := range lane {
				next := plan.Action{Slot: a.Slot}
				if i+1 < len(lane) {
					next = lane[i+1]
				}
				if err := f.act(ctx, a, next); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

func (f *faults) act(ctx context.Context, a, next plan.Action) error {
	var err error
	if a.Fault.OfDatabase() {
		err = f.database(ctx, a)
	} else {
		err = f.server(ctx, a, next)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	f.done(string(a.Fault))
	return nil
}

func (f *faults) done(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did[what]++
	f.count++
	if f.count%25 == 0 {
		f.say("%d faults", f.count)
	}
}

// server plays a fault of a server and starts the successor, which is told its own end if it is to end at a point.
func (f *faults) server(ctx context.Context, a, next plan.Action) error {
	s := f.fleet.slots[a.Slot]
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.prepare(ctx, a); err != nil {
		return err
	}
	switch a.Fault {
	case plan.Kill:
		s.proc.kill()
	case plan.Point:
		f.atPoint(s, a)
	case plan.Term:
		s.term()
	case plan.Stop:
		_ = s.proc.cmd.Process.Signal(syscall.SIGSTOP)
		pause(ctx, a.Hold)
		_ = s.proc.cmd.Process.Signal(syscall.SIGCONT)
		return ctx.Err()
	}
	if next.Slot != a.Slot || next.Fault != plan.Point {
		return s.start("")
	}
	return s.start(next.Point)
}

// prepare waits until the fault is due: for a server that is ready, and that ends where it is to end.
func (s *slot) prepare(ctx context.Context, a plan.Action) error {
	if s.proc.point != a.Point { // another lane, or an action that left its process alive
		s.proc.kill()
		if err := s.start(a.Point); err != nil {
			return err
		}
	}
	ready := true
	if !a.Early {
		var err error
		if ready, err = s.ready(ctx); err != nil {
			return err
		}
	}
	if ready && a.Fault != plan.Point || a.Drain {
		pause(ctx, a.After)
	}
	return nil
}

// atPoint waits until the process has killed itself.
func (f *faults) atPoint(s *slot, a plan.Action) {
	limit := pointLimit
	if a.Drain {
		_ = s.proc.cmd.Process.Signal(syscall.SIGTERM)
		limit = drainLimit
	}
	hit := s.proc.within(limit) && s.proc.killed()
	if !hit && !s.proc.ended() {
		s.proc.kill()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if hit {
		f.did[pointName(a.Point)]++
	} else {
		f.missed++
	}
}

// term ends a server as a deployment does, and wants a clean exit.
func (s *slot) term() {
	s.proc.meant = true
	_ = s.proc.cmd.Process.Signal(syscall.SIGTERM)
	switch {
	case !s.proc.within(drainLimit):
		s.proc.kill()
		s.died("did not end after SIGTERM")
	case !s.proc.cmd.ProcessState.Success() && !s.shaky:
		s.died("did not end cleanly after SIGTERM")
	}
}

func (f *faults) database(ctx context.Context, a plan.Action) error {
	pause(ctx, a.After)
	if a.Fault == plan.Restart {
		f.cluster.stop()
		return f.cluster.start(ctx)
	}
	for i := range a.Count {
		if i > 0 {
			pause(ctx, a.Hold)
		}
		_ = terminate(ctx, f.store) // a restart in another lane may be in the way
	}
	return ctx.Err()
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
