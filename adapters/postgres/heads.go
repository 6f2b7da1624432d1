package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
)

const headsText = "SELECT coalesce(s.head_seq, 0) FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS r (tenant, session, n)" +
	" LEFT JOIN LATERAL (SELECT * FROM sessions AS s WHERE s.tenant_id = r.tenant AND s.session_id = r.session OFFSET 0) AS s ON true ORDER BY r.n"

// Heads implements ports.Sessions.
func (p sessions) Heads(ctx context.Context, refs []domain.SessionRef) ([]domain.Seq, error) {
	tenants, ids := make([]string, len(refs)), make([]string, len(refs))
	for i, ref := range refs {
		if sqlstore.Storable(ref.Tenant) && sqlstore.Storable(ref.Session) {
			tenants[i], ids[i] = ref.Tenant, ref.Session
		}
	}
	var heads []domain.Seq
	err := p.s.read(ctx, func(ctx context.Context, q querier) error {
		rows, err := q.Query(ctx, headsText, tenants, ids)
		if err != nil {
			return err
		}
		heads, err = pgx.CollectRows(rows, pgx.RowTo[domain.Seq])
		return err
	})
	return heads, err
}
