package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/ports"
)

// Migrate brings the schema of the database at path up to date, creating the file if need be, and returns it with
// what was applied. It returns ErrLocked while a process serves the database.
func Migrate(ctx context.Context, path string) (sqlstore.Schema, error) {
	var none sqlstore.Schema
	if err := exists(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return none, err // before anything is made beside it
	}
	lock, err := lockFile(path)
	if err != nil {
		return none, err
	}
	defer lock.release()
	// SQLite would make a file that everybody may read. The files beside it get the mode of this one.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return none, fmt.Errorf("sqlite: %w", err)
	}
	if err := f.Close(); err != nil {
		return none, fmt.Errorf("sqlite: %w", err)
	}
	return migrating(path, []string{"journal_mode(WAL)", "synchronous(FULL)"}, func(db *sql.DB) (sqlstore.Schema, error) {
		return sqlstore.Migrate(ctx, db, sqlstore.SQLite)
	})
}

// Status returns the schema of the database at path with the migrations, applied and pending. It changes nothing and may be asked while
// a process serves the database.
func Status(ctx context.Context, path string) (sqlstore.Schema, error) {
	if err := exists(path); err != nil {
		return sqlstore.Schema{}, err
	}
	return migrating(path, []string{"query_only(1)"}, func(db *sql.DB) (sqlstore.Schema, error) {
		return sqlstore.Status(ctx, db, sqlstore.SQLite)
	})
}

func migrating(path string, pragmas []string, f func(db *sql.DB) (sqlstore.Schema, error)) (sqlstore.Schema, error) {
	db, err := sql.Open("sqlite", dsn(path, "rw", pragmas...))
	if err != nil {
		return sqlstore.Schema{}, named(path, err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	schema, err := f(db)
	if err != nil {
		err = named(path, err)
	}
	return schema, err
}

// exists returns an error that names path unless a file is there.
func exists(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: there is no database %s: %w", ports.ErrUnavailable, path, fs.ErrNotExist)
	case err != nil:
		return fmt.Errorf("%w: sqlite: %w", ports.ErrUnavailable, err)
	case info.IsDir():
		return fmt.Errorf("sqlite: %s is a directory, not a database", path)
	}
	return nil
}
