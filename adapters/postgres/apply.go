package postgres

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
)

// errMoved is returned when the version of a session, or the revision of a document, is not the one that was decided on.
// Nothing was written.
var errMoved = errors.New("a row changed since it was read")

// nowMS is the database's clock in whole milliseconds: the start of the transaction.
const nowMS = "floor(extract(epoch FROM now()) * 1000)::bigint"

// change is one session's effects and the version that they were decided on.
type change struct {
	seen    int64
	effects domain.Effects
}

// newCalls reports whether all calls of c come with its own events. They are then inserted and nothing else, so that an id
// that was used before does not pass even where nobody looked.
func (c change) newCalls() bool {
	for _, call := range c.effects.Calls {
		if len(c.effects.Events) == 0 || call.AssistantSeq < c.effects.Events[0].Seq {
			return false
		}
	}
	return true
}

// oldCalls reports whether no call of c comes with its own events.
func (c change) oldCalls() bool {
	for _, call := range c.effects.Calls {
		if len(c.effects.Events) > 0 && call.AssistantSeq >= c.effects.Events[0].Seq {
			return false
		}
	}
	return true
}

// write is one statement that makes changes happen: all of a session's effects or, when its version moved on, none of
// them. Sessions that are created and sessions that exist do not mix.
type write struct {
	create, info, fresh, whole                 bool
	sessions, events, updates, inserts, called relation
	count                                      int64 // of the changes
}

// wholeWrite is newWrite for sessions whose locks are held. It fails unless every guard holds, and spares itself the
// search for those that do.
func wholeWrite(changes []change) write {
	w := newWrite(changes)
	w.whole, w.count = len(changes) > 1, int64(len(changes))
	return w
}

// newWrite returns the write of changes, of which there is at least one.
func newWrite(changes []change) write {
	var sessions, events, updates, inserts, called [][]sqlstore.Field
	w := write{create: changes[0].effects.Create}
	for _, c := range changes {
		w.info = w.info || c.effects.InfoChanged
	}
	w.fresh = !slices.ContainsFunc(changes, func(c change) bool { return !c.newCalls() })
	for _, c := range changes {
		fx := c.effects
		row := sqlstore.NewSessionRow(fx.Session)
		sessions = append(sessions, w.sessionFields(row, c.seen))
		// Rows of a lone session take its key from the guard.
		keyed := func(key []sqlstore.Field, rest ...sqlstore.Field) []sqlstore.Field {
			if len(changes) == 1 {
				return rest
			}
			return append(key, rest...)
		}
		for i := range fx.Events {
			e := sqlstore.NewEventRow(fx.Session.Ref, &fx.Events[i])
			events = append(events, keyed(e.KeyFields(), e.BodyFields()...))
		}
		for i := range fx.Runs {
			r := sqlstore.NewRunRow(&fx.Runs[i].Run)
			fields := append(r.MovingFields(), sqlstore.Field{Column: "run_id", Ptr: &r.RunID})
			fields = append(append(fields, r.DueFields()...), dueIn(fx.Runs[i].Due))
			if fx.Runs[i].Insert {
				inserts = append(inserts, keyed(row.KeyFields(), append(fields, r.FixedFields()...)...))
			} else {
				updates = append(updates, keyed(row.KeyFields(), fields...))
			}
		}
		for i := range fx.Calls {
			r := sqlstore.NewCallRow(fx.Session.Ref, &fx.Calls[i])
			called = append(called, keyed(r.KeyFields(), r.BodyFields()...))
		}
	}
	w.sessions, w.events, w.updates = relationOf(sessions), relationOf(events), relationOf(updates)
	w.inserts, w.called = relationOf(inserts), relationOf(called)
	return w
}

func (w write) sessionFields(row *sqlstore.SessionRow, seen int64) []sqlstore.Field {
	if w.create {
		return row.Fields()
	}
	fields := append(row.KeyFields(), row.MovingFields()...)
	if w.info {
		fields = append(fields, row.InfoFields()...)
	}
	return append(fields, sqlstore.Field{Column: "seen", Ptr: &seen})
}

// dueIn returns the column that moves available_at: milliseconds from the database's now, NULL to leave it.
func dueIn(d *time.Duration) sqlstore.Field {
	var ms *int64
	if d != nil {
		n := d.Milliseconds()
		ms = &n
	}
	return sqlstore.Field{Column: "due_in", Ptr: &ms}
}

// args returns the parameters of the statement, in the order of its text.
func (w write) args() []any {
	var args []any
	for i, rel := range []relation{w.sessions, w.events, w.updates, w.inserts, w.called} {
		args = append(args, rel.args...)
		if i == 0 && w.whole {
			args = append(args, w.count)
		}
	}
	return args
}

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

// build writes the statement. Its joins of an UPDATE's table with the rows to write are not by "=" alone: that would
// allow a merge, and with it the planner considers to walk along the whole primary key, which looks as good while the
// table is small.
func (w write) build() string {
	var b strings.Builder
	used := 0
	source := func(rel relation) string {
		s := rel.source(used)
		used += len(rel.args)
		return s
	}
	guarded, gate, from := " CROSS JOIN guard g", "", "g"
	switch {
	case w.whole:
		guarded, gate, from = " CROSS JOIN held", " WHERE held.ok = 1", "n"
	case w.sessions.size == many:
		guarded = " JOIN guard g ON g.tenant_id = n.tenant_id AND g.session_id = n.session_id"
	}
	key := from + ".tenant_id, " + from + ".session_id"
	if w.create {
		names := sqlstore.Names(w.sessions.fields)
		b.WriteString("WITH guard AS (INSERT INTO sessions (" + names + ") SELECT " + names + " FROM " + source(w.sessions) +
			" RETURNING tenant_id, session_id)")
	} else {
		moving := w.sessions.fields[2 : len(w.sessions.fields)-1]
		b.WriteString("WITH guard AS (UPDATE sessions AS s SET " + assign(moving) + " FROM " + source(w.sessions) +
			" WHERE s.tenant_id = ANY(ARRAY[n.tenant_id]) AND s.session_id = n.session_id AND s.version = n.seen" +
			" RETURNING s.tenant_id, s.session_id)")
	}
	if w.whole {
		used++
		b.WriteString(", held AS (SELECT 1 / (count(*) = $" + strconv.Itoa(used) + "::bigint)::int AS ok FROM guard)")
	}
	if w.events.size != none {
		body := (&sqlstore.EventRow{}).BodyFields()
		b.WriteString(", appended AS (INSERT INTO events (tenant_id, session_id, " + sqlstore.Names(body) +
			") SELECT " + key + ", " + sqlstore.Columns("n", body) + " FROM " + source(w.events) + guarded + gate + ")")
	}
	const due = "coalesce(" + nowMS + " + n.due_in, n.available_at)"
	run := &sqlstore.RunRow{}
	if w.updates.size != none {
		b.WriteString(", changed AS (UPDATE runs AS r SET " + assign(run.MovingFields()) + ", available_at = " + due +
			" FROM " + source(w.updates) + guarded +
			" WHERE r.run_id >= n.run_id AND r.run_id <= n.run_id AND NOT (r.tenant_id, r.session_id) IS DISTINCT FROM (" + key + ")" +
			strings.Replace(gate, "WHERE", "AND", 1) + " RETURNING r.run_id)") // by its id, never by its session, which may have many
	}
	if w.inserts.size != none {
		rest := append(run.FixedFields(), run.MovingFields()...)
		b.WriteString(", begun AS (INSERT INTO runs (tenant_id, session_id, run_id, available_at, " + sqlstore.Names(rest) +
			") SELECT " + key + ", n.run_id, " + due + ", " + sqlstore.Columns("n", rest) + " FROM " +
			source(w.inserts) + guarded)
		if w.updates.size != none {
			// The run that gives way must leave the index of active runs before its successor enters it.
			b.WriteString(" CROSS JOIN (SELECT count(*) FROM changed) AS first")
		}
		b.WriteString(gate + ")")
	}
	if w.called.size != none {
		body := (&sqlstore.CallRow{}).BodyFields()
		b.WriteString(", called AS (INSERT INTO tool_calls (tenant_id, session_id, " + sqlstore.Names(body) +
			") SELECT " + key + ", " + sqlstore.Columns("n", body) + " FROM " + source(w.called) + guarded + gate)
		if !w.fresh {
			b.WriteString(" ON CONFLICT (tenant_id, session_id, call_id) DO UPDATE SET" +
				" started_epoch = excluded.started_epoch, result_seq = excluded.result_seq")
		}
		b.WriteString(")")
	}
	b.WriteString(" SELECT tenant_id, session_id, " + nowMS + " FROM guard")
	if w.whole {
		b.WriteString(" CROSS JOIN held" + gate)
	}
	return b.String()
}

// assign returns "column = n.column" for each of fields.
func assign(fields []sqlstore.Field) string {
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = f.Column + " = n." + f.Column
	}
	return strings.Join(parts, ", ")
}

// apply makes one change happen, completes its outcome, and returns the database's now; errMoved when the session's
// version moved on.
func apply(ctx context.Context, q querier, c change) (now int64, err error) {
	w := newWrite([]change{c})
	var ref domain.SessionRef
	err = q.QueryRow(ctx, w.text(), w.args()...).Scan(&ref.Tenant, &ref.Session, &now)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, errMoved
	}
	if err == nil {
		sqlstore.CompleteOutcome(&c.effects, now)
	}
	return now, err
}

// commitAll applies changes, all or none, and commits in one round trip, in the transaction of conn if there is one. It
// calls each for every session and returns the database's now.
func commitAll(ctx context.Context, conn *pgxpool.Conn, changes []change, each func(domain.SessionRef)) (now int64, err error) {
	w := wholeWrite(changes)
	batch := &pgx.Batch{}
	if conn.Conn().PgConn().TxStatus() == 'I' {
		batch.Queue(beginText)
	}
	batch.Queue(w.text(), w.args()...).Query(func(rows pgx.Rows) error {
		var ref domain.SessionRef
		_, err := pgx.ForEachRow(rows, []any{&ref.Tenant, &ref.Session, &now}, func() error {
			each(ref)
			return nil
		})
		return err
	})
	batch.Queue("commit")
	err = conn.SendBatch(ctx, batch).Close()
	return now, err
}
