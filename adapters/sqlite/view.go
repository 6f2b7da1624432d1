package sqlite

import (
	"context"
	"database/sql"
	"slices"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
)

// querier is the writing transaction or a reading one.
type querier interface {
	query(text string, args ...any) (*sql.Rows, error)
}

// reading is a transaction of a reading connection: all its statements see one state.
type reading struct {
	tx  *sql.Tx
	ctx context.Context
}

func (r reading) query(text string, args ...any) (*sql.Rows, error) {
	return r.tx.QueryContext(r.ctx, text, args...)
}

// each scans every row of a query into dests and calls f after each.
func each(q querier, text string, args, dests []any, f func() error) error {
	rows, err := q.query(text, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := rows.Scan(dests...); err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
	return rows.Err()
}

var (
	sessionText = "SELECT " + sqlstore.Columns("s", (&sqlstore.SessionRow{}).Fields()) + ", " +
		sqlstore.OuterColumns("r", (&sqlstore.RunRow{}).Fields()) +
		" FROM sessions AS s LEFT JOIN runs AS r ON r.tenant_id = s.tenant_id AND r.session_id = s.session_id" +
		" AND r.run_id = iif(?3 = '', s.active_run_id, ?3) WHERE s.tenant_id = ?1 AND s.session_id = ?2"

	madeText = "SELECT " + sqlstore.Columns("r", (&sqlstore.RunRow{}).Fields()) +
		" FROM runs AS r WHERE r.run_id = ?3 AND r.tenant_id = ?1 AND r.session_id = ?2"

	keyText = "SELECT " + sqlstore.Columns("e", (&sqlstore.EventRow{}).Fields()) +
		" FROM events AS e WHERE e.tenant_id = ?1 AND e.session_id = ?2 AND e.dedupe_key = ?3"

	keyKnownText = "SELECT 1 FROM events WHERE tenant_id = ?1 AND session_id = ?2 AND dedupe_key = ?3"

	callsOf = "SELECT " + sqlstore.Columns("c", (&sqlstore.CallRow{}).Fields()) +
		" FROM tool_calls AS c WHERE c.tenant_id = ?1 AND c.session_id = ?2"
	callText = callsOf + " AND c.call_id = ?3"
	// The calls without a result are the newest, so the search ends early.
	openText   = callsOf + " AND c.result_seq = 0 ORDER BY c.assistant_seq DESC, c.ordinal DESC LIMIT ?3"
	beforeText = callsOf + " AND c.assistant_seq = (SELECT max(assistant_seq) FROM tool_calls" +
		" WHERE tenant_id = ?1 AND session_id = ?2 AND assistant_seq < ?3) ORDER BY c.ordinal"
)

const liveText = "SELECT 1 FROM processes WHERE process_id = ?1 AND NOT dead"

// loadView returns what needs asks for of the session ref.
func loadView(q querier, ref domain.SessionRef, needs domain.Needs) (domain.View, error) {
	v := domain.View{Ref: ref}
	err := loadSession(q, &v, needs.Run)
	if err == nil {
		err = loadRest(q, &v, needs)
	}
	return v, err
}

// view is loadView, but for what is kept.
func (t tx) view(ref domain.SessionRef, needs domain.Needs) (domain.View, error) {
	v := domain.View{Ref: ref}
	found, err := t.w.kept.view(&v, needs.Run)
	if !found {
		err = loadSession(t, &v, needs.Run)
	}
	if err == nil {
		err = loadRest(t, &v, needs)
	}
	return v, err
}

// loadSession adds to v its session with a run, the active one when run is "".
func loadSession(q querier, v *domain.View, run string) error {
	var s sqlstore.SessionRow
	var r sqlstore.RunRow
	dests := sqlstore.Dests(sqlstore.Dests(make([]any, 0, 64), s.Fields()), r.Fields())
	return each(q, sessionText, []any{v.Ref.Tenant, v.Ref.Session, run}, dests, func() (err error) {
		if v.Session, err = s.Session(); err == nil && r.RunID != "" {
			v.Run, err = r.Run()
		}
		return err
	})
}

// loadRest adds to v what needs asks for beside the session and the run.
func loadRest(q querier, v *domain.View, needs domain.Needs) (err error) {
	if v.Session == nil {
		return nil
	}
	if needs.Made != "" {
		if v.Made, err = runByID(q, v.Ref, needs.Made); err != nil {
			return err
		}
	}
	if needs.Key != "" {
		if v.Event, err = eventByKey(q, v.Ref, needs.Key); err != nil {
			return err
		}
	}
	if v.Calls, err = neededCalls(q, v.Session, needs); err != nil {
		return err
	}
	if needs.OwnerLive && v.Run != nil {
		var one int
		err = each(q, liveText, []any{v.Run.Owner}, []any{&one}, func() error {
			v.OwnerLive = true
			return nil
		})
	}
	return err
}

func runByID(q querier, ref domain.SessionRef, id string) (found *domain.Run, err error) {
	var row sqlstore.RunRow
	err = each(q, madeText, []any{ref.Tenant, ref.Session, id}, sqlstore.Dests(nil, row.Fields()), func() (err error) {
		found, err = row.Run()
		return err
	})
	return found, err
}

func eventByKey(q querier, ref domain.SessionRef, key string) (found *domain.Event, err error) {
	known, one := false, 0 // mostly it is not: that is found out without a row
	err = each(q, keyKnownText, []any{ref.Tenant, ref.Session, key}, []any{&one}, func() error {
		known = true
		return nil
	})
	if err != nil || !known {
		return nil, err
	}
	var row sqlstore.EventRow
	err = each(q, keyText, []any{ref.Tenant, ref.Session, key}, sqlstore.Dests(nil, row.Fields()), func() error {
		e, err := row.Event()
		found = &e
		return err
	})
	return found, err
}

func neededCalls(q querier, s *domain.Session, needs domain.Needs) (calls []domain.ToolCall, err error) {
	load := func(text string, arg any) {
		if err != nil {
			return
		}
		var row sqlstore.CallRow
		args := []any{s.Ref.Tenant, s.Ref.Session, arg}
		err = each(q, text, args, sqlstore.Dests(nil, row.Fields()), func() error {
			c, err := row.Call()
			calls = append(calls, c)
			return err
		})
	}
	for _, id := range needs.Calls {
		load(callText, sqlstore.EncodeText(id))
	}
	if needs.OpenCalls {
		load(openText, s.OpenCalls)
		slices.Reverse(calls)
	}
	if needs.CallsBefore > 0 {
		load(beforeText, int64(needs.CallsBefore))
	}
	return calls, err
}
