package postgres_test

import (
	"net/url"
	"testing"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
)

func TestIdentityIsThatOfTheLedgers(t *testing.T) {
	u := postgrestest.Schema(t)
	parsed, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	schema := parsed.Query().Get("search_path")
	role := schema + "_plain"
	postgrestest.Exec(t, u, "CREATE ROLE "+role, "GRANT USAGE ON SCHEMA "+schema+" TO "+role)
	t.Cleanup(func() { postgrestest.Exec(t, u, "DROP OWNED BY "+role, "DROP ROLE "+role) })
	identity := func(u string) string {
		t.Helper()
		id, err := postgres.Identity(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	here := identity(u)
	if again := identity(postgrestest.With(t, u, "role", role)); again != here {
		t.Error("a role without rights is told something else")
	}
	for _, other := range []string{postgrestest.Schema(t), postgrestest.Database(t, ""), postgrestest.Server(t)} {
		if identity(other) == here {
			t.Errorf("%s has the identity of %s", other, u)
		}
	}
	if _, err := postgres.Identity(t.Context(), "postgres://127.0.0.1:1/none?connect_timeout=1"); err == nil {
		t.Error("a server that is not there has an identity")
	}
}
