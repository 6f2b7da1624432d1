package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	_ "modernc.org/sqlite" // the driver of the bare inserts

	"github.com/keel-agent/keel/adapters/sqlite"
)

func appendsOnSQLite(ctx context.Context, b *bench) ([]row, error) {
	const most = 64
	r, err := b.sqliteRig(ctx)
	if err != nil {
		return nil, err
	}
	defer r.close()
	attempts, err := r.claimed(ctx, most)
	if err != nil {
		return nil, err
	}
	ours := func(ctx context.Context, client int) error { return r.append(ctx, attempts[client]) }
	single, err := b.bareSQLite(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer single.close()
	pooled, err := b.bareSQLite(ctx, most)
	if err != nil {
		return nil, err
	}
	defer pooled.close()

	lone, err := b.contest(ctx,
		side{name: "appends, SQLite, 1 session", round: driven(1, one(ours))},
		side{name: "single writer", round: driven(1, one(single.insert))},
	)
	if err != nil {
		return nil, err
	}
	many, err := b.contest(ctx,
		side{name: "appends, SQLite, 64 sessions", round: driven(most, one(ours))},
		side{name: "single writer", round: driven(most, one(single.insert))},
		side{name: "pool", round: driven(most, one(pooled.insert))},
	)
	if err != nil {
		return nil, err
	}
	return []row{
		rates("appends, SQLite FULL, 1 session", lone, 0, 1, "one writer, one commit each,", atLeast(0.9)),
		rates("appends, SQLite FULL, 64 sessions", many, 0, 2, "pool, one commit each,", atLeast(4)),
		rates("the same", many, 0, 1, "one writer, one commit each,", goal{}),
	}, nil
}

// bareSQLite inserts rows of the shape of an event into a file of their own, one commit each.
type bareSQLite struct {
	db   *sql.DB
	stmt *sql.Stmt
	turn *sync.Mutex // nil for a pool
	seq  atomic.Int64
}

// bareSQLite opens conns connections. One alone takes turns by a mutex; more meet at SQLite's lock.
func (b *bench) bareSQLite(ctx context.Context, conns int) (*bareSQLite, error) {
	schema, err := b.eventsSchema(ctx)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.dir, newID()+".db")+
		"?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	for _, s := range schema {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
	}
	stmt, err := db.PrepareContext(ctx, "INSERT INTO events (tenant_id, session_id, seq, kind, dedupe_key, payload, created_at, hash, run_id, epoch)"+
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
	if err != nil {
		return nil, err
	}
	i := &bareSQLite{db: db, stmt: stmt}
	if conns == 1 {
		i.turn = new(sync.Mutex)
	}
	return i, nil
}

func (i *bareSQLite) insert(ctx context.Context, client int) error {
	row := bareRow(client, i.seq.Add(1))
	if i.turn != nil {
		i.turn.Lock()
		defer i.turn.Unlock()
	}
	_, err := i.stmt.ExecContext(ctx, row...)
	return err
}

func (i *bareSQLite) close() {
	_ = i.stmt.Close()
	_ = i.db.Close()
}

// eventsSchema returns the statements that make the table of events and its indexes as Keel has them.
func (b *bench) eventsSchema(ctx context.Context) ([]string, error) {
	path := filepath.Join(b.dir, newID()+".db")
	if _, err := sqlite.Migrate(ctx, path); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(ctx, "SELECT sql FROM sqlite_master WHERE tbl_name = 'events' AND sql IS NOT NULL ORDER BY type DESC")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var schema []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		schema = append(schema, s)
	}
	return schema, rows.Err()
}

func sqliteVersion(ctx context.Context, b *bench) (version string) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.dir, newID()+".db"))
	if err != nil {
		return ""
	}
	defer func() { _ = db.Close() }()
	if db.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version) != nil {
		return ""
	}
	return version
}
