package postgres_test

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/keel-agent/keel/adapters/postgres"
)

// serverURL returns the server that the tests run against.
func serverURL(t testing.TB) string {
	t.Helper()
	u := os.Getenv("KEEL_TEST_POSTGRES_URL")
	if u == "" {
		t.Fatal("KEEL_TEST_POSTGRES_URL is not set: `make test` (or scripts/with-postgres.sh COMMAND) provides a server")
	}
	return u
}

// with returns u with a parameter set.
func with(t testing.TB, u, name, value string) string {
	t.Helper()
	parsed, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	q := parsed.Query()
	q.Set(name, value)
	parsed.RawQuery = q.Encode()
	return parsed.String()
}

// admin runs statements on a connection of its own.
func admin(t testing.TB, u string, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, u)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// freshSchema returns the URL of an empty schema that lives as long as the test.
func freshSchema(t testing.TB) string {
	t.Helper()
	name := "keel_" + strings.ToLower(rand.Text()[:12])
	server := serverURL(t)
	admin(t, server, "CREATE SCHEMA "+name)
	t.Cleanup(func() { admin(t, server, "DROP SCHEMA "+name+" CASCADE") })
	return with(t, server, "search_path", name)
}

// freshDatabase returns the URL of an empty database, made with options, that lives as long as the test.
func freshDatabase(t testing.TB, options string) string {
	t.Helper()
	name := "keel_" + strings.ToLower(rand.Text()[:12])
	server := serverURL(t)
	admin(t, server, "CREATE DATABASE "+name+" "+options)
	t.Cleanup(func() { admin(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	parsed, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	parsed.Path = "/" + name
	return parsed.String()
}

// migrated returns the URL of a schema that is up to date.
func migrated(t testing.TB) string {
	t.Helper()
	u := freshSchema(t)
	if _, err := postgres.Migrate(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	return u
}

// open opens a store that lives as long as the test.
func open(t testing.TB, cfg postgres.Config) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}
