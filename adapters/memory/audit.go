package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Audit is the Store as ports.Audit.
type Audit struct{ store *Store }

var _ ports.Audit = Audit{}

// Audit returns the store's ports.Audit.
func (s *Store) Audit() Audit { return Audit{s} }

// Refs implements ports.Audit.
func (p Audit) Refs(ctx context.Context, after domain.SessionRef, limit int) ([]domain.SessionRef, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	var refs []domain.SessionRef
	for ref := range p.store.sessions {
		if compareRefs(ref, after) > 0 {
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, compareRefs)
	return refs[:min(len(refs), max(limit, 0))], nil
}

// Rows implements ports.Audit.
func (p Audit) Rows(ctx context.Context, ref domain.SessionRef, read func(ports.AuditRows) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	rows, ok := p.rows(ref)
	if !ok {
		return domain.ErrNotFound
	}
	return read(rows)
}

func (p Audit) rows(ref domain.SessionRef) (ports.AuditRows, bool) {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	r, ok := p.store.sessions[ref]
	if !ok {
		return ports.AuditRows{}, false
	}
	runs := make([]domain.Run, 0, len(r.runs))
	for _, run := range r.runs {
		runs = append(runs, cloneRun(run))
	}
	slices.SortFunc(runs, func(a, b domain.Run) int { return compareRuns(runCursor(a), runCursor(b)) })
	return ports.AuditRows{
		Session: cloneSession(r.row), LastSeq: domain.Seq(len(r.events)), Calls: cloneCalls(r.calls),
		Runs: func(yield func(domain.Run, error) bool) {
			for _, run := range runs {
				if !yield(run, nil) {
					return
				}
			}
		},
	}, true
}

// Strays implements ports.Audit. There are none: all of a session is kept in its record.
func (p Audit) Strays(ctx context.Context, _ int) ([]domain.SessionRef, error) { return nil, ctx.Err() }

func compareRefs(a, b domain.SessionRef) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Session, b.Session))
}
