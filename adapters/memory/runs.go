package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Get implements ports.Runs.
func (p Runs) Get(ctx context.Context, ref domain.SessionRef, run string) (domain.Run, error) {
	if err := ctx.Err(); err != nil {
		return domain.Run{}, err
	}
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	if r, ok := p.store.sessions[ref]; ok {
		if found, ok := r.runs[run]; ok {
			return cloneRun(found), nil
		}
	}
	return domain.Run{}, domain.ErrNotFound
}

// List implements ports.Runs.
func (p Runs) List(ctx context.Context, ref domain.SessionRef, before *ports.RunCursor, limit int) ([]domain.Run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	r, ok := p.store.sessions[ref]
	if !ok {
		return nil, domain.ErrNotFound
	}
	var found []domain.Run
	for _, run := range r.runs {
		if before == nil || compareRuns(runCursor(run), *before) < 0 {
			found = append(found, run)
		}
	}
	slices.SortFunc(found, func(a, b domain.Run) int { return compareRuns(runCursor(b), runCursor(a)) })
	found = found[:min(len(found), max(limit, 0))]
	for i := range found {
		found[i] = cloneRun(found[i])
	}
	return found, nil
}

// OpenCalls implements ports.Runs.
func (p Runs) OpenCalls(ctx context.Context, ref domain.SessionRef) ([]domain.ToolCall, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	r, ok := p.store.sessions[ref]
	if !ok {
		return nil, domain.ErrNotFound
	}
	return r.openCalls(), nil
}

func runCursor(run domain.Run) ports.RunCursor {
	return ports.RunCursor{CreatedAtMS: run.CreatedAt.UnixMilli(), Run: run.ID}
}

func compareRuns(a, b ports.RunCursor) int {
	return cmp.Or(cmp.Compare(a.CreatedAtMS, b.CreatedAtMS), cmp.Compare(a.Run, b.Run))
}
