package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Get implements ports.Runs.
func (p Runs) Get(ctx context.Context, ref domain.SessionRef, run string) (found domain.Run, err error) {
	err = p.store.locked(ctx, func(s *Store) error {
		if r, ok := s.sessions[ref]; ok {
			if row, ok := r.runs[run]; ok {
				found = cloneRun(row)
				return nil
			}
		}
		return domain.ErrNotFound
	})
	return found, err
}

// List implements ports.Runs.
func (p Runs) List(ctx context.Context, ref domain.SessionRef, before *ports.RunCursor, limit int) (found []domain.Run, err error) {
	err = p.store.locked(ctx, func(s *Store) error {
		r, ok := s.sessions[ref]
		if !ok {
			return domain.ErrNotFound
		}
		for _, run := range r.runs {
			if before == nil || compareRuns(runCursor(run), *before) < 0 {
				found = append(found, cloneRun(run))
			}
		}
		return nil
	})
	slices.SortFunc(found, func(a, b domain.Run) int { return compareRuns(runCursor(b), runCursor(a)) })
	return found[:min(len(found), max(limit, 0))], err
}

// Forsaken implements ports.Runs.
func (p Runs) Forsaken(ctx context.Context, parent domain.SessionRef, limit int) (found []ports.RunRef, err error) {
	err = p.store.locked(ctx, func(s *Store) error {
		for _, active := range []map[string]*record{s.pending, s.running} {
			for id, r := range active {
				if of := r.row.Parent; of != nil && s.forsaken(r, r.runs[id]) &&
					(parent == domain.SessionRef{} || parent == domain.SessionRef{Tenant: r.row.Ref.Tenant, Session: of.Session}) {
					found = append(found, ports.RunRef{Ref: r.row.Ref, Run: id})
				}
			}
		}
		return nil
	})
	slices.SortFunc(found, func(a, b ports.RunRef) int { return cmp.Compare(a.Run, b.Run) })
	return found[:min(len(found), max(limit, 0))], err
}

// forsaken reports whether the run of a child should be cancelled because its parent's run was.
func (s *Store) forsaken(child *record, run domain.Run) bool {
	of, ok := s.sessions[domain.SessionRef{Tenant: child.row.Ref.Tenant, Session: child.row.Parent.Session}]
	if !ok || run.CancelSeq != nil {
		return false
	}
	maker, ok := of.runs[child.row.Parent.Run]
	return ok && maker.CancelSeq != nil && (maker.SettledAt.IsZero() || !run.CreatedAt.After(maker.SettledAt))
}

// Active implements ports.Runs.
func (p Runs) Active(ctx context.Context, tenant string, sessions []string) (active []domain.Run, err error) {
	err = p.store.locked(ctx, func(s *Store) error {
		for _, id := range slices.Compact(slices.Sorted(slices.Values(sessions))) {
			r, ok := s.sessions[domain.SessionRef{Tenant: tenant, Session: id}]
			if !ok {
				continue
			}
			if run, ok := r.runs[r.row.ActiveRun]; ok {
				active = append(active, cloneRun(run))
			}
		}
		return nil
	})
	return active, err
}

// OpenCalls implements ports.Runs.
func (p Runs) OpenCalls(ctx context.Context, ref domain.SessionRef) (open []domain.ToolCall, err error) {
	err = p.store.locked(ctx, func(s *Store) error {
		r, ok := s.sessions[ref]
		if !ok {
			return domain.ErrNotFound
		}
		open = r.openCalls()
		return nil
	})
	return open, err
}

func runCursor(run domain.Run) ports.RunCursor {
	return ports.RunCursor{CreatedAtMS: run.CreatedAt.UnixMilli(), Run: run.ID}
}

func compareRuns(a, b ports.RunCursor) int {
	return cmp.Or(cmp.Compare(a.CreatedAtMS, b.CreatedAtMS), cmp.Compare(a.Run, b.Run))
}
