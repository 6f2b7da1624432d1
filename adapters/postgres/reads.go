package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// eventsText reads a page and, in the same snapshot, whether the session exists: the one row of a session without
// events after the cursor has no seq. The sizes of payloads are known without reading them, so what lies beyond the
// page's bytes is neither fetched nor sent.
var eventsText = "SELECT " + sqlstore.OuterColumns("e", (&sqlstore.EventRow{}).Fields()) + " FROM sessions AS s" +
	" LEFT JOIN LATERAL (SELECT * FROM (SELECT e.*, sum(octet_length(e.payload)) OVER (ORDER BY e.seq ROWS UNBOUNDED PRECEDING)" +
	" - octet_length(e.payload) AS before" +
	" FROM (SELECT * FROM events AS e WHERE e.tenant_id = s.tenant_id AND e.session_id = s.session_id" +
	" AND e.seq > $3::bigint ORDER BY e.seq LIMIT $4::bigint) AS e) AS e WHERE e.before <= $5::bigint) AS e ON true" +
	" WHERE s.tenant_id = $1::text AND s.session_id = $2::text ORDER BY e.seq"

// Events implements ports.Ledger.
func (s *Store) Events(ctx context.Context, ref domain.SessionRef, after domain.Seq, limit int) ([]domain.Event, error) {
	if !sqlstore.Storable(ref.Tenant) || !sqlstore.Storable(ref.Session) {
		return nil, domain.ErrNotFound
	}
	var events []domain.Event
	err := s.read(ctx, func(ctx context.Context, q querier) error {
		events = nil
		rows, err := q.Query(ctx, eventsText, ref.Tenant, ref.Session, int64(after), int64(max(limit, 0)), int64(ports.PageBytes))
		if err != nil {
			return err
		}
		known := false
		var row sqlstore.EventRow
		_, err = pgx.ForEachRow(rows, sqlstore.Dests(nil, row.Fields()), func() error {
			if known = true; row.Seq == 0 {
				return nil
			}
			e, err := row.Event()
			events = append(events, e)
			return err
		})
		if err == nil && !known {
			return domain.ErrNotFound
		}
		return err
	})
	return events, err
}

// read runs f, which only reads, on a connection of the pool.
func (s *Store) read(ctx context.Context, f func(ctx context.Context, q querier) error) error {
	return s.retry(ctx, func(ctx context.Context, conn *pgxpool.Conn) (bool, error) { return false, f(ctx, conn) })
}

// list runs f, a query of bun, which takes its own connection from the pool.
func list[T any](ctx context.Context, s *Store, f func(ctx context.Context) (T, error)) (T, error) {
	var out T
	err := s.loop(ctx, false, func(ctx context.Context) (sent bool, _ fate, err error) {
		out, err = f(ctx)
		return false, fateOf(err, !errors.Is(err, sqlstore.ErrCorrupt)), err
	})
	return out, err
}

// sessions implements ports.Sessions.
type sessions struct{ s *Store }

func (p sessions) Get(ctx context.Context, ref domain.SessionRef) (domain.Session, *domain.Run, error) {
	v, err := p.s.view(ctx, ref, domain.Needs{})
	if err != nil {
		return domain.Session{}, nil, err
	}
	return *v.Session, v.Run, nil
}

func (p sessions) List(ctx context.Context, q ports.SessionQuery) ([]domain.Session, error) {
	return list(ctx, p.s, func(ctx context.Context) ([]domain.Session, error) { return p.s.lists.Sessions(ctx, q) })
}

// view returns a view of an existing session, or domain.ErrNotFound.
func (s *Store) view(ctx context.Context, ref domain.SessionRef, needs domain.Needs) (domain.View, error) {
	if !sqlstore.Storable(ref.Tenant) || !sqlstore.Storable(ref.Session) {
		return domain.View{}, domain.ErrNotFound
	}
	var v domain.View
	err := s.read(ctx, func(ctx context.Context, q querier) (err error) {
		if v, err = loadView(ctx, q, ref, needs); err == nil && v.Session == nil {
			err = domain.ErrNotFound
		}
		return err
	})
	return v, err
}

// runs implements ports.Runs.
type runs struct{ s *Store }

func (p runs) Get(ctx context.Context, ref domain.SessionRef, run string) (domain.Run, error) {
	if run == "" || !sqlstore.Storable(run) {
		return domain.Run{}, domain.ErrNotFound
	}
	v, err := p.s.view(ctx, ref, domain.Needs{Run: run})
	switch {
	case err != nil:
		return domain.Run{}, err
	case v.Run == nil:
		return domain.Run{}, domain.ErrNotFound
	}
	return *v.Run, nil
}

func (p runs) List(ctx context.Context, ref domain.SessionRef, before *ports.RunCursor, limit int) ([]domain.Run, error) {
	return list(ctx, p.s, func(ctx context.Context) ([]domain.Run, error) { return p.s.lists.Runs(ctx, ref, before, limit) })
}

var forsakenText = sqlstore.ForsakenText("$1::text", "$2::text", "$3::bigint")

// Forsaken implements ports.Runs.
func (p runs) Forsaken(ctx context.Context, parent domain.SessionRef, limit int) ([]ports.RunRef, error) {
	var found []ports.RunRef
	err := p.s.read(ctx, func(ctx context.Context, q querier) error {
		found = nil
		tenant, session := sqlstore.NullRef(parent)
		rows, err := q.Query(ctx, forsakenText, tenant, session, int64(max(limit, 0)))
		if err != nil {
			return err
		}
		var o ports.RunRef
		_, err = pgx.ForEachRow(rows, []any{&o.Ref.Tenant, &o.Ref.Session, &o.Run}, func() error {
			found = append(found, o)
			return nil
		})
		return err
	})
	return found, err
}

func (p runs) Active(ctx context.Context, tenant string, sessions []string) ([]domain.Run, error) {
	return list(ctx, p.s, func(ctx context.Context) ([]domain.Run, error) { return p.s.lists.ActiveRuns(ctx, tenant, sessions) })
}

func (p runs) OpenCalls(ctx context.Context, ref domain.SessionRef) ([]domain.ToolCall, error) {
	v, err := p.s.view(ctx, ref, domain.Needs{OpenCalls: true})
	return v.Calls, err
}
