package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
)

// The backups of docs/OPERATIONS.md, made while a server is busy: they verify, and a server goes on with them.
func TestBackups(t *testing.T) {
	t.Parallel()
	for kind, backup := range map[string]func(t *testing.T, store string) string{"sqlite": backupSQLite, "postgres": backupPostgres} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			store := newStore(t, kind)
			p := serve(t, store, nil, "--provider", "fake", "--lease-ttl", "1s", "--heartbeat", "300ms")
			const sessions = 4
			for i := range sessions {
				p.create(fmt.Sprintf(`{"id":"s%d"}`, i))
			}
			p.input("s0", `{"text":"first","requestId":"first"}`)
			p.finished("s0", 1)
			var enough atomic.Bool
			written := make(chan error, sessions)
			for i := range sessions {
				go func() {
					var err error
					for n := 0; err == nil && !enough.Load(); n++ {
						_, err = p.try("POST", fmt.Sprintf("/v1/sessions/s%d/input", i), fmt.Sprintf(`{"text":"hi","requestId":"r%d"}`, n))
					}
					written <- err
				}()
			}
			restored := backup(t, store)
			enough.Store(true)
			for range sessions {
				require.NoError(t, <-written)
			}
			p.stop()

			code, out, errs := command(t, "verify", "--store", restored)
			require.Equal(t, 0, code, out+errs)
			require.Contains(t, out, fmt.Sprintf("verified %d sessions", sessions))
			again := serve(t, restored, nil, "--provider", "fake", "--lease-ttl", "1s", "--heartbeat", "300ms")
			require.Equal(t, "user.message", again.all("s0")[0].Kind)
			for i := range sessions {
				again.rested(fmt.Sprintf("s%d", i))
			}
			again.stop()
		})
	}
}

func backupSQLite(t *testing.T, store string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy.db")
	execBeside(t, store, "VACUUM INTO '"+to+"'")
	return "sqlite:" + to
}

func backupPostgres(t *testing.T, store string) string {
	t.Helper()
	dump, into := filepath.Join(t.TempDir(), "keel.dump"), postgrestest.Database(t, "")
	for _, args := range [][]string{
		{"pg_dump", "--format=custom", "--file=" + dump, store}, {"pg_restore", "--exit-on-error", "--dbname=" + into, dump},
	} {
		out, err := exec.Command(filepath.Join(os.Getenv("KEEL_TEST_POSTGRES_BIN"), args[0]), args[1:]...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return into
}
