package memory

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// errProcessID is returned to a process that registers under an id that has a row.
var errProcessID = errors.New("the process id was used before")

// live returns the process's row if it can still be renewed.
func (s *Store) live(id string) (*ports.Process, bool) {
	p, ok := s.processes[id]
	if !ok || p.Dead || !p.ExpiresAt.After(s.now()) {
		return nil, false
	}
	return p, true
}

// Register implements ports.Processes.
func (p Processes) Register(ctx context.Context, id, address string, ttl time.Duration) error {
	return p.store.locked(ctx, func(s *Store) error {
		if _, ok := s.processes[id]; ok {
			return errProcessID
		}
		now := s.now()
		s.processes[id] = &ports.Process{ID: id, Address: address, StartedAt: now, ExpiresAt: now.Add(ttl)}
		return nil
	})
}

// Renew implements ports.Processes.
func (p Processes) Renew(ctx context.Context, id string, ttl time.Duration) (owned []ports.Owned, err error) {
	err = p.store.locked(ctx, func(s *Store) error {
		row, ok := s.live(id)
		if !ok {
			return ports.ErrProcessDead
		}
		row.ExpiresAt = s.now().Add(ttl)
		owned = s.owned(func(run domain.Run) bool { return run.Owner == id && run.CancelSeq != nil })
		return nil
	})
	return owned, err
}

// Owned implements ports.Processes.
func (p Processes) Owned(ctx context.Context, id string) (owned []ports.Owned, err error) {
	err = p.store.locked(ctx, func(s *Store) error {
		owned = s.owned(func(run domain.Run) bool { return run.Owner == id })
		return nil
	})
	return owned, err
}

func (s *Store) owned(which func(domain.Run) bool) (owned []ports.Owned) {
	for _, run := range s.runningRuns(which) {
		owned = append(owned, ports.Owned{Ref: run.Ref, Run: run.ID, Epoch: run.Epoch})
	}
	return owned
}

// SetDraining implements ports.Processes.
func (p Processes) SetDraining(ctx context.Context, id string) error {
	return p.store.locked(ctx, func(s *Store) error {
		row, ok := s.live(id)
		if !ok {
			return ports.ErrProcessDead
		}
		row.Draining = true
		return nil
	})
}

// Deregister implements ports.Processes. A missing row is as good as a dead one.
func (p Processes) Deregister(ctx context.Context, id string) error {
	return p.store.locked(ctx, func(s *Store) error {
		if row, ok := s.processes[id]; ok {
			row.Dead = true
		}
		return nil
	})
}

// Bury implements ports.Processes.
func (p Processes) Bury(ctx context.Context) (orphans []ports.RunRef, next time.Duration, err error) {
	dead := false
	err = p.store.locked(ctx, func(s *Store) error {
		now := s.now()
		for _, row := range s.processes {
			if row.Dead = row.Dead || !row.ExpiresAt.After(now); row.Dead {
				dead = true
			} else if left := row.ExpiresAt.Sub(now); next == 0 || left < next {
				next = left
			}
		}
		named := map[string]bool{}
		for _, run := range s.runningRuns(func(run domain.Run) bool { return s.processes[run.Owner].Dead }) {
			named[run.Owner] = true
			orphans = append(orphans, ports.RunRef{Ref: run.Ref, Run: run.ID})
		}
		for id, row := range s.processes {
			if row.Dead && !named[id] {
				delete(s.processes, id)
			}
		}
		return nil
	})
	if dead {
		next = 0
	}
	return orphans, next, err
}

// List implements ports.Processes.
func (p Processes) List(ctx context.Context) (rows []ports.Process, err error) {
	err = p.store.locked(ctx, func(s *Store) error {
		for _, row := range s.processes {
			rows = append(rows, *row)
		}
		slices.SortFunc(rows, func(a, b ports.Process) int {
			return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.ID, b.ID))
		})
		return nil
	})
	return rows, err
}

// runningRuns returns the running runs that which selects, by run id.
func (s *Store) runningRuns(which func(domain.Run) bool) []domain.Run {
	var found []domain.Run
	for id, r := range s.running {
		if run := r.runs[id]; which(run) {
			found = append(found, run)
		}
	}
	slices.SortFunc(found, func(a, b domain.Run) int { return cmp.Compare(a.ID, b.ID) })
	return found
}
