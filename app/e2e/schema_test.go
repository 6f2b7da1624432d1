package e2e

import (
	"database/sql"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// execBeside executes a statement on a store that a server may be busy with.
func execBeside(t *testing.T, store, statement string) {
	t.Helper()
	driver, name := "pgx", store
	if path, ok := strings.CutPrefix(store, "sqlite:"); ok {
		driver, name = "sqlite", path+"?_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, name)
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(t.Context(), statement)
	require.NoError(t, err, statement)
}

// recordMigration writes down a migration that only a newer program knows.
func recordMigration(t *testing.T, store, version string) {
	t.Helper()
	execBeside(t, store, "INSERT INTO keel_migrations (version_id, is_applied) VALUES ("+version+", true)")
}

func TestStoreOfANewerProgram(t *testing.T) {
	t.Parallel()
	for _, kind := range durableStores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			store := newStore(t, kind)
			first := serve(t, store, nil, "--provider", "fake")
			first.create(`{"id":"s1"}`)
			first.stop()
			require.NotContains(t, first.logs.String(), "newer version", "its own schema")

			recordMigration(t, store, "999")
			older := serve(t, store, nil, "--provider", "fake")
			require.Regexp(t, `WARN\s+a newer version of keel .*\{"schema": 999, "this version knows": \d+\}`, older.logs)
			older.input("s1", `{"text":"hi","requestId":"r1"}`)
			older.rested("s1")
			older.stop()
			code, out, errs := command(t, "migrate", "status", "--store", store)
			require.Equal(t, 0, code, errs)
			require.Regexp(t, `(?m)^999 +\(of a newer version of keel\)`, out)
			code, out, errs = command(t, "verify", "--store", store)
			require.Equal(t, 0, code, out+errs)
		})
	}
}

func TestStoreThatThisProgramCannotRead(t *testing.T) {
	t.Parallel()
	for _, kind := range durableStores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			store := newStore(t, kind)
			code, _, errs := command(t, "migrate", "up", "--store", store)
			require.Equal(t, 0, code, errs)
			recordMigration(t, store, "1001")
			for _, c := range []struct {
				code int
				args []string
			}{
				{1, []string{"serve", "--listen", "127.0.0.1:0", "--provider", "fake", "--auth", "off"}},
				{1, []string{"migrate", "up"}}, {2, []string{"verify"}},
			} {
				code, out, errs := command(t, append(c.args, "--store", store)...)
				require.Equal(t, c.code, code, "%v\n%s\n%s", c.args, out, errs)
				require.Regexp(t, `keel: .*schema 1001, this version knows \d+.*install`, errs, "%v", c.args)
			}
			code, out, errs := command(t, "migrate", "status", "--store", store)
			require.Equal(t, 0, code, errs)
			require.Regexp(t, `(?m)^1001 +\(of a newer version of keel\)`, out)
		})
	}
}

// A server whose store was changed so by a newer one is not succeeded by one of its own version.
func TestNoSuccessorThatCannotReadTheStore(t *testing.T) {
	needsProc(t)
	t.Parallel()
	for _, kind := range durableStores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			store := newStore(t, kind)
			p := serve(t, store, nil, "--provider", "fake")
			recordMigration(t, store, "1001")
			p.signal(syscall.SIGHUP)
			p.says(`no hand-over, this process serves on\t.*schema 1001, this version knows`)
			p.create(`{"id":"s1"}`)
			p.stop()
		})
	}
}
