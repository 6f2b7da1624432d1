package postgres

import (
	"slices"
	"time"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
)

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
	w := write{create: changes[0].effects.Create}
	for _, c := range changes {
		w.info = w.info || c.effects.InfoChanged
	}
	w.fresh = !slices.ContainsFunc(changes, func(c change) bool { return !c.newCalls() })
	rows := writeRows{create: w.create, info: w.info, lone: len(changes) == 1}
	for _, c := range changes {
		rows.add(c)
	}
	w.sessions, w.events, w.updates = relationOf(rows.sessions), relationOf(rows.events), relationOf(rows.updates)
	w.inserts, w.called = relationOf(rows.inserts), relationOf(rows.called)
	return w
}

// writeRows are the rows of a write, gathered change by change.
type writeRows struct {
	create, info bool
	lone         bool // rows of a lone session take its key from the guard

	sessions, events, updates, inserts, called [][]sqlstore.Field
}

func (w *writeRows) add(c change) {
	fx := c.effects
	row := sqlstore.NewSessionRow(fx.Session)
	w.sessions = append(w.sessions, w.session(row, c.seen))
	for i := range fx.Events {
		e := sqlstore.NewEventRow(fx.Session.Ref, &fx.Events[i])
		w.events = append(w.events, w.keyed(e.KeyFields(), e.BodyFields()...))
	}
	for i := range fx.Runs {
		w.addRun(row.KeyFields(), &fx.Runs[i])
	}
	for i := range fx.Calls {
		r := sqlstore.NewCallRow(fx.Session.Ref, &fx.Calls[i])
		w.called = append(w.called, w.keyed(r.KeyFields(), r.BodyFields()...))
	}
}

func (w *writeRows) addRun(session []sqlstore.Field, c *domain.RunChange) {
	r := sqlstore.NewRunRow(&c.Run)
	fields := append(r.MovingFields(), sqlstore.Field{Column: "run_id", Ptr: &r.RunID})
	fields = append(append(fields, r.DueFields()...), dueIn(c.Due))
	if c.Insert {
		w.inserts = append(w.inserts, w.keyed(session, append(fields, r.FixedFields()...)...))
	} else {
		w.updates = append(w.updates, w.keyed(session, fields...))
	}
}

func (w *writeRows) keyed(key []sqlstore.Field, rest ...sqlstore.Field) []sqlstore.Field {
	if w.lone {
		return rest
	}
	return append(key, rest...)
}

func (w *writeRows) session(row *sqlstore.SessionRow, seen int64) []sqlstore.Field {
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
