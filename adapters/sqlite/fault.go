package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// translate is the one reading of driver errors: it returns err as the ports promise it.
func translate(ctx context.Context, err error) error {
	var refusal *domain.Error
	var fault *sqlite.Error
	switch {
	case err == nil, errors.As(err, &refusal), errors.Is(err, ports.ErrProcessDead), errors.Is(err, ErrReadOnly):
		return err
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("sqlite: %w", context.Canceled)
	case ctx.Err() != nil, errors.Is(err, sql.ErrConnDone), errors.As(err, &fault) && passing(fault.Code()):
		return fmt.Errorf("%w: sqlite: %w", ports.ErrUnavailable, err)
	}
	return fmt.Errorf("sqlite: %w", err)
}

// named adds to err which database it is about.
func named(path string, err error) error { return fmt.Errorf("%s: %w", path, err) }

// passing reports whether a fault lies with the machine rather than with the statement.
func passing(code int) bool {
	switch code & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN,
		sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_READONLY:
		return true
	}
	return false
}
