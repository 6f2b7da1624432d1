// Package postgrestest gives tests a place of their own on the server that KEEL_TEST_POSTGRES_URL names. Without one the
// test fails: nothing is skipped.
package postgrestest

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server returns the server that the tests run against.
func Server(t testing.TB) string {
	t.Helper()
	u := os.Getenv("KEEL_TEST_POSTGRES_URL")
	if u == "" {
		t.Fatal("KEEL_TEST_POSTGRES_URL is not set: `make test` (or scripts/with-postgres.sh COMMAND) provides a server")
	}
	return u
}

// With returns u with a parameter set.
func With(t testing.TB, u, name, value string) string {
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

// Exec runs statements on a connection of its own.
func Exec(t testing.TB, u string, statements ...string) {
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

// Schema returns the URL of an empty schema that lives as long as the test.
func Schema(t testing.TB) string {
	t.Helper()
	name := "keel_" + strings.ToLower(rand.Text()[:12])
	server := Server(t)
	Exec(t, server, "CREATE SCHEMA "+name)
	t.Cleanup(func() { Exec(t, server, "DROP SCHEMA "+name+" CASCADE") })
	return With(t, server, "search_path", name)
}

// Database returns the URL of an empty database, made with options, that lives as long as the test.
func Database(t testing.TB, options string) string {
	t.Helper()
	name := "keel_" + strings.ToLower(rand.Text()[:12])
	server := Server(t)
	Exec(t, server, "CREATE DATABASE "+name+" "+options)
	t.Cleanup(func() { Exec(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	parsed, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	parsed.Path = "/" + name
	return parsed.String()
}
