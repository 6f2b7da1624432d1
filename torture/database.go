package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "modernc.org/sqlite"             // the driver sqlite

	"github.com/keel-agent/keel/torture/check"
)

// database is the checker's way to the rows: plain SQL that only reads.
type database struct{ db *sql.DB }

// openDatabase opens the store of a --store value.
func openDatabase(store string) (*database, error) {
	driver, source := "pgx", store
	if path, ok := strings.CutPrefix(store, "sqlite:"); ok {
		driver, source = "sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(0) // storms end connections: each look has its own
	return &database{db}, nil
}

func (d *database) close() { _ = d.db.Close() }

// active returns how many runs have not ended, and a few of them in words.
func (d *database) active(ctx context.Context) (n int, some []string, err error) {
	err = d.each(ctx, `SELECT tenant_id, session_id, run_id, status, COALESCE(reason, ''), attempts FROM runs WHERE status IN ('pending', 'running')`, func(r *sql.Rows) error {
		var tenant, session, run, status, reason string
		var attempts int
		n++
		err := r.Scan(&tenant, &session, &run, &status, &reason, &attempts)
		if len(some) < 5 {
			some = append(some, fmt.Sprintf("%s/%s %s %s %s %d", tenant, session, run, status, reason, attempts))
		}
		return err
	})
	return n, some, err
}

// ledger reads all that the checker looks at.
func (d *database) ledger(ctx context.Context) (check.Ledger, error) {
	var l check.Ledger
	err := d.each(ctx, `SELECT tenant_id, session_id, head_seq, epoch, COALESCE(owner, '') FROM sessions`, func(r *sql.Rows) error {
		var s check.Session
		err := r.Scan(&s.Tenant, &s.Session, &s.Head, &s.Epoch, &s.Owner)
		l.Sessions = append(l.Sessions, s)
		return err
	})
	if err != nil {
		return l, err
	}
	err = d.each(ctx, `SELECT tenant_id, session_id, run_id, status, COALESCE(reason, ''), COALESCE(error, ''), attempts, available_at FROM runs ORDER BY created_at, run_id`, func(r *sql.Rows) error {
		var x check.Run
		err := r.Scan(&x.Tenant, &x.Session, &x.ID, &x.Status, &x.Reason, &x.Error, &x.Attempts, &x.Due)
		l.Runs = append(l.Runs, x)
		return err
	})
	if err != nil {
		return l, err
	}
	err = d.each(ctx, `SELECT tenant_id, session_id, seq, kind, COALESCE(dedupe_key, ''), payload, created_at, COALESCE(run_id, ''), epoch FROM events ORDER BY tenant_id, session_id, seq`, func(r *sql.Rows) error {
		var e check.Event
		err := r.Scan(&e.Tenant, &e.Session, &e.Seq, &e.Kind, &e.Key, &e.Payload, &e.At, &e.Run, &e.Epoch)
		l.Events = append(l.Events, e)
		return err
	})
	return l, err
}

func (d *database) each(ctx context.Context, query string, f func(*sql.Rows) error) error {
	rows, err := d.db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
