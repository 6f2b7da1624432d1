package app

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// testDatabase makes a fresh Postgres database and returns its URL.
func testDatabase(t *testing.T) string {
	t.Helper()
	base := os.Getenv("KEEL_TEST_POSTGRES_URL")
	require.NotEmpty(t, base, "KEEL_TEST_POSTGRES_URL is not set: run the tests by `make test`, which brings a database")
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, base)
	require.NoError(t, err)
	name := "app_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	_, err = conn.Exec(ctx, "CREATE DATABASE "+name)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := conn.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
		require.NoError(t, err)
		require.NoError(t, conn.Close(ctx))
	})
	return regexp.MustCompile(`/[^/?]*(\?|$)`).ReplaceAllString(base, "/"+name+"$1")
}

func requirePrivate(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}
