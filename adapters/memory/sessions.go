package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Get implements ports.Sessions.
func (p Sessions) Get(ctx context.Context, ref domain.SessionRef) (row domain.Session, active *domain.Run, err error) {
	err = p.store.locked(ctx, func(s *Store) error {
		v := s.view(ref, domain.Needs{})
		if v.Session == nil {
			return domain.ErrNotFound
		}
		row, active = *v.Session, v.Run
		return nil
	})
	return row, active, err
}

// List implements ports.Sessions.
func (p Sessions) List(ctx context.Context, q ports.SessionQuery) (found []domain.Session, err error) {
	err = p.store.locked(ctx, func(s *Store) error {
		for _, r := range s.sessions {
			if selects(q, &r.row) {
				found = append(found, cloneSession(r.row))
			}
		}
		return nil
	})
	slices.SortFunc(found, func(a, b domain.Session) int { return compareSessions(sessionCursor(&b), sessionCursor(&a)) })
	return found[:min(len(found), max(q.Limit, 0))], err
}

// Heads implements ports.Sessions.
func (p Sessions) Heads(ctx context.Context, refs []domain.SessionRef) (heads []domain.Seq, err error) {
	err = p.store.locked(ctx, func(s *Store) error {
		heads = make([]domain.Seq, len(refs))
		for i, ref := range refs {
			if r, ok := s.sessions[ref]; ok {
				heads[i] = r.row.HeadSeq
			}
		}
		return nil
	})
	return heads, err
}

func selects(q ports.SessionQuery, row *domain.Session) bool {
	switch {
	case row.Ref.Tenant != q.Tenant,
		q.State != "" && row.State != q.State,
		q.Parent != "" && (row.Parent == nil || row.Parent.Session != q.Parent),
		q.Before != nil && compareSessions(sessionCursor(row), *q.Before) >= 0:
		return false
	}
	return hasMembers(row.Metadata, q.Metadata)
}

// hasMembers reports whether each of want is a top-level member of p that is an equal string.
func hasMembers(p domain.Payload, want map[string]string) bool {
	if len(want) == 0 {
		return true
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(p.Bytes(), &members) != nil {
		return false
	}
	for name, value := range want {
		raw, ok := members[name]
		var got *string
		if !ok || json.Unmarshal(raw, &got) != nil || got == nil || *got != value {
			return false
		}
	}
	return true
}

func sessionCursor(row *domain.Session) ports.SessionCursor {
	return ports.SessionCursor{CreatedAtMS: row.CreatedAt.UnixMilli(), Session: row.Ref.Session}
}

func compareSessions(a, b ports.SessionCursor) int {
	return cmp.Or(cmp.Compare(a.CreatedAtMS, b.CreatedAtMS), cmp.Compare(a.Session, b.Session))
}
