package sqlite

import (
	"context"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Audit returns the store's ports.Audit.
func (s *Store) Audit() ports.Audit { return audit{s} }

// audit implements ports.Audit.
type audit struct{ s *Store }

const (
	refsText = "SELECT tenant_id, session_id FROM sessions WHERE (tenant_id, session_id) > (?1, ?2)" +
		" ORDER BY tenant_id, session_id LIMIT ?3"

	lastText = "SELECT max(seq) FROM events WHERE tenant_id = ?1 AND session_id = ?2"
)

var (
	allRunsText = "SELECT " + sqlstore.Columns("r", (&sqlstore.RunRow{}).Fields()) + " FROM runs AS r" +
		" WHERE r.tenant_id = ?1 AND r.session_id = ?2 ORDER BY r.created_at, r.run_id"

	allCallsText = callsOf + " ORDER BY c.assistant_seq, c.ordinal"
)

func (p audit) Refs(ctx context.Context, after domain.SessionRef, limit int) ([]domain.SessionRef, error) {
	return p.refs(ctx, refsText, after.Tenant, after.Session, max(limit, 0))
}

func (p audit) Strays(ctx context.Context, limit int) ([]domain.SessionRef, error) {
	return p.refs(ctx, sqlstore.StraysText, max(limit, 0))
}

func (p audit) refs(ctx context.Context, text string, args ...any) (refs []domain.SessionRef, err error) {
	err = p.s.reading(ctx, func(q querier) error {
		var ref domain.SessionRef
		return each(q, text, args, []any{&ref.Tenant, &ref.Session}, func() error {
			refs = append(refs, ref)
			return nil
		})
	})
	return refs, err
}

func (p audit) Rows(ctx context.Context, ref domain.SessionRef, read func(ports.AuditRows) error) error {
	return p.s.reading(ctx, func(q querier) error {
		rows, err := loadRows(q, ref)
		if err != nil {
			return err
		}
		return read(rows)
	})
}

func loadRows(q querier, ref domain.SessionRef) (rows ports.AuditRows, err error) {
	v, err := loadView(q, ref, domain.Needs{})
	switch {
	case err != nil:
		return rows, err
	case v.Session == nil:
		return rows, domain.ErrNotFound
	}
	rows.Session = *v.Session
	key := []any{ref.Tenant, ref.Session}
	var last *domain.Seq
	if err := each(q, lastText, key, []any{&last}, func() error { return nil }); err != nil {
		return rows, err
	}
	if last != nil {
		rows.LastSeq = *last
	}
	rows.Runs = sqlstore.EachRun(func(dests []any, found func() error) error { return each(q, allRunsText, key, dests, found) })
	var call sqlstore.CallRow
	return rows, each(q, allCallsText, key, sqlstore.Dests(nil, call.Fields()), func() error {
		c, err := call.Call()
		rows.Calls = append(rows.Calls, c)
		return err
	})
}
