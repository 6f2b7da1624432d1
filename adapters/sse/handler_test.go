package sse_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/sse"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

const (
	keepAlive = ": keep-alive\n\n"
	drained   = "event: drain\ndata: {\"retry_after_ms\":3000}\n\n"
)

func TestIdleStreamOutlivesServerTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		s := serve(t, l.handler(t, nil), 0)
		conn, body := s.open("")
		begin := time.Now()
		for i := range 4 {
			expect(t, body, keepAlive)
			require.Equal(t, time.Duration(i+1)*15*time.Second, time.Since(begin))
		}
		l.commit(1, 3)
		l.wake <- struct{}{}
		expect(t, body, event(1, 3))
		require.Equal(t, time.Minute, time.Since(begin), "at once")
		<-time.After(14 * time.Second)
		l.commit(1, 3)
		l.wake <- struct{}{}
		expect(t, body, event(2, 3))
		at := time.Now()
		expect(t, body, keepAlive)
		require.Equal(t, 15*time.Second, time.Since(at), "silence counts from the last frame")
		conn.Close()
		s.over()
		require.Zero(t, l.held())
	})
}

func TestLostWakeup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		s := serve(t, l.handler(t, nil), 0)
		conn, body := s.open("")
		synctest.Wait()
		begin := time.Now()
		l.commit(1, 3)
		expect(t, body, event(1, 3))
		require.LessOrEqual(t, time.Since(begin), 5*time.Second)
		conn.Close()
		s.over()
	})
}

// An event that is committed between the check of the cursor and the first read is neither lost nor late.
func TestSubscribesBeforeItLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		l.onCheck = func() {
			require.Equal(t, 1, l.held())
			l.commit(1, 3)
			l.wake <- struct{}{}
		}
		s := serve(t, l.handler(t, nil), 0)
		begin := time.Now()
		conn, body := s.open("")
		expect(t, body, event(1, 3))
		require.Zero(t, time.Since(begin))
		conn.Close()
		s.over()
	})
}

func TestStalledClientIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		l.commit(40, 100<<10)
		s := serve(t, l.handler(t, nil), 0)
		begin := time.Now()
		_, body := s.open("")
		expect(t, body, event(1, 100<<10))
		s.over()
		require.Equal(t, 10*time.Second, time.Since(begin))
		require.Zero(t, l.held())
		require.Less(t, l.reads, 5, "what waits for a client is bounded")
	})
}

// A client that reads slowly but steadily is never cut, however large a frame is.
func TestSlowClientIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		l.commit(2, 200<<10)
		s := serve(t, l.handler(t, nil), 0)
		conn, body := s.open("")
		want := event(1, 200<<10) + event(2, 200<<10)
		for len(want) > 0 {
			n := min(len(want), 4<<10)
			expect(t, body, want[:n])
			want = want[n:]
			<-time.After(time.Second)
		}
		conn.Close()
		s.over()
	})
}

func TestStoreOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		l.commit(1, 3)
		s := serve(t, l.handler(t, nil), 0)
		conn, body := s.open("")
		expect(t, body, event(1, 3))
		synctest.Wait()
		l.fail(ports.ErrUnavailable)
		l.commit(1, 3)
		l.wake <- struct{}{}
		synctest.Wait()
		l.fail(nil)
		expect(t, body, event(2, 3))
		synctest.Wait()
		l.fail(errors.New("broken"))
		begin := time.Now()
		l.wake <- struct{}{}
		_, err := body.ReadByte()
		require.Equal(t, io.EOF, err)
		require.Zero(t, time.Since(begin), "before any sweep")
		s.over()
		conn.Close()
	})
}

func TestDrainSendsWhatIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		drain := make(chan struct{})
		s := serve(t, l.handler(t, drain), 0)
		_, body := s.open("")
		synctest.Wait()
		l.commit(600, 10)
		close(drain)
		for n := 1; n <= 600; n++ {
			expect(t, body, event(n, 10))
		}
		expect(t, body, drained)
		_, err := body.ReadByte()
		require.Equal(t, io.EOF, err)
		s.over()

		_, body = s.open("?partials")
		for n := 1; n <= 600; n++ {
			expect(t, body, event(n, 10))
		}
		expect(t, body, drained)
		s.over()
	})
}

// While attempts still end, streams that were open go on; one that opens gets what is committed and leaves at once.
func TestStreamsThatOpenDuringADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		l.commit(1, 3)
		draining, drain := make(chan struct{}), make(chan struct{})
		s := serve(t, sse.New(sse.Config{Source: l.newHub(t), Draining: draining, Drain: drain}), 0)
		_, before := s.open("")
		expect(t, before, event(1, 3))
		close(draining)
		_, during := s.open("")
		expect(t, during, event(1, 3)+drained)
		_, err := during.ReadByte()
		require.Equal(t, io.EOF, err)
		s.over()
		l.commit(1, 3)
		l.wake <- struct{}{}
		expect(t, before, event(2, 3))
		close(drain)
		expect(t, before, drained)
		s.over()
	})
}

func TestTheReturnAfterADrainIsSpread(t *testing.T) {
	for jitter, want := range map[float64]string{0: "1500", 0.5: "3000", 0.999: "4497"} {
		synctest.Test(t, func(t *testing.T) {
			l := newLedger()
			drain := make(chan struct{})
			close(drain)
			s := serve(t, sse.New(sse.Config{Source: l.newHub(t), Drain: drain, Jitter: func() float64 { return jitter }}), 0)
			_, body := s.open("")
			expect(t, body, "event: drain\ndata: {\"retry_after_ms\":"+want+"}\n\n")
			s.over()
		})
	}
}

func TestPartialsAreFiltered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		l.commit(1, 3)
		s := serve(t, l.handler(t, nil), 0)
		conn, body := s.open("?partials")
		expect(t, body, event(1, 3))
		send := func(generation string, epoch int64, text string) {
			l.frames <- ports.Partial{Ref: ref, GenerationID: generation, Run: "r", Attempt: 1, Epoch: epoch, Delta: ports.Delta{Text: text}}
		}
		send("g1", 4, "a\nb<>")
		expect(t, body, "event: partial\ndata: {\"generationId\":\"g1\",\"runId\":\"r\",\"attempt\":1,\"delta\":{\"text\":\"a\\nb<>\"}}\n\n")
		send("g2", 5, "b")
		send("g1", 4, "fenced")
		send("g2", 5, "c")
		partial := func(text string) string {
			return "event: partial\ndata: {\"generationId\":\"g2\",\"runId\":\"r\",\"attempt\":1,\"delta\":{\"text\":\"" + text + "\"}}\n\n"
		}
		expect(t, body, partial("b")+partial("c"))
		for range 200 {
			send("g2", 5, "many")
		}
		for range 200 {
			expect(t, body, partial("many"))
		}
		conn.Close()
		s.over()
		require.Zero(t, l.held())
	})
}

func TestRefusalsLeaveTheAnswerUntouched(t *testing.T) {
	l := newLedger()
	h := l.handler(t, nil)
	w := httptest.NewRecorder()
	err := h.Serve(w, httptest.NewRequest(http.MethodGet, "/", nil), ref, 1, false)
	require.ErrorIs(t, err, domain.ErrCursorAhead)
	require.Error(t, h.Serve(w, httptest.NewRequest(http.MethodGet, "/", nil), ref, 0, false), "a writer without deadlines could hang for ever")
	require.False(t, w.Flushed)
	require.Empty(t, w.Header())
	require.Zero(t, l.held())
}

// What a handler does after a stream has no deadline of the stream's.
func TestTheDeadlineEndsWithTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		drain := make(chan struct{})
		h := l.handler(t, drain)
		s := serveWith(t, func(w http.ResponseWriter, r *http.Request) {
			_ = h.Serve(w, r, ref, 0, false)
			<-time.After(time.Minute)
			_, _ = io.WriteString(w, "after")
		})
		_, body := s.open("")
		close(drain)
		expect(t, body, drained+"after")
	})
}

// Over HTTP/2 a write deadline that is left behind resets an idle stream.
func TestIdleStreamOverHTTP2(t *testing.T) {
	l := newLedger()
	h := sse.New(sse.Config{Source: l.newHub(t), KeepAlive: 100 * time.Millisecond, WriteTimeout: 50 * time.Millisecond})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = h.Serve(w, r, ref, 0, false) }))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	resp, err := server.Client().Get(server.URL)
	require.NoError(t, err)
	require.Equal(t, 2, resp.ProtoMajor)
	expect(t, resp.Body, keepAlive+keepAlive+keepAlive)
	resp.Body.Close()
}

// A ledger that shows a gap must not become a stream that hides it.
func TestGapEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		l.commit(3, 3)
		l.events[1].Seq = 3
		s := serve(t, l.handler(t, nil), 0)
		_, body := s.open("")
		rest, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Empty(t, rest)
		s.over()
	})
}
