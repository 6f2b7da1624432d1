package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/keel-agent/keel/adapters/sqlstore"
)

// Migrate brings the schema of the database at path up to date, creating the file if need be, and returns what it
// applied. It returns ErrLocked while a process serves the database.
func Migrate(ctx context.Context, path string) ([]sqlstore.Migration, error) {
	return migrating(path, func(db *sql.DB) ([]sqlstore.Migration, error) {
		return sqlstore.Migrate(ctx, db, sqlstore.SQLite)
	})
}

// Status returns the migrations of the database at path, applied and pending. It returns ErrLocked while a process
// serves the database.
func Status(ctx context.Context, path string) ([]sqlstore.Migration, error) {
	return migrating(path, func(db *sql.DB) ([]sqlstore.Migration, error) {
		return sqlstore.Status(ctx, db, sqlstore.SQLite)
	})
}

func migrating(path string, f func(db *sql.DB) ([]sqlstore.Migration, error)) ([]sqlstore.Migration, error) {
	lock, err := lockFile(path)
	if err != nil {
		return nil, err
	}
	defer lock.release()
	db, err := sql.Open("sqlite", dsn(path, "rwc", "journal_mode(WAL)", "synchronous(FULL)"))
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	return f(db)
}
