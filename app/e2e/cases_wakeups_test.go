package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
)

// safetyPoll is how often a process looks for commits that no wake-up told of; leeway is what a busy machine adds.
const (
	safetyPoll = 5 * time.Second
	leeway     = 3 * time.Second
)

// reaches posts an input to one process and returns how long it took to a reader of the session at another.
func reaches(t *testing.T, from *process, session string, frames <-chan sseEvent) time.Duration {
	t.Helper()
	began := time.Now()
	seq := from.input(session, `{"text":"x"}`).field(t, "seq")
	for {
		select {
		case f, open := <-frames:
			require.True(t, open, "the stream ended")
			if f.LastEventID == seq {
				return time.Since(began)
			}
		case <-time.After(safetyPoll + leeway):
			t.Fatal("the safety poll missed an event")
		}
	}
}

// wakesAcross waits until commits of one process reach the readers of another by wake-up: four in a row in less time than
// the safety poll leaves between two looks. Until then the poll brings each.
func wakesAcross(t *testing.T, from, to *process, session string) {
	t.Helper()
	from.create(fmt.Sprintf(`{"id":%q}`, session))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	frames := to.stream(ctx, session, "after=0")
	for deadline := time.Now().Add(25 * time.Second); ; {
		var took time.Duration
		for range 4 {
			took += reaches(t, from, session, frames)
		}
		if took < leeway {
			return
		}
		require.True(t, time.Now().Before(deadline), "no wake-ups: four events took %s", took)
	}
}

// K39, 3: the database restarts, and crashes, under load.
func TestK39DatabaseRestarts(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	flags := []string{"--provider", "fake", "--lease-ttl", "3s", "--heartbeat", "500ms", "--log-level", "error"}
	p, other := serve(t, c.url(), nil, flags...), serve(t, c.url(), nil, flags...)
	l := startLoad(t, p)
	for _, mode := range []string{"fast", "immediate"} {
		c.restart(mode)
		took := l.recovered(time.Now())
		t.Logf("writes resumed %s after the restart (%s)", took, mode)
		require.Less(t, took, resumeLimit)
		wakesAcross(t, other, p, mode)
	}
	l.end()
	other.stop()
	p.stop()
	verified(t, c.url())
}

// deaf cuts a process's wake-up connections and keeps it from new ones; hears lets it have them again.
type deaf struct {
	t     *testing.T
	proxy *postgrestest.Proxy
	store string
}

const busName = "bus-of-the-worker"

// newDeaf returns the flags of a server whose wake-ups can be cut.
func newDeaf(t *testing.T, store string) (d *deaf, flags []string) {
	t.Helper()
	proxy, through := postgrestest.NewProxy(t, store)
	u, err := url.Parse(through)
	require.NoError(t, err)
	q := u.Query()
	q.Set("application_name", busName)
	u.RawQuery = q.Encode()
	return &deaf{t, proxy, store}, []string{"--direct-url", u.String(), "--provider", "fake", "--heartbeat", "1s", "--lease-ttl", "6s"}
}

// goes terminates the backends of the connections and returns two seconds later.
func (d *deaf) goes() {
	d.t.Helper()
	d.proxy.Shut()
	conn, err := pgx.Connect(d.t.Context(), d.store)
	require.NoError(d.t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(d.t.Context())) }()
	var n int
	const text = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1"
	require.NoError(d.t, conn.QueryRow(d.t.Context(), text, busName).Scan(&n))
	require.Equal(d.t, 2, n, "one that listens, one that notifies")
	for began := time.Now(); time.Since(began) < 2*time.Second; time.Sleep(50 * time.Millisecond) {
		d.still()
	}
}

// still fails unless the process is deaf.
func (d *deaf) still() {
	d.t.Helper()
	require.Eventually(d.t, func() bool {
		return d.proxy.Links() == 0
	}, time.Second, time.Millisecond, "the process is connected")
}

// K30: the wake-up of a cancel is lost while the listener is away; the next heartbeat brings it.
func TestK30CancelWhileTheListenerIsAway(t *testing.T) {
	t.Parallel()
	store := newStore(t, "postgres")
	d, flags := newDeaf(t, store)
	worker := serve(t, store, nil, flags...)
	worker.create(`{"id":"s1","tools":["sleep"]}`)
	worker.input("s1", `{"text":"go","requestId":"r","selection":{"script":[{"toolCalls":[{"name":"sleep","arguments":{"ms":60000}}]}]}}`)
	worker.until("s1", func(es []event) bool { return count(es, "assistant.message") == 1 })
	edge := serve(t, store, nil, "--provider", "fake")
	d.goes()
	began := time.Now()
	require.Equal(t, http.StatusAccepted, edge.call("POST", "/v1/sessions/s1/cancel", `{}`).status)
	events := edge.finished("s1", 1)
	require.Less(t, time.Since(began), time.Second+leeway, "one heartbeat, before any poll")
	d.still()
	tells(t, events, "input go", `[1] tool_use: sleep{"ms":60000}`, "result 1 interrupted: The call was interrupted: the user cancelled.", "cancelled…")
	worker.stop()
	edge.stop()
}

// K30, the variant: an input comes while a client waits at a process that hears nothing. The poll brings it;
// when the listener is back, wake-ups do.
func TestK30InputWhileTheListenerIsAway(t *testing.T) {
	t.Parallel()
	store := newStore(t, "postgres")
	d, flags := newDeaf(t, store)
	p, edge := serve(t, store, nil, flags...), serve(t, store, nil, "--provider", "fake")
	edge.create(`{"id":"s1"}`)
	frames := p.stream(t.Context(), "s1", "after=0")
	d.goes()
	took := reaches(t, edge, "s1", frames)
	require.Less(t, took, safetyPoll+leeway)
	d.still()
	d.proxy.Heal()
	wakesAcross(t, edge, p, "s2")
	wakesAcross(t, p, edge, "s3")
	p.stop()
	edge.stop()
}
