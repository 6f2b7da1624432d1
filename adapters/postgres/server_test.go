package postgres_test

import (
	"testing"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
)

// migrated returns the URL of a schema that is up to date.
func migrated(t testing.TB) string {
	t.Helper()
	u := postgrestest.Schema(t)
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
