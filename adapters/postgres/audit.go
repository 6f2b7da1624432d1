package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Audit returns the store's ports.Audit.
func (s *Store) Audit() ports.Audit { return audit{s} }

// audit implements ports.Audit.
type audit struct{ s *Store }

const (
	refsText = "SELECT tenant_id, session_id FROM sessions WHERE (tenant_id, session_id) > ($1::text, $2::text)" +
		" ORDER BY tenant_id, session_id LIMIT $3::bigint"

	lastText = "SELECT coalesce(max(seq), 0) FROM events WHERE tenant_id = $1::text AND session_id = $2::text"
)

var (
	allRunsText = "SELECT " + sqlstore.Columns("r", (&sqlstore.RunRow{}).Fields()) + " FROM runs AS r" +
		" WHERE r.tenant_id = $1::text AND r.session_id = $2::text ORDER BY r.created_at, r.run_id"

	allCallsText = "SELECT " + sqlstore.Columns("c", (&sqlstore.CallRow{}).Fields()) + " FROM tool_calls AS c" +
		" WHERE c.tenant_id = $1::text AND c.session_id = $2::text ORDER BY c.assistant_seq, c.ordinal"
)

func (p audit) Refs(ctx context.Context, after domain.SessionRef, limit int) ([]domain.SessionRef, error) {
	return p.refs(ctx, refsText, after.Tenant, after.Session, int64(max(limit, 0)))
}

func (p audit) Strays(ctx context.Context, limit int) ([]domain.SessionRef, error) {
	return p.refs(ctx, sqlstore.StraysText, int64(max(limit, 0)))
}

func (p audit) refs(ctx context.Context, text string, args ...any) (refs []domain.SessionRef, err error) {
	err = p.s.read(ctx, func(ctx context.Context, q querier) error {
		refs = nil
		var ref domain.SessionRef
		return scan(ctx, q, text, args, []any{&ref.Tenant, &ref.Session}, func() error {
			refs = append(refs, ref)
			return nil
		})
	})
	return refs, err
}

func (p audit) Rows(ctx context.Context, ref domain.SessionRef, read func(ports.AuditRows) error) error {
	if !sqlstore.Storable(ref.Tenant) || !sqlstore.Storable(ref.Session) {
		return domain.ErrNotFound
	}
	moment := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return p.s.retry(ctx, func(ctx context.Context, conn *pgxpool.Conn) (bool, error) {
		return false, pgx.BeginTxFunc(ctx, conn, moment, func(tx pgx.Tx) error {
			rows, err := loadRows(ctx, tx, ref)
			if err != nil {
				return err
			}
			return read(rows)
		})
	})
}

// loadRows reads within a transaction that sees one state.
func loadRows(ctx context.Context, q querier, ref domain.SessionRef) (rows ports.AuditRows, err error) {
	v, err := loadView(ctx, q, ref, domain.Needs{})
	switch {
	case err != nil:
		return rows, err
	case v.Session == nil:
		return rows, domain.ErrNotFound
	}
	rows.Session = *v.Session
	key := []any{ref.Tenant, ref.Session}
	if err := scan(ctx, q, lastText, key, []any{&rows.LastSeq}, func() error { return nil }); err != nil {
		return rows, err
	}
	rows.Runs = sqlstore.EachRun(func(dests []any, found func() error) error {
		return scan(ctx, q, allRunsText, key, dests, found)
	})
	var call sqlstore.CallRow
	return rows, scan(ctx, q, allCallsText, key, sqlstore.Dests(nil, call.Fields()), func() error {
		c, err := call.Call()
		rows.Calls = append(rows.Calls, c)
		return err
	})
}

// scan reads every row of a query into dests and calls f after each.
func scan(ctx context.Context, q querier, text string, args, dests []any, f func() error) error {
	rows, err := q.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, dests, f)
	return err
}
