package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/bus"
	"github.com/keel-agent/keel/adapters/httpapi"
	"github.com/keel-agent/keel/adapters/memory"
	"github.com/keel-agent/keel/adapters/sse"
	"github.com/keel-agent/keel/app/service"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// piped is a listener whose connections are pipes, which a synctest bubble can wait for.
type piped chan net.Conn

func (p piped) Accept() (net.Conn, error) {
	conn, open := <-p
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p piped) Close() error { close(p); return nil }
func (piped) Addr() net.Addr { return &net.UnixAddr{} }

type fixedIDs struct{}

func (fixedIDs) New() string     { return "01890000-0000-7000-8000-000000000000" }
func (fixedIDs) Jitter() float64 { return 0 }

type bubbleClock struct{}

func (bubbleClock) Now() time.Time { return time.Now() }

// toBoth tells both of each commit.
type toBoth struct{ all []ports.Notifier }

func (n *toBoth) Committed(c ports.Commit) {
	for _, each := range n.all {
		each.Committed(c)
	}
}

// K19, 1: through the whole HTTP side, a stream that is idle for three times the largest timeout of the
// server, in fake time, gets a comment each 15 s and then its event at once.
func TestK19IdleStreamOutlivesTheServersTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const largest = 2 * time.Minute
		hub, notify := &bus.Hub{}, &toBoth{}
		store := memory.New(memory.Config{Now: time.Now, Notifier: notify})
		svc := service.New(service.Deps{Ledger: store, Sessions: store.Sessions(), Runs: store.Runs(), Clock: bubbleClock{}, IDs: fixedIDs{}})
		feeds := sse.NewHub(sse.HubConfig{Cursors: svc, Ledger: struct {
			*memory.Store
			memory.Sessions
		}{store, store.Sessions()}, Wakeups: hub})
		defer feeds.Close()
		notify.all = []ports.Notifier{hub, feeds}
		server := &http.Server{
			ReadTimeout: 10 * time.Second, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: largest,
			Handler: httpapi.New(httpapi.Config{
				Service: svc, IDs: fixedIDs{}, Auth: httpapi.NewTokens(map[string]string{"token": "t"}), Streams: sse.New(sse.Config{Source: feeds}),
			}),
		}
		conns := make(piped)
		go func() { _ = server.Serve(conns) }()
		defer func() { _ = server.Close() }()
		ref := domain.SessionRef{Tenant: "t", Session: "s1"}
		payload := func(raw string) domain.Payload {
			p, err := domain.ParsePayload([]byte(raw), 0)
			require.NoError(t, err)
			return p
		}
		_, err := store.Do(t.Context(), ref, domain.CreateSession{At: time.Now(), Request: payload(`{"id":"s1"}`)})
		require.NoError(t, err)

		near, far := net.Pipe()
		conns <- far
		_, err = fmt.Fprint(near, "GET /v1/sessions/s1/events/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer token\r\nAccept-Encoding: gzip, br\r\n\r\n")
		require.NoError(t, err)
		res, err := http.ReadResponse(bufio.NewReader(near), nil)
		require.NoError(t, err)
		defer func() { _ = errors.Join(near.Close(), res.Body.Close()) }() // a body alone is closed by reading on
		require.Equal(t, http.StatusOK, res.StatusCode)
		frames := bufio.NewReader(res.Body)
		line := func() string {
			for {
				l, err := frames.ReadString('\n')
				require.NoError(t, err, "after %s", time.Now())
				if l != "\n" {
					return strings.TrimSuffix(l, "\n")
				}
			}
		}
		began := time.Now()
		for n := 1; time.Since(began) < 3*largest; n++ {
			require.Equal(t, ": keep-alive", line())
			require.Equal(t, time.Duration(n)*15*time.Second, time.Since(began), "well below the limits of proxies")
		}
		time.Sleep(time.Second)
		began = time.Now()
		_, err = store.Do(t.Context(), ref, domain.SubmitInput{At: time.Now(), RequestID: "r", Payload: payload(`{"text":"hi","requestId":"r"}`), NewRun: "run"})
		require.NoError(t, err)
		require.Equal(t, "id: 1", line())
		require.Contains(t, line(), `"text":"hi"`)
		require.Zero(t, time.Since(began), "at once")
	})
}

// descriptors is what the process has open: the paths of files, and the like for sockets and all else.
func (p *process) descriptors() (open []string) {
	p.t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd/", p.cmd.Process.Pid)
	fds, err := os.ReadDir(dir)
	require.NoError(p.t, err)
	for _, fd := range fds {
		if target, err := os.Readlink(dir + fd.Name()); err == nil {
			open = append(open, target)
		}
	}
	return open
}

// sockets is how many of them are connections.
func (p *process) sockets() (n int) {
	p.t.Helper()
	for _, target := range p.descriptors() {
		if strings.HasPrefix(target, "socket:") {
			n++
		}
	}
	return n
}

// resident is how many bytes of memory the process holds.
func (p *process) resident() int {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(p.t, err)
	kib, err := strconv.Atoi(regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindStringSubmatch(string(status))[1])
	require.NoError(p.t, err)
	return kib << 10
}

// goroutines ends the process and returns how many it had, and the text of all.
func (p *process) goroutines() (int, string) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGQUIT))
	require.Error(p.t, <-p.done)
	text := p.logs.String()
	return strings.Count(text, "\ngoroutine "), text
}

func needsProc(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("this system has no /proc")
	}
}

// raw opens a stream on a connection of its own, with a receive buffer of that size unless it is 0, and returns it past
// the headers.
func (p *process) raw(session, query string, buffer int) (net.Conn, *http.Response) {
	p.t.Helper()
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		if buffer == 0 {
			return nil
		}
		var failed error
		if err := c.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, buffer)
		}); err != nil {
			return err
		}
		return failed
	}}
	conn, err := dialer.DialContext(p.t.Context(), "tcp", strings.TrimPrefix(p.url, "http://"))
	require.NoError(p.t, err)
	_, err = fmt.Fprintf(conn, "GET /v1/sessions/%s/events/stream?%s HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\r\n", session, query)
	require.NoError(p.t, err)
	res, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusOK, res.StatusCode)
	return conn, res
}

// K19, 2: clients that stop reading, and keep their connections, are cut; one that reads sees no delay; the
// server's memory follows neither the number of them nor what they have not read.
func TestK19StuckClients(t *testing.T) {
	needsProc(t)
	t.Parallel()
	p := serve(t, newStore(t, "sqlite"), []string{"GOGC=50"}, "--provider", "fake")
	p.create(`{"id":"s1"}`)
	p.input("s1", `{"text":"warm","requestId":"w"}`)
	p.rested("s1")
	const stuck, events, size = 200, 80, 250 << 10
	before := p.sockets()
	for range stuck {
		conn, res := p.raw("s1", "after=0", 4<<10)
		defer func() { _ = errors.Join(conn.Close(), res.Body.Close()) }()
	}
	require.GreaterOrEqual(t, p.sockets(), 1+stuck) // the listener and theirs: other connections may have gone
	healthy := p.stream(t.Context(), "s1", "after=3")
	held, slowest := p.resident(), time.Duration(0)
	text := strings.Repeat("x", size)
	at := 3
	for i := range events {
		began := time.Now()
		p.input("s1", fmt.Sprintf(`{"text":"%s","requestId":"r%d","selection":{"script":[{"text":"ok"}]}}`, text, i))
		for range 3 {
			at++
			require.Equal(t, fmt.Sprint(at), (<-healthy).LastEventID)
		}
		slowest = max(slowest, time.Since(began))
	}
	grown := p.resident() - held
	t.Logf("slowest turn %s, memory grew by %d MiB, %d MiB were not read", slowest, grown>>20, stuck*events*size>>20)
	require.Less(t, slowest, 3*time.Second, "the healthy client sees no delay")
	require.Less(t, grown, stuck<<20, "what is not read is not kept for each client")
	require.Eventually(t, func() bool { return p.sockets() <= before+2 }, 20*time.Second, 50*time.Millisecond, "the stuck ones are cut")
	p.input("s1", `{"text":"after","requestId":"after"}`)
	require.Equal(t, fmt.Sprint(at+1), (<-healthy).LastEventID, "and the healthy one is not")
	again := p.stream(t.Context(), "s1", "after=4")
	require.Equal(t, "5", (<-again).LastEventID, "a cut client resumes by its cursor")
	p.stop()
}

// K19, 4: each frame is flushed, uncompressed, with the headers that keep proxies from buffering.
func TestK19FramesAreFlushedOneByOne(t *testing.T) {
	t.Parallel()
	p := serve(t, newStore(t, "memory"), nil, "--provider", "fake")
	p.create(`{"id":"s1"}`)
	conn, res := p.raw("s1", "after=0", 0)
	defer func() { _ = errors.Join(conn.Close(), res.Body.Close()) }()
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	require.Empty(t, res.Header.Get("Content-Encoding"))
	require.Empty(t, res.Header.Get("Content-Length"))
	require.Equal(t, "no", res.Header.Get("X-Accel-Buffering"))
	require.Contains(t, res.Header.Get("Cache-Control"), "no-transform")
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
	frames := bufio.NewReader(res.Body)
	for turn := range 5 {
		p.input("s1", fmt.Sprintf(`{"text":"x","requestId":"r%d"}`, turn))
		for i := range 3 { // nothing further is committed that could push them out
			id, err := frames.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("id: %d\n", 3*turn+i+1), id)
			for range 2 {
				_, err := frames.ReadString('\n')
				require.NoError(t, err)
			}
		}
		require.Zero(t, frames.Buffered())
	}
}

// K19, 5: after many streams that came and went, descriptors, connections of the database and goroutines are
// what they were. The store's pool may have grown to its size meanwhile.
func TestK19NothingStaysBehind(t *testing.T) {
	needsProc(t)
	t.Parallel()
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			all := map[int]int{}
			for _, cycles := range []int{3, 1_000} {
				store := newStore(t, kind)
				connections := func() (all, listen int) { return 0, 0 }
				if kind == "postgres" {
					conn, err := pgx.Connect(t.Context(), store)
					require.NoError(t, err)
					defer func() { _ = conn.Close(context.Background()) }()
					connections = func() (all, listen int) {
						require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE query LIKE 'LISTEN%')
							FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&all, &listen))
						return all, listen
					}
				}
				p := serve(t, store, nil, "--provider", "fake", "--max-conns", "4")
				for i := range 3 {
					id := fmt.Sprint("s", i)
					p.create(fmt.Sprintf(`{"id":%q}`, id))
					p.input(id, `{"text":"x","requestId":"r"}`)
					p.rested(id)
				}
				others := func() int { // descriptors that are not the store's
					http.DefaultClient.CloseIdleConnections()
					pool, _ := connections()
					return len(slices.DeleteFunc(p.descriptors(), func(path string) bool { return strings.Contains(path, "keel.db") })) - pool
				}
				files := others()
				_, listening := connections()
				for i := range cycles {
					conn, res := p.raw(fmt.Sprint("s", i%3), "partials=1&after=0", 0)
					if i%3 > 0 { // some drop before they have read anything
						_, err := bufio.NewReader(res.Body).ReadString('\n')
						require.NoError(t, err)
					}
					if i%2 > 0 {
						require.NoError(t, conn.(*net.TCPConn).SetLinger(0)) // a reset
					}
					_ = errors.Join(conn.Close(), res.Body.Close())
				}
				require.Eventually(t, func() bool {
					_, now := connections()
					return others() <= files+2 && now == listening
				}, 10*time.Second, 20*time.Millisecond, "%d descriptors, then %d: %q", files, others(), p.descriptors())
				pool, _ := connections()
				require.LessOrEqual(t, pool, 4+2, "what --max-conns says, LISTEN and NOTIFY")
				require.LessOrEqual(t, len(p.descriptors())-others()-pool, 3*(4+2), "files of four readers, and of the writer's two connections")
				time.Sleep(200 * time.Millisecond)
				n, text := p.goroutines()
				all[cycles] = n
				require.NotContains(t, text, "sse.(*Handler).Serve", "no stream is left")
				require.Greater(t, n, 3, text)
			}
			require.LessOrEqual(t, all[1_000], all[3]+5, "goroutines")
		})
	}
}
