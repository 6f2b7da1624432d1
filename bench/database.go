package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keel-agent/keel/adapters/postgres"
)

// urlVariable names the server; scripts/with-postgres.sh sets it.
const urlVariable = "KEEL_TEST_POSTGRES_URL"

// postgresServer returns the URL of the server to measure on.
func postgresServer() (string, error) {
	server := os.Getenv(urlVariable)
	if server == "" {
		return "", fmt.Errorf("%s is not set: run `make bench`, or scripts/with-postgres.sh go run ./bench", urlVariable)
	}
	return server, nil
}

// freshDatabase makes an empty database on a server. The caller drops it.
func freshDatabase(ctx context.Context, server string) (at string, drop func(), err error) {
	parsed, err := url.Parse(server)
	if err != nil {
		return "", nil, err
	}
	name := "bench_" + strings.ToLower(rand.Text()[:12])
	if err := execute(ctx, server, "CREATE DATABASE "+name); err != nil {
		return "", nil, err
	}
	parsed.Path = "/" + name
	return parsed.String(), func() {
		_ = execute(context.WithoutCancel(ctx), server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	}, nil
}

// keelDatabase makes a database with Keel's schema.
func keelDatabase(ctx context.Context, server string) (at string, drop func(), err error) {
	at, drop, err = freshDatabase(ctx, server)
	if err != nil {
		return "", nil, err
	}
	if _, err := postgres.Migrate(ctx, at); err != nil {
		drop()
		return "", nil, err
	}
	return at, drop, nil
}

// execute runs statements on a connection of its own.
func execute(ctx context.Context, at string, statements ...string) error {
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// tidyUp does now what the server would do in the midst of a round.
func tidyUp(ctx context.Context, at string) error {
	return execute(ctx, at, "VACUUM ANALYZE", "CHECKPOINT")
}

// openPool opens a pool of at most conns connections.
func openPool(ctx context.Context, at string, conns int) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(at)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(conns)
	return pgxpool.NewWithConfig(ctx, cfg)
}

// copies makes many sessions out of one: a ledger that was written through the ports is kept as a template, and its
// rows are copied under other ids. Writing a hundred thousand sessions one by one would take longer than what is
// measured on them.
type copies struct {
	conn *pgx.Conn
	made int
}

// keepTemplate takes all that the database holds as the template, and empties it.
func keepTemplate(ctx context.Context, at string) (*copies, error) {
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		return nil, err
	}
	for _, table := range []string{"sessions", "events", "runs"} {
		for _, s := range []string{"CREATE TABLE template_" + table + " AS SELECT * FROM " + table, "DELETE FROM " + table} {
			if _, err := conn.Exec(ctx, s); err != nil {
				return nil, fmt.Errorf("%s: %w", s, err)
			}
		}
	}
	return &copies{conn: conn}, nil
}

func (c *copies) close() { _ = c.conn.Close(context.Background()) }

// copied names the session of copy number i.
func copied(i int) string { return "c-" + strconv.Itoa(i) }

// more makes n further copies.
func (c *copies) more(ctx context.Context, n int) error {
	const session, run = "'session_id', 'c-' || i", "'r-' || i"
	for table, ids := range map[string]string{
		"sessions": session + ", 'active_run_id', CASE WHEN t.active_run_id IS NOT NULL THEN " + run + " END",
		"events":   session + ", 'run_id', CASE WHEN t.run_id IS NOT NULL THEN " + run + " END",
		"runs":     session + ", 'run_id', " + run,
	} {
		text := "INSERT INTO " + table + " SELECT p.* FROM template_" + table + " AS t CROSS JOIN generate_series($1::bigint, $2::bigint) AS i" +
			" CROSS JOIN LATERAL jsonb_populate_record(t, jsonb_build_object(" + ids + ")) AS p"
		if _, err := c.conn.Exec(ctx, text, c.made, c.made+n-1); err != nil {
			return err
		}
	}
	c.made += n
	for _, s := range []string{"VACUUM ANALYZE sessions, events, runs", "CHECKPOINT"} {
		if _, err := c.conn.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}
