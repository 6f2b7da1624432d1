package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
)

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// loadView returns what needs asks for of the session ref, all from one statement and so from one snapshot.
func loadView(ctx context.Context, q querier, ref domain.SessionRef, needs domain.Needs) (domain.View, error) {
	v := newViewQuery(ref, needs)
	err := q.QueryRow(ctx, v.text(), v.args...).Scan(v.dests...)
	if errors.Is(err, pgx.ErrNoRows) {
		return domain.View{Ref: ref}, nil
	}
	if err != nil {
		return domain.View{}, err
	}
	return v.view(ref)
}

// viewQuery is one such statement, its parameters and the destinations of its one row.
type viewQuery struct {
	key   viewShape
	args  []any
	dests []any

	session sqlstore.SessionRow
	run     sqlstore.RunRow
	made    sqlstore.RunRow
	event   sqlstore.EventRow
	called  [3]*string // JSON arrays of storedCall
	live    bool
}

// viewShape is what the text of a view's statement depends on: which parts it loads.
type viewShape struct{ run, made, event, calls, open, before, live bool }

func newViewQuery(ref domain.SessionRef, needs domain.Needs) *viewQuery {
	v := &viewQuery{args: []any{ref.Tenant, ref.Session}}
	v.dests = sqlstore.Dests(make([]any, 0, 64), v.session.Fields())
	v.dests = sqlstore.Dests(v.dests, v.run.Fields())
	if needs.Run != "" && sqlstore.Storable(needs.Run) {
		v.key.run = true
		v.args = append(v.args, needs.Run)
	}
	if needs.Made != "" && sqlstore.Storable(needs.Made) {
		v.key.made = true
		v.args = append(v.args, needs.Made)
		v.dests = sqlstore.Dests(v.dests, v.made.Fields())
	}
	if needs.Key != "" && sqlstore.Storable(needs.Key) {
		v.key.event = true
		v.args = append(v.args, needs.Key)
		v.dests = sqlstore.Dests(v.dests, v.event.Fields())
	}
	if len(needs.Calls) > 0 {
		v.key.calls = true
		ids := make([]string, len(needs.Calls))
		for i, id := range needs.Calls {
			ids[i] = sqlstore.EncodeText(id)
		}
		v.args = append(v.args, ids)
		v.dests = append(v.dests, &v.called[0])
	}
	if needs.OpenCalls {
		v.key.open = true
		v.dests = append(v.dests, &v.called[1])
	}
	if needs.CallsBefore > 0 {
		v.key.before = true
		v.args = append(v.args, int64(needs.CallsBefore))
		v.dests = append(v.dests, &v.called[2])
	}
	if needs.OwnerLive {
		v.key.live = true
		v.dests = append(v.dests, &v.live)
	}
	return v
}

var viewTexts sync.Map // viewShape → string

func (v *viewQuery) text() string {
	if text, ok := viewTexts.Load(v.key); ok {
		return text.(string)
	}
	text := v.key.build()
	viewTexts.Store(v.key, text)
	return text
}

// byMessage holds for all calls; it is the predicate of their index by message, which is used only where it is stated.
const byMessage = " AND c.assistant_seq > 0"

// openCalls selects the calls c of the session s that have no result. They are the newest, so the search ends early.
const openCalls = "SELECT * FROM tool_calls AS c WHERE c.tenant_id = s.tenant_id AND c.session_id = s.session_id" +
	byMessage + " AND c.result_seq = 0 ORDER BY c.assistant_seq DESC LIMIT s.open_calls"

// sessionByKey joins the session that a row of from names. The fence lets it be looked up row by row and not otherwise:
// going through all sessions looks as good while there are few.
func sessionByKey(from string) string {
	return " CROSS JOIN LATERAL (SELECT * FROM sessions AS s WHERE s.tenant_id = " + from + ".tenant_id" +
		" AND s.session_id = " + from + ".session_id OFFSET 0) AS s"
}

// runByID joins, as alias, the run of the session s under an id. The fence leaves the planner no index but that of the ids: those of
// a session's runs look as good while the tables are small, and grow worse.
func runByID(alias, id string) string {
	return " LEFT JOIN LATERAL (SELECT * FROM runs AS r WHERE r.run_id = " + id + " OFFSET 0) AS " + alias +
		" ON " + alias + ".tenant_id = s.tenant_id AND " + alias + ".session_id = s.session_id"
}

// eventByKey joins the event of the session s under a key. Likewise, only the index of the keys yields the order that is
// asked for without a sort.
func eventByKey(key string) string {
	return " LEFT JOIN LATERAL (SELECT * FROM events AS e WHERE e.tenant_id = s.tenant_id AND e.session_id = s.session_id" +
		" AND e.dedupe_key >= " + key + " AND e.dedupe_key <= " + key + " ORDER BY e.dedupe_key LIMIT 1) AS e ON true"
}

func (k viewShape) build() string {
	const (
		ofSession = "c.tenant_id = s.tenant_id AND c.session_id = s.session_id"
		asJSON    = "json_agg(json_build_object('id', c.call_id, 'seq', c.assistant_seq, 'ordinal', c.ordinal, 'name', c.name," +
			" 'epoch', c.started_epoch, 'result', c.result_seq) ORDER BY c.assistant_seq, c.ordinal)::text"
	)
	params := 2
	param := func() string {
		params++
		return "$" + strconv.Itoa(params)
	}
	list := sqlstore.Columns("s", (&sqlstore.SessionRow{}).Fields()) + ", " +
		sqlstore.OuterColumns("r", (&sqlstore.RunRow{}).Fields())
	run := "s.active_run_id"
	if k.run {
		run = param() + "::text"
	}
	from := " FROM sessions AS s" + runByID("r", run)
	if k.made {
		list += ", " + sqlstore.OuterColumns("m", (&sqlstore.RunRow{}).Fields())
		from += runByID("m", param()+"::text")
	}
	if k.event {
		list += ", " + sqlstore.OuterColumns("e", (&sqlstore.EventRow{}).Fields())
		from += eventByKey(param() + "::text")
	}
	if k.calls {
		list += ", (SELECT " + asJSON + " FROM tool_calls AS c WHERE " + ofSession + " AND c.call_id = ANY(" + param() + "::text[]))"
	}
	if k.open {
		list += ", (SELECT " + asJSON + " FROM (" + openCalls + ") AS c)"
	}
	if k.before {
		list += ", (SELECT " + asJSON + " FROM tool_calls AS c WHERE " + ofSession + byMessage + " AND c.assistant_seq = (SELECT max(c.assistant_seq)" +
			" FROM tool_calls AS c WHERE " + ofSession + byMessage + " AND c.assistant_seq < " + param() + "::bigint))"
	}
	if k.live {
		list += ", p.process_id IS NOT NULL"
		from += " LEFT JOIN processes AS p ON p.process_id = r.owner AND NOT p.dead"
	}
	return "SELECT " + list + from + " WHERE s.tenant_id = $1::text AND s.session_id = $2::text"
}

// view converts the row that was scanned.
func (v *viewQuery) view(ref domain.SessionRef) (domain.View, error) {
	out := domain.View{Ref: ref, OwnerLive: v.live}
	var err error
	if out.Session, err = v.session.Session(); err != nil {
		return domain.View{}, err
	}
	if v.run.RunID != "" {
		if out.Run, err = v.run.Run(); err != nil {
			return domain.View{}, err
		}
	}
	if v.made.RunID != "" {
		if out.Made, err = v.made.Run(); err != nil {
			return domain.View{}, err
		}
	}
	if v.event.Seq != 0 {
		e, err := v.event.Event()
		if err != nil {
			return domain.View{}, err
		}
		out.Event = &e
	}
	for _, called := range v.called {
		if out.Calls, err = appendCalls(out.Calls, called); err != nil {
			return domain.View{}, err
		}
	}
	return out, nil
}

// storedCall is a row of tool_calls as the view's statement writes it.
type storedCall struct {
	ID      string `json:"id"`
	Seq     int64  `json:"seq"`
	Ordinal int64  `json:"ordinal"`
	Name    string `json:"name"`
	Epoch   *int64 `json:"epoch"`
	Result  int64  `json:"result"`
}

func appendCalls(calls []domain.ToolCall, stored *string) ([]domain.ToolCall, error) {
	if stored == nil {
		return calls, nil
	}
	var rows []storedCall
	if err := json.NewDecoder(strings.NewReader(*stored)).Decode(&rows); err != nil {
		return nil, err
	}
	for _, r := range rows {
		row := sqlstore.CallRow{
			CallID: r.ID, AssistantSeq: r.Seq, Ordinal: r.Ordinal, Name: r.Name, StartedEpoch: r.Epoch, ResultSeq: r.Result,
		}
		call, err := row.Call()
		if err != nil {
			return nil, err
		}
		calls = append(calls, call)
	}
	return calls, nil
}
