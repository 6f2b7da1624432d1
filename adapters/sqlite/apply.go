package sqlite

import (
	"fmt"
	"strings"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
)

var (
	insertSession = insert("sessions", (&sqlstore.SessionRow{}).Fields())
	updateSession = update("sessions", (&sqlstore.SessionRow{}).MovingFields(), "tenant_id", "session_id", "version")
	patchSession  = update("sessions", (&sqlstore.SessionRow{}).InfoFields(), "tenant_id", "session_id")
	insertEvent   = insert("events", (&sqlstore.EventRow{}).Fields())
	insertRun     = insert("runs", (&sqlstore.RunRow{}).Fields())
	updateRun     = update("runs", append((&sqlstore.RunRow{}).MovingFields(), (&sqlstore.RunRow{}).DueFields()...),
		"run_id", "tenant_id", "session_id")
	upsertCall = insert("tool_calls", (&sqlstore.CallRow{}).Fields()) +
		" ON CONFLICT (tenant_id, session_id, call_id) DO UPDATE SET" +
		" started_epoch = excluded.started_epoch, result_seq = excluded.result_seq"
)

func insert(table string, fields []sqlstore.Field) string {
	return "INSERT INTO " + table + " (" + sqlstore.Names(fields) + ") VALUES (?" + strings.Repeat(", ?", len(fields)-1) + ")"
}

func update(table string, fields []sqlstore.Field, where ...string) string {
	set := make([]string, len(fields))
	for i, f := range fields {
		set[i] = f.Column + " = ?"
	}
	return "UPDATE " + table + " SET " + strings.Join(set, ", ") + " WHERE " + strings.Join(where, " = ? AND ") + " = ?"
}

// apply writes fx, which was decided in this transaction on v, and completes its outcome.
func apply(t tx, v *domain.View, fx *domain.Effects, nowMS int64) error {
	rows := keptRows{session: sqlstore.NewSessionRow(fx.Session)}
	if v.Run != nil && v.Run.ID == fx.Session.ActiveRun {
		rows.run = sqlstore.NewRunRow(v.Run)
	}
	if err := applySession(t, rows.session, v, fx); err != nil {
		return err
	}
	if err := applyEvents(t, fx); err != nil {
		return err
	}
	if err := applyRuns(t, fx, nowMS, &rows); err != nil {
		return err
	}
	if err := applyCalls(t, fx); err != nil {
		return err
	}
	sqlstore.CompleteOutcome(fx, nowMS)
	if fx.Session.ActiveRun == "" || rows.run != nil {
		t.w.kept.put(fx.Session.Ref, rows)
	} else {
		delete(t.w.kept, fx.Session.Ref)
	}
	return nil
}

func applySession(t tx, row *sqlstore.SessionRow, v *domain.View, fx *domain.Effects) error {
	if fx.Create {
		return one(t, insertSession, sqlstore.Values(row.Fields()))
	}
	if fx.InfoChanged {
		if err := one(t, patchSession, sqlstore.Values(append(row.InfoFields(), row.KeyFields()...))); err != nil {
			return err
		}
	}
	return one(t, updateSession, append(sqlstore.Values(append(row.MovingFields(), row.KeyFields()...)), v.Session.Version))
}

func applyEvents(t tx, fx *domain.Effects) error {
	for i := range fx.Events {
		row := sqlstore.NewEventRow(fx.Session.Ref, &fx.Events[i])
		if err := one(t, insertEvent, sqlstore.Values(row.Fields())); err != nil {
			return err
		}
	}
	return nil
}

func applyCalls(t tx, fx *domain.Effects) error {
	for i := range fx.Calls {
		row := sqlstore.NewCallRow(fx.Session.Ref, &fx.Calls[i])
		if err := one(t, upsertCall, sqlstore.Values(row.Fields())); err != nil {
			return err
		}
	}
	return nil
}

// applyRuns writes the runs, and keeps the active one in rows: first those that change, as the run that gives way must
// leave the index of active runs before its successor enters it.
func applyRuns(t tx, fx *domain.Effects, nowMS int64, rows *keptRows) error {
	for _, inserts := range []bool{false, true} {
		for i := range fx.Runs {
			c := &fx.Runs[i]
			if c.Insert != inserts {
				continue
			}
			row, err := applyRun(t, c, nowMS)
			if err != nil {
				return err
			}
			if row.RunID == fx.Session.ActiveRun {
				rows.run = row
			}
		}
	}
	return nil
}

func applyRun(t tx, c *domain.RunChange, nowMS int64) (*sqlstore.RunRow, error) {
	row := sqlstore.NewRunRow(&c.Run)
	if c.Due != nil {
		row.AvailableAt = nowMS + c.Due.Milliseconds()
	}
	if c.Insert {
		return row, one(t, insertRun, sqlstore.Values(row.Fields()))
	}
	fields := append(append(row.MovingFields(), row.DueFields()...), row.KeyFields()...)
	return row, one(t, updateRun, sqlstore.Values(fields))
}

// one runs a statement that must write exactly one row.
func one(t tx, text string, args []any) error {
	n, err := t.exec(text, args...)
	if err == nil && n != 1 {
		err = fmt.Errorf("%d rows were written instead of one", n)
	}
	return err
}
