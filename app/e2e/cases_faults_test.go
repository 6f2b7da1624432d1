package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
)

// resumeLimit is how long after the end of a fault of the database every session takes inputs again.
const resumeLimit = 10 * time.Second

// spoils are the faults between a server and its database, by name. Each ends when it returns.
var spoils = map[string]func(t *testing.T, f *postgrestest.Proxy, store string){
	"cut": func(_ *testing.T, f *postgrestest.Proxy, _ string) { repeat(10, 200*time.Millisecond, f.Cut) },
	"slow": func(_ *testing.T, f *postgrestest.Proxy, _ string) {
		f.Slow(300 * time.Millisecond)
		time.Sleep(3 * time.Second)
	},
	"half open": func(_ *testing.T, f *postgrestest.Proxy, _ string) {
		f.Shut()
		f.Forget()
		time.Sleep(5 * time.Second)
	},
	"forgotten": func(_ *testing.T, f *postgrestest.Proxy, _ string) { f.Forget() },
	"narrow": func(_ *testing.T, f *postgrestest.Proxy, _ string) {
		f.Narrow(20_000)
		time.Sleep(3 * time.Second)
	},
	"terminated": func(t *testing.T, _ *postgrestest.Proxy, store string) {
		conn, err := pgx.Connect(t.Context(), store)
		require.NoError(t, err)
		defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
		repeat(15, 200*time.Millisecond, func() {
			_, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
			require.NoError(t, err)
		})
	},
}

// repeat calls f n times, at intervals.
func repeat(n int, interval time.Duration, f func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for range n {
		f()
		<-tick.C
	}
}

// Nothing that was acknowledged is lost, whatever happens between a server and its database, and writes resume within
// ten seconds (K17, K39 and K40 at once).
func TestFaultsOfTheDatabasesConnections(t *testing.T) {
	t.Parallel()
	for name, spoil := range spoils {
		for _, conns := range []int{1, 0} {
			t.Run(fmt.Sprintf("%s/%d", name, conns), func(t *testing.T) {
				t.Parallel()
				store := newStore(t, "postgres")
				proxy, through := postgrestest.NewProxy(t, store)
				p := serve(t, through, nil, "--provider", "fake", "--max-conns", fmt.Sprint(conns), "--lease-ttl", "3s", "--heartbeat", "500ms", "--log-level", "warn")
				l := startLoad(t, p)
				spoil(t, proxy, store)
				proxy.Heal()
				took := l.recovered(time.Now())
				t.Logf("writes resumed %s after the fault", took)
				require.Less(t, took, resumeLimit)
				l.end()
				p.stop()
				verified(t, store)
			})
		}
	}
}

func verified(t *testing.T, store string) {
	t.Helper()
	code, out, errs := command(t, "verify", "--store", store)
	require.Equal(t, 0, code, out+errs)
}
