package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// heldSocket is a listening socket that outlives servers, as one of a service manager does.
type heldSocket struct {
	file *os.File
	url  string
}

func holdSocket(t *testing.T, address string) heldSocket {
	t.Helper()
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	f, err := l.(*net.TCPListener).File()
	require.NoError(t, err)
	require.NoError(t, l.Close())
	t.Cleanup(func() { _ = f.Close() })
	return heldSocket{f, "http://" + l.Addr().String()}
}

// activate starts a server as a service manager does, with files as its descriptors from 3 on.
func activate(t *testing.T, store string, env []string, files []*os.File, flags ...string) *process {
	t.Helper()
	args := append([]string{"serve", "--store", store, "--auth", "off", "--provider", "fake"}, flags...)
	cmd := exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, keel}, args...)...)
	cmd.Env = append(append(withoutSettings(os.Environ()), "LISTEN_FDS="+strconv.Itoa(len(files))), env...)
	cmd.ExtraFiles = files
	return begin(t, cmd)
}

// serveOn starts a server on s and waits until it is ready.
func serveOn(t *testing.T, s heldSocket, store string, flags ...string) *process {
	t.Helper()
	p := activate(t, store, nil, []*os.File{s.file}, flags...)
	p.url = s.url
	p.says(`is ready at`)
	return p
}

// says waits until the log holds pattern, and returns what its last match captured.
func (p *process) says(pattern string) string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if all := re.FindAllStringSubmatch(p.logs.String(), -1); all != nil {
			last := all[len(all)-1]
			return last[len(last)-1]
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("it never said %q\n%s", pattern, p.logs)
		}
	}
}

// refused waits for the end of a server that cannot serve.
func (p *process) refused() {
	p.t.Helper()
	select {
	case err := <-p.done:
		require.ErrorContains(p.t, err, "exit status 1")
	case <-time.After(20 * time.Second):
		p.t.Fatalf("it was not refused\n%s", p.logs)
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// alive reports whether a process exists and has not ended.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// crowd are clients that make requests all the time and repeat none: each fault that a restart causes is seen.
type crowd struct {
	address string
	stop    chan struct{}
	working sync.WaitGroup

	mu           sync.Mutex
	faults       []string
	acknowledged map[string]int // requests by session
}

// gather starts clients that dial for every request, and as many that keep their connections, each with a session.
func gather(p *process, each int) *crowd {
	c := &crowd{address: strings.TrimPrefix(p.url, "http://"), stop: make(chan struct{}), acknowledged: map[string]int{}}
	for i := range each {
		for kind, keep := range map[string]bool{"dials": false, "keeps": true} {
			session := fmt.Sprintf("%s%d", kind, i)
			p.create(fmt.Sprintf(`{"id":%q}`, session))
			c.working.Go(func() { c.client(session, keep) })
		}
	}
	return c
}

func (c *crowd) client(session string, keep bool) {
	var conn *clientConn
	defer func() { conn.close() }()
	for n := 0; ; n++ {
		select {
		case <-c.stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
		if !keep || conn == nil {
			conn.close()
			var err error
			if conn, err = dial(c.address); err != nil {
				c.fault(session, n, err)
				conn = nil
				continue
			}
		}
		again, err := conn.input(session, n)
		if err != nil {
			c.fault(session, n, err)
		} else {
			c.mu.Lock()
			c.acknowledged[session]++
			c.mu.Unlock()
		}
		if !again {
			conn.close()
			conn = nil
		}
	}
}

func (c *crowd) fault(session string, n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, fmt.Sprintf("%s, request %d: %v", session, n, err))
}

func (c *crowd) count() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, each := range c.acknowledged {
		n += each
	}
	return n
}

// progress waits until the clients have made n more requests.
func (c *crowd) progress(t *testing.T, n int) {
	t.Helper()
	want := c.count() + n
	eventually(t, fmt.Sprintf("%d more requests; faults: %v", n, c.faultsNow()), func() bool { return c.count() >= want || len(c.faultsNow()) > 0 })
}

func (c *crowd) faultsNow() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults
}

// disperse ends the clients, wants that no request failed, and that each is in the ledger once and answered.
func (c *crowd) disperse(p *process) {
	p.t.Helper()
	close(c.stop)
	c.working.Wait()
	require.Empty(p.t, c.faults)
	for session, n := range c.acknowledged {
		require.NotZero(p.t, n, session)
		inputs, answered := map[string]bool{}, map[int64]bool{}
		for _, e := range p.all(session) {
			switch told := e.told(p.t); e.Kind {
			case "user.message":
				require.False(p.t, inputs[told.RequestID], "%s twice", told.RequestID)
				inputs[told.RequestID] = true
			case "assistant.message":
				for _, seq := range told.InputSeqs {
					answered[seq] = true
				}
			}
		}
		require.Len(p.t, inputs, n, "inputs of %s", session)
		require.Len(p.t, answered, n, "answered inputs of %s", session)
	}
	p.t.Logf("%d requests, none failed", c.count())
}

// all waits until the session rests and returns its ledger, page by page.
func (p *process) all(session string) []event {
	p.t.Helper()
	eventually(p.t, session+" rests", func() bool {
		return p.call("GET", "/v1/sessions/"+session, "").field(p.t, "activeRun") == "<nil>"
	})
	var events []event
	for more := true; more; {
		var page struct {
			Events  []event `json:"events"`
			HasMore bool    `json:"hasMore"`
		}
		a := p.call("GET", fmt.Sprintf("/v1/sessions/%s/events?after=%d&limit=1000", session, len(events)), "")
		a.into(p.t, &page)
		events, more = append(events, page.Events...), page.HasMore
	}
	for i, e := range events {
		require.EqualValues(p.t, i+1, e.Seq)
	}
	return events
}

// clientConn is a connection of a client that repeats nothing behind one's back.
type clientConn struct {
	net.Conn
	in *bufio.Reader
}

func dial(address string) (*clientConn, error) {
	conn, err := net.DialTimeout("tcp", address, 20*time.Second)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return &clientConn{conn, bufio.NewReader(conn)}, nil
}

func (c *clientConn) close() {
	if c != nil {
		_ = c.Conn.Close()
	}
}

// input submits an input and reads the answer. It reports whether the connection may be used again.
func (c *clientConn) input(session string, n int) (again bool, err error) {
	body := fmt.Sprintf(`{"text":"x","requestId":"r%d"}`, n)
	_, err = fmt.Fprintf(c, "POST /v1/sessions/%s/input HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		session, len(body), body)
	if err != nil {
		return false, err
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return false, err
	}
	text, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return false, err
	}
	if res.StatusCode != http.StatusCreated {
		return false, fmt.Errorf("status %d: %s", res.StatusCode, text)
	}
	return !res.Close, nil
}

// copyOf copies the program under test to where a test may replace it.
func copyOf(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(keel)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "keel")
	require.NoError(t, os.WriteFile(path, text, 0o700))
	return path
}
