package postgres

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
)

// unprepared is a bun.IConn that runs every statement in one query execution mode.
type unprepared struct {
	db   *sql.DB
	mode pgx.QueryExecMode
}

func (u unprepared) with(args []any) []any { return append([]any{u.mode}, args...) }

func (u unprepared) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return u.db.QueryContext(ctx, query, u.with(args)...)
}

func (u unprepared) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return u.db.ExecContext(ctx, query, u.with(args)...)
}

func (u unprepared) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return u.db.QueryRowContext(ctx, query, u.with(args)...)
}
