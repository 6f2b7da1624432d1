package apitest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/httpapi"
	"github.com/keel-agent/keel/adapters/sse"
)

// raw sends head as it is and returns the connection.
func (r *rig) raw(head string) net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, strings.ReplaceAll(head, "\n", "\r\n"))
	require.NoError(r.t, err)
	require.NoError(r.t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
	return conn
}

const allowed = "Authorization: Bearer " + ours + "\nContent-Type: application/json\n"

// A body that is announced and never comes, or comes in drips, holds nothing: the answer is written and the connection
// ends.
func TestAnnouncedBodiesThatDoNotCome(t *testing.T) {
	const patience = time.Second
	r := newRig(t, func(c *httpapi.Config, _ *sse.Config) { c.BodyTimeout = patience })
	s := r.create("s")
	var all sync.WaitGroup
	for name, c := range map[string]struct {
		head   string
		status int
		waits  bool // for the body before it answers
	}{
		"input":           {"POST " + s + "/input HTTP/1.1\nHost: localhost\n" + allowed, 400, true},
		"optional":        {"POST /v1/sessions HTTP/1.1\nHost: localhost\n" + allowed, 400, true},
		"without a token": {"POST " + s + "/input HTTP/1.1\nHost: localhost\nContent-Type: application/json\n", 401, false},
		"foreign host":    {"POST " + s + "/input HTTP/1.1\nHost: evil.example\n" + allowed, 403, false},
		"media type":      {"POST " + s + "/input HTTP/1.1\nHost: localhost\nAuthorization: Bearer " + ours + "\n", 415, false},
		"no such path":    {"POST /nowhere HTTP/1.1\nHost: localhost\n" + allowed, 404, false},
		"method":          {"DELETE " + s + " HTTP/1.1\nHost: localhost\n" + allowed, 405, false},
		"get":             {"GET " + s + " HTTP/1.1\nHost: localhost\n" + allowed, 200, false},
		"probe":           {"GET /healthz HTTP/1.1\nHost: localhost\n", 200, false},
	} {
		for _, body := range []string{"Content-Length: 100\n\n", "Content-Length: 300000\n\n{\"text\":", "Transfer-Encoding: chunked\n\n", "Transfer-Encoding: chunked\n\n4\n{\"te\n"} {
			all.Go(func() {
				begin := time.Now()
				conn := r.raw(c.head + body)
				answers := bufio.NewReader(conn)
				resp, err := http.ReadResponse(answers, nil)
				if !assert.NoError(t, err, name) {
					return
				}
				assert.Equal(t, c.status, resp.StatusCode, name)
				assert.True(t, resp.Close, "nothing else will be read from this connection")
				assert.Equal(t, c.waits, time.Since(begin) >= patience, "%s: only who needs the body waits for it", name)
				_, err = io.Copy(io.Discard, resp.Body)
				assert.NoError(t, err, name)
				resp.Body.Close()
				_, err = answers.ReadByte()
				assert.Error(t, err, name)
				assert.Less(t, time.Since(begin), 5*patience, "%s: the connection is over", name)
			})
		}
	}
	all.Go(func() {
		begin := time.Now()
		conn := r.raw("POST " + s + "/input HTTP/1.1\nHost: localhost\n" + allowed + "Content-Length: 1000\n\n")
		go func() {
			for err := error(nil); err == nil; time.Sleep(patience / 10) {
				_, err = conn.Write([]byte(" "))
			}
		}()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if !assert.NoError(t, err) {
			return
		}
		resp.Body.Close()
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		assert.Less(t, time.Since(begin), 5*patience, "drips do not count")
	})
	all.Wait()
}

// A connection whose bodies arrive is used again, however late the next request comes.
func TestReadBodiesKeepTheConnection(t *testing.T) {
	r := newRig(t, func(c *httpapi.Config, _ *sse.Config) { c.BodyTimeout = 100 * time.Millisecond })
	s := r.create("s")
	conn := r.raw("")
	answers := bufio.NewReader(conn)
	for i := range 3 {
		body := fmt.Sprintf(`{"requestId":"%d","text":"x"}`, i)
		_, err := fmt.Fprintf(conn, "POST %s/input HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s",
			s, strings.ReplaceAll(allowed, "\n", "\r\n"), len(body), body)
		require.NoError(t, err)
		resp, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, http.StatusCreated, resp.StatusCode)
		require.False(t, resp.Close)
		time.Sleep(150 * time.Millisecond)
	}
}

// A stream outlives the deadline of a body, one that never came too.
func TestStreamOutlivesTheBodyDeadline(t *testing.T) {
	const patience = 100 * time.Millisecond
	r := newRig(t, func(c *httpapi.Config, s *sse.Config) { c.BodyTimeout, s.KeepAlive = patience, 50*time.Millisecond })
	s := r.create("s")
	conn := r.raw("GET " + s + "/events/stream HTTP/1.1\nHost: localhost\n" + allowed + "Content-Length: 5\n\n")
	answers := bufio.NewReader(conn)
	resp, err := http.ReadResponse(answers, nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	time.Sleep(3 * patience)
	r.input(s, "k", "still there")
	lines := bufio.NewReader(resp.Body)
	for line := ""; !strings.HasPrefix(line, "id: 1"); {
		line, err = lines.ReadString('\n')
		require.NoError(t, err)
	}
	r.drain()
	_, err = io.Copy(io.Discard, lines)
	require.NoError(t, err)
	begin := time.Now()
	_, err = answers.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	require.Less(t, time.Since(begin), 10*patience, "after the stream the body is waited for no longer")
}

// Whoever does not read his answer is cut.
func TestAnswersThatNobodyReads(t *testing.T) {
	r := newRig(t, func(c *httpapi.Config, _ *sse.Config) { c.WriteTimeout = 300 * time.Millisecond })
	s := r.create("s")
	for i := range 5 {
		r.input(s, fmt.Sprint(i), strings.Repeat("x", 900<<10))
	}
	conn := r.raw("")
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	var err error
	begin := time.Now()
	require.NoError(t, conn.SetWriteDeadline(time.Now().Add(10*time.Second)))
	for err == nil { // requests pile up behind an answer that nobody reads, until the server cuts the connection
		_, err = fmt.Fprintf(conn, "GET %s/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", s, ours)
		time.Sleep(10 * time.Millisecond)
	}
	require.Less(t, time.Since(begin), 5*time.Second)
}
