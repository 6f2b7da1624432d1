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

	straysText = "SELECT tenant_id, session_id FROM (SELECT DISTINCT tenant_id, session_id FROM events" +
		" UNION SELECT tenant_id, session_id FROM runs UNION SELECT tenant_id, session_id FROM tool_calls) AS k" +
		" WHERE NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.tenant_id = k.tenant_id AND s.session_id = k.session_id)" +
		" ORDER BY tenant_id, session_id LIMIT ?1"
)

var (
	activeText = "SELECT " + sqlstore.Columns("r", (&sqlstore.RunRow{}).Fields()) + " FROM runs AS r" +
		" WHERE r.tenant_id = ?1 AND r.session_id = ?2 AND (r.status IN ('pending', 'running') OR r.run_id = ?3)" +
		" ORDER BY r.run_id"

	allCallsText = callsOf + " ORDER BY c.assistant_seq, c.ordinal"
)

func (p audit) Refs(ctx context.Context, after domain.SessionRef, limit int) ([]domain.SessionRef, error) {
	return p.refs(ctx, refsText, after.Tenant, after.Session, max(limit, 0))
}

func (p audit) Strays(ctx context.Context, limit int) ([]domain.SessionRef, error) {
	return p.refs(ctx, straysText, max(limit, 0))
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

func (p audit) Rows(ctx context.Context, ref domain.SessionRef) (rows ports.AuditRows, err error) {
	err = p.s.reading(ctx, func(q querier) error {
		v, err := loadView(q, ref, domain.Needs{})
		switch {
		case err != nil:
			return err
		case v.Session == nil:
			return domain.ErrNotFound
		}
		rows.Session = *v.Session
		key := []any{ref.Tenant, ref.Session}
		var last *domain.Seq
		if err := each(q, lastText, key, []any{&last}, func() error { return nil }); err != nil {
			return err
		}
		if last != nil {
			rows.LastSeq = *last
		}
		var run sqlstore.RunRow
		err = each(q, activeText, append(key, v.Session.ActiveRun), sqlstore.Dests(nil, run.Fields()), func() error {
			r, err := run.Run()
			if err == nil {
				rows.Runs = append(rows.Runs, *r)
			}
			return err
		})
		if err != nil {
			return err
		}
		var call sqlstore.CallRow
		return each(q, allCallsText, key, sqlstore.Dests(nil, call.Fields()), func() error {
			c, err := call.Call()
			rows.Calls = append(rows.Calls, c)
			return err
		})
	})
	return rows, err
}
