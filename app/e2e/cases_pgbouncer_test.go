//go:build pgbouncer

package e2e

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pooled returns the URL of the store through a pooler in transaction mode.
func pooled(t *testing.T, store string) string {
	t.Helper()
	u, err := url.Parse(store)
	require.NoError(t, err)
	dir, as := serverDir(t)
	port := freePort(t)
	config := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf("[databases]\n* = host=%s port=%s user=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"+
		"unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 8\nlogfile = %s/log\n",
		u.Hostname(), u.Port(), u.User.Username(), port, dir)
	require.NoError(t, os.WriteFile(config, []byte(text), 0o644))
	front(t, "pgbouncer", as, port, config)
	u.Host = fmt.Sprint("127.0.0.1:", port)
	q := u.Query()
	q.Set("default_query_exec_mode", "exec")
	u.RawQuery = q.Encode()
	return u.String()
}

// K30, K39 and K40, behind a pooler in transaction mode: with a URL of their own, wake-ups work as ever.
func TestK39BehindAPooler(t *testing.T) {
	store := newStore(t, "postgres")
	flags := []string{"--direct-url", store, "--provider", "fake", "--lease-ttl", "3s", "--heartbeat", "500ms", "--log-level", "warn"}
	through := pooled(t, store)
	p, other := serve(t, through, nil, flags...), serve(t, through, nil, flags...)
	l := startLoad(t, p)
	wakesAcross(t, other, p, "s1")
	l.recovered(time.Now())
	l.end()
	other.stop()
	p.stop()
	require.NotContains(t, p.logs.String(), "wake-up")
	verified(t, store)
	verified(t, through)
}

// Without a URL of their own, wake-ups of other processes do not come: the log says what helps, and the poll brings all.
func TestK39ListenThroughAPooler(t *testing.T) {
	store := newStore(t, "postgres")
	code, out, errs := command(t, "migrate", "up", "--store", store)
	require.Equal(t, 0, code, out+errs)
	through := pooled(t, store)
	p, other := serve(t, through, nil, "--provider", "fake"), serve(t, through, nil, "--provider", "fake")
	require.Eventually(t, func() bool { return p.logs.find(`(--direct-url)`) != "" }, 10*time.Second, 10*time.Millisecond)
	p.create(`{"id":"s1"}`)
	frames := p.stream(t.Context(), "s1", "after=0")
	for range 2 {
		require.Less(t, reaches(t, other, "s1", frames), safetyPoll+leeway)
	}
	other.stop()
	p.stop()
}
