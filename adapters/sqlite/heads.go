package sqlite

import (
	"context"

	"github.com/keel-agent/keel/domain"
)

// Heads implements ports.Sessions.
func (p sessions) Heads(ctx context.Context, refs []domain.SessionRef) ([]domain.Seq, error) {
	heads := make([]domain.Seq, len(refs))
	err := p.s.reading(ctx, func(q querier) error {
		for i, ref := range refs {
			if err := head(q, ref, &heads[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return heads, err
}

func head(q querier, ref domain.SessionRef, into *domain.Seq) error {
	rows, err := q.query("SELECT head_seq FROM sessions WHERE tenant_id = ? AND session_id = ?", ref.Tenant, ref.Session)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	if rows.Next() {
		if err := rows.Scan(into); err != nil {
			return err
		}
	}
	return rows.Err()
}
