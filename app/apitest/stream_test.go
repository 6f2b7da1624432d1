package apitest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/httpapi"
	"github.com/keel-agent/keel/adapters/sse"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

const drainData = `{"retry_after_ms":3000}`

// ledger writes n events into a new session.
func (r *rig) ledger(id string, n int) string {
	s := r.create(id)
	for i := range n {
		a := r.do(r.request(http.MethodPost, s+"/input", fmt.Sprintf(`{"requestId":"%d","text":"<%d>\u2028\r\n"}`, i, i)))
		require.Equal(r.t, http.StatusCreated, a.status)
	}
	return s
}

func TestStreamResumesAtEveryCursor(t *testing.T) {
	r := newRig(t)
	const n = 40
	s := r.ledger("s", n)
	page := r.get(s + "/events").raw
	for after := range n + 1 {
		byQuery := r.stream(fmt.Sprintf("%s/events/stream?after=%d", s, after), "")
		byHeader := r.stream(s+"/events/stream?after=999&partials=1", fmt.Sprint(after))
		for _, f := range []*frames{byQuery, byHeader} {
			for seq := after + 1; seq <= n; seq++ {
				got := f.next()
				require.Equal(t, fmt.Sprint(seq), got.id)
				require.Empty(t, got.event)
				require.Contains(t, page, got.data, "the same bytes as in the snapshot")
			}
		}
		if after == n {
			r.input(s, "last", "live")
			require.Equal(t, fmt.Sprint(n+1), byQuery.next().id)
			require.Equal(t, fmt.Sprint(n+1), byHeader.next().id)
		}
		byQuery.close()
		byHeader.close()
	}
	for _, id := range []string{"-1", "x", "1 2", "99999999999999999999"} {
		req := r.request(http.MethodGet, s+"/events/stream?after=0", "")
		req.Header.Set("Last-Event-ID", id)
		a := r.do(req)
		require.Equal(t, http.StatusBadRequest, a.status, id)
		require.Equal(t, "invalid_cursor", a.code())
	}
	req := r.request(http.MethodGet, s+"/events/stream", "")
	req.Header.Set("Last-Event-ID", "100")
	a := r.do(req)
	require.Equal(t, "cursor_ahead", a.code())
	require.Equal(t, n+1, a.number("head"))
}

func TestStreamHeaders(t *testing.T) {
	r := newRig(t)
	f := r.stream(r.create("s")+"/events/stream", "")
	require.Equal(t, "no-store, no-transform", f.resp.Header.Get("Cache-Control"))
	require.Equal(t, "no", f.resp.Header.Get("X-Accel-Buffering"))
	require.Empty(t, f.resp.Header.Get("Content-Encoding"))
	f.close()
	<-r.ended
}

// One input, streamed: exactly three events.
func TestStreamOfOneTurn(t *testing.T) {
	r := newRig(t)
	s := r.create("s")
	f := r.stream(s+"/events/stream", "")
	r.input(s, "R", "hello keel")
	a := r.worker("p").claim()
	a.say("g", "hello", 1)
	a.settle(domain.Success)
	for seq, kind := range []string{"user.message", "assistant.message", "run.finished"} {
		got := f.next()
		require.Equal(t, fmt.Sprint(seq+1), got.id)
		require.Contains(t, got.data, fmt.Sprintf(`{"seq":%d,"kind":%q,"payload":{`, seq+1, kind))
	}
	r.drain()
	require.Equal(t, frame{event: "drain", data: drainData}, f.next())
	f.end()
}

// K21: streams end with what is committed, then the drain frame; new ones too.
func TestDrain(t *testing.T) {
	r := newRig(t)
	const n = 50
	s := r.ledger("s", n)
	var open []*frames
	for after := range n + 1 {
		open = append(open, r.stream(s+"/events/stream", fmt.Sprint(after)))
	}
	r.stop()
	r.input(s, "late", "during the drain")
	r.drain()
	open = append(open, r.stream(s+"/events/stream?after=20", ""))
	for i, f := range open {
		after := i
		if i == n+1 {
			after = 20
		}
		for seq := after + 1; seq <= n+1; seq++ {
			require.Equal(t, fmt.Sprint(seq), f.next().id)
		}
		require.Equal(t, frame{event: "drain", data: drainData}, f.next())
		f.end()
		<-r.ended
	}
}

// K20: partials beside the ledger.
func TestPartials(t *testing.T) {
	r := newRig(t)
	s := r.create("s")
	ref := domain.SessionRef{Tenant: "ours", Session: "s"}
	with, without := r.stream(s+"/events/stream?partials=1", ""), r.stream(s+"/events/stream", "")
	r.input(s, "R", "story")
	require.Equal(t, "1", with.next().id)
	w := r.worker("p1")
	first := w.claim()
	emit := func(a *attempt, generation, text string, end string) {
		r.partials.Publish(ports.Partial{
			Ref: ref, GenerationID: generation, Run: a.run, Attempt: a.number, Epoch: a.token.Epoch, Delta: ports.Delta{Text: text, End: end},
		})
	}
	emit(first, "g1", "First we open th", "")
	require.Equal(t, frame{event: "partial", data: fmt.Sprintf(`{"generationId":"g1","runId":%q,"attempt":1,"delta":{"text":"First we open th"}}`, first.run)}, with.next())
	emit(first, "g1", "", "failed")
	require.Contains(t, with.next().data, `"delta":{"end":"failed"}`)
	first.settle(domain.Failure)
	require.Equal(t, "2", with.next().id)

	r.clock.advance(time.Hour)
	second := w.claim()
	emit(second, "g2", "First <we>\n", "")
	require.Equal(t, frame{event: "partial", data: fmt.Sprintf(`{"generationId":"g2","runId":%q,"attempt":2,"delta":{"text":"First <we>\n"}}`, second.run)}, with.next())
	emit(first, "g1", "late frame of the fenced attempt", "")
	second.say("g2", "First we open the door.", 1)
	require.Equal(t, "3", with.next().id)
	emit(second, "g2", "late frame of a message that landed", "")
	emit(second, "g3", "next", "")
	require.Contains(t, with.next().data, `"generationId":"g3"`)
	second.settle(domain.Success)
	require.Equal(t, "4", with.next().id)

	again := r.stream(s+"/events/stream?partials=1", "2")
	require.Equal(t, "3", again.next().id)
	require.Equal(t, "4", again.next().id)
	r.drain()
	require.Equal(t, "drain", again.next().event, "partials are not replayed")
	for seq := 1; seq <= 4; seq++ {
		require.Equal(t, fmt.Sprint(seq), without.next().id)
	}
	require.Equal(t, "drain", without.next().event)
	without.end()
}

// narrow opens a stream on a connection of its own, with a receive buffer of that size, and returns it past the status.
func (r *rig) narrow(session string, buffer int) net.Conn {
	r.t.Helper()
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, buffer)
		})
		return errors.Join(err, failed)
	}}
	conn, err := dialer.DialContext(r.t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "GET %s/events/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", session, ours)
	require.NoError(r.t, err)
	status, err := bufio.NewReaderSize(conn, 16).ReadString('\n')
	require.NoError(r.t, err)
	require.Contains(r.t, status, "200")
	return conn
}

// K19: a reader that takes 20 KB/s of events of 600 KB through a receive buffer of 8 KiB is not cut, though each piece
// takes longer than a reader that takes nothing is given; it is once it stops.
func TestSlowReadersAreNotCut(t *testing.T) {
	const limit = time.Second
	r := newRig(t, func(_ *httpapi.Config, c *sse.Config) { c.WriteTimeout = limit })
	s := r.create("s")
	for i := range 12 {
		r.do(r.request(http.MethodPost, s+"/input", fmt.Sprintf(`{"requestId":"%d","text":%q}`, i, strings.Repeat("x", 600<<10))))
	}
	conn := r.narrow(s, 8<<10)
	b := make([]byte, 4<<10)
	for began := time.Now(); time.Since(began) < 5*limit; time.Sleep(200 * time.Millisecond) {
		_, err := conn.Read(b)
		require.NoError(t, err)
	}
	require.Empty(t, r.ended, "it reads")
	stopped := time.Now()
	<-r.ended
	require.Less(t, time.Since(stopped), 3*limit)
}

// K19: readers that stop reading are cut; one that reads sees no delay.
func TestStalledReadersAreCut(t *testing.T) {
	r := newRig(t, func(_ *httpapi.Config, c *sse.Config) { c.WriteTimeout = 300 * time.Millisecond })
	s := r.create("s")
	const stalled, events, size = 10, 24, 500 << 10
	for range stalled {
		r.narrow(s, 4<<10)
	}
	healthy := r.stream(s+"/events/stream", "")
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range events {
			r.do(r.request(http.MethodPost, s+"/input", fmt.Sprintf(`{"requestId":"%d","text":%q}`, i, strings.Repeat("x", size))))
		}
	})
	for seq := range events {
		require.Equal(t, fmt.Sprint(seq+1), healthy.next().id)
	}
	writing.Wait()
	for range stalled {
		<-r.ended
	}
	require.Equal(t, fmt.Sprint(events), r.stream(s+"/events/stream", fmt.Sprint(events-1)).next().id, "a cut client resumes by cursor")
}

// Streams come and go without leaving anything behind; goleak looks at the end.
func TestStreamsComeAndGo(t *testing.T) {
	r := newRig(t)
	s := r.ledger("s", 3)
	for range 100 {
		f := r.stream(s+"/events/stream?partials=1", "")
		f.next()
		f.close()
		<-r.ended
	}
}
