package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/keel-agent/keel/adapters/sqlstore"
)

// Migrate brings the schema of the database at url up to date and returns it with what was applied. Any number of processes may
// call it at once; it uses one connection of its own. The URL must not lead through a pooler in transaction mode, for
// the advisory lock belongs to the connection.
func Migrate(ctx context.Context, url string) (sqlstore.Schema, error) {
	db, err := migrationDB(url)
	if err != nil {
		return sqlstore.Schema{}, err
	}
	defer func() { _ = db.Close() }()
	return sqlstore.Migrate(ctx, db, sqlstore.Postgres)
}

// Status returns the schema of the database at url with the migrations, applied and pending. It changes nothing.
func Status(ctx context.Context, url string) (sqlstore.Schema, error) {
	db, err := migrationDB(url)
	if err != nil {
		return sqlstore.Schema{}, err
	}
	defer func() { _ = db.Close() }()
	return sqlstore.Status(ctx, db, sqlstore.Postgres)
}

func migrationDB(url string) (*sql.DB, error) {
	cfg, err := parseConn(url)
	if err != nil {
		return nil, err
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	db := stdlib.OpenDB(*cfg)
	db.SetMaxOpenConns(1)
	return db, nil
}

// parseConn reads url for a connection outside the pool.
func parseConn(url string) (*pgx.ConnConfig, error) {
	pc, err := poolConfig(Config{URL: url})
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return pc.ConnConfig, nil
}
