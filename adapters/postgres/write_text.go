package postgres

import (
	"strconv"
	"strings"
	"sync"

	"github.com/keel-agent/keel/adapters/sqlstore"
)

// shape is what the text of a write depends on.
type shape struct {
	create, info, fresh, whole                 bool
	sessions, events, updates, inserts, called cardinality
}

var writeTexts sync.Map // shape → string

// text returns the statement. It yields one row for each session whose guard held: tenant, session, the clock.
func (w write) text() string {
	key := shape{
		w.create, w.info, w.fresh, w.whole, w.sessions.size, w.events.size, w.updates.size, w.inserts.size, w.called.size,
	}
	if text, ok := writeTexts.Load(key); ok {
		return text.(string)
	}
	text := w.build()
	writeTexts.Store(key, text)
	return text
}

// build writes the statement.
func (w write) build() string {
	t := writeText{write: w}
	switch {
	case w.whole:
		t.guarded, t.gate, t.key = " CROSS JOIN held", " WHERE held.ok = 1", "n.tenant_id, n.session_id"
	case w.sessions.size == many:
		t.guarded, t.key = " JOIN guard g ON g.tenant_id = n.tenant_id AND g.session_id = n.session_id", "g.tenant_id, g.session_id"
	default:
		t.guarded, t.key = " CROSS JOIN guard g", "g.tenant_id, g.session_id"
	}
	t.guard()
	t.events()
	t.updates()
	t.inserts()
	t.calls()
	t.result()
	return t.String()
}

// writeText is the statement of a write, part by part. Its joins of an UPDATE's table with the rows to write are not by
// "=" alone: that would allow a merge, and with it the planner considers to walk along the whole primary key, which looks
// as good while the table is small.
type writeText struct {
	strings.Builder
	write write
	used  int // parameters so far

	guarded string // joins the rows to write, n, with the sessions whose guard held
	gate    string // the condition that all guards held
	key     string // the session's, of a row to write
}

func (t *writeText) put(parts ...string) {
	for _, part := range parts {
		t.WriteString(part)
	}
}

// source returns the rows of rel as a FROM item; their parameters come next.
func (t *writeText) source(rel relation) string {
	text := rel.source(t.used)
	t.used += len(rel.args)
	return text
}

// guard writes the sessions, if their versions are those that were decided on.
func (t *writeText) guard() {
	sessions := t.write.sessions
	if t.write.create {
		names := sqlstore.Names(sessions.fields)
		t.put("WITH guard AS (INSERT INTO sessions (", names, ") SELECT ", names, " FROM ", t.source(sessions),
			" RETURNING tenant_id, session_id)")
	} else {
		moving := sessions.fields[2 : len(sessions.fields)-1]
		t.put("WITH guard AS (UPDATE sessions AS s SET ", assign(moving), " FROM ", t.source(sessions),
			" WHERE s.tenant_id = ANY(ARRAY[n.tenant_id]) AND s.session_id = n.session_id AND s.version = n.seen",
			" RETURNING s.tenant_id, s.session_id)")
	}
	if t.write.whole {
		t.used++
		t.put(", held AS (SELECT 1 / (count(*) = $", strconv.Itoa(t.used), "::bigint)::int AS ok FROM guard)")
	}
}

func (t *writeText) events() {
	if t.write.events.size == none {
		return
	}
	body := (&sqlstore.EventRow{}).BodyFields()
	t.put(", appended AS (INSERT INTO events (tenant_id, session_id, ", sqlstore.Names(body), ") SELECT ", t.key, ", ",
		sqlstore.Columns("n", body), " FROM ", t.source(t.write.events), t.guarded, t.gate, ")")
}

// due is available_at of a run that is written.
const due = "coalesce(" + nowMS + " + n.due_in, n.available_at)"

// updates finds a run by its id, never by its session, which may have many.
func (t *writeText) updates() {
	if t.write.updates.size == none {
		return
	}
	t.put(", changed AS (UPDATE runs AS r SET ", assign((&sqlstore.RunRow{}).MovingFields()), ", available_at = ", due,
		" FROM ", t.source(t.write.updates), t.guarded,
		" WHERE r.run_id >= n.run_id AND r.run_id <= n.run_id AND NOT (r.tenant_id, r.session_id) IS DISTINCT FROM (", t.key, ")",
		strings.Replace(t.gate, "WHERE", "AND", 1), " RETURNING r.run_id)")
}

// inserts lets the run that gives way leave the index of active runs before its successor enters it.
func (t *writeText) inserts() {
	if t.write.inserts.size == none {
		return
	}
	run := &sqlstore.RunRow{}
	rest := append(run.FixedFields(), run.MovingFields()...)
	t.put(", begun AS (INSERT INTO runs (tenant_id, session_id, run_id, available_at, ", sqlstore.Names(rest), ") SELECT ", t.key,
		", n.run_id, ", due, ", ", sqlstore.Columns("n", rest), " FROM ", t.source(t.write.inserts), t.guarded)
	if t.write.updates.size != none {
		t.put(" CROSS JOIN (SELECT count(*) FROM changed) AS first")
	}
	t.put(t.gate, ")")
}

func (t *writeText) calls() {
	if t.write.called.size == none {
		return
	}
	body := (&sqlstore.CallRow{}).BodyFields()
	t.put(", called AS (INSERT INTO tool_calls (tenant_id, session_id, ", sqlstore.Names(body), ") SELECT ", t.key, ", ",
		sqlstore.Columns("n", body), " FROM ", t.source(t.write.called), t.guarded, t.gate)
	if !t.write.fresh {
		t.put(" ON CONFLICT (tenant_id, session_id, call_id) DO UPDATE SET",
			" started_epoch = excluded.started_epoch, result_seq = excluded.result_seq")
	}
	t.put(")")
}

// result yields the sessions whose guard held, and the clock.
func (t *writeText) result() {
	t.put(" SELECT tenant_id, session_id, ", nowMS, " FROM guard")
	if t.write.whole {
		t.put(" CROSS JOIN held", t.gate)
	}
}

// assign returns "column = n.column" for each of fields.
func assign(fields []sqlstore.Field) string {
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = f.Column + " = n." + f.Column
	}
	return strings.Join(parts, ", ")
}
