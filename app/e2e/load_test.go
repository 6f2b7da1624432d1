package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tmaxmax/go-sse"
)

// load is clients that post inputs, each again under its key until it is acknowledged, and readers that follow the
// sessions and resume by their cursors. Each session has one of both.
type load struct {
	t    *testing.T
	p    *process
	http *http.Client

	stopped          chan struct{}
	writers, readers sync.WaitGroup
	leave            context.CancelFunc // of the readers

	mu    sync.Mutex
	begun map[string]time.Time // when the last acknowledged input was first sent
	acked map[string][]string  // texts, in order
	seen  map[string][]string  // ids of the frames
}

const (
	loadSessions = 30
	loadPace     = 400 * time.Millisecond
)

// startLoad begins to post and to read, and returns once every session took an input.
func startLoad(t *testing.T, p *process) *load {
	t.Helper()
	l := &load{
		t: t, p: p, http: &http.Client{Timeout: 4 * time.Second}, stopped: make(chan struct{}),
		begun: map[string]time.Time{}, acked: map[string][]string{}, seen: map[string][]string{},
	}
	ctx, leave := context.WithCancel(t.Context())
	l.leave = leave
	began := time.Now()
	for i := range loadSessions {
		id := fmt.Sprint("load", i)
		p.create(fmt.Sprintf(`{"id":%q}`, id))
		l.writers.Go(func() { l.write(id) })
		l.readers.Go(func() { l.read(ctx, id) })
	}
	l.recovered(began)
	return l
}

func (l *load) write(session string) {
	pace := time.NewTicker(loadPace)
	defer pace.Stop()
	for n := 0; ; n++ {
		select {
		case <-l.stopped:
			return
		case <-pace.C:
		}
		text, began := fmt.Sprintf("input %d of %s", n, session), time.Now()
		if !l.insist(session, fmt.Sprintf(`{"text":%q,"requestId":"r%d"}`, text, n)) {
			return
		}
		l.mu.Lock()
		l.begun[session], l.acked[session] = began, append(l.acked[session], text)
		l.mu.Unlock()
	}
}

// insist posts an input until it is acknowledged.
func (l *load) insist(session, body string) bool {
	for deadline := time.Now().Add(40 * time.Second); time.Now().Before(deadline); {
		res, err := l.http.Post(l.p.url+"/v1/sessions/"+session+"/input", "application/json", bytes.NewBufferString(body))
		if err != nil {
			continue // it waited for its time to run out
		}
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode < 300 {
			return true
		}
		if res.StatusCode != http.StatusServiceUnavailable {
			l.t.Errorf("%s: %d %s", session, res.StatusCode, text)
			return false
		}
		time.Sleep(20 * time.Millisecond)
	}
	l.t.Errorf("%s: never acknowledged: %s", session, body)
	return false
}

func (l *load) read(ctx context.Context, session string) {
	for ctx.Err() == nil {
		l.mu.Lock()
		cursor := len(l.seen[session])
		l.mu.Unlock()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/v1/sessions/%s/events/stream?after=%d", l.p.url, session, cursor), nil)
		if err != nil {
			l.t.Error(err)
			return
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			continue
		}
		for e, err := range sse.Read(res.Body, nil) {
			if err != nil {
				break
			}
			if e.LastEventID == "" {
				continue
			}
			l.mu.Lock()
			l.seen[session] = append(l.seen[session], e.LastEventID)
			l.mu.Unlock()
		}
		_ = res.Body.Close()
	}
}

// recovered waits until every session took an input that was first sent after since, and returns how long that took.
func (l *load) recovered(since time.Time) time.Duration {
	l.t.Helper()
	for deadline := time.Now().Add(40 * time.Second); l.waiting(since) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			l.t.Fatalf("%d sessions take no input", l.waiting(since))
		}
	}
	return time.Since(since)
}

func (l *load) waiting(since time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := loadSessions
	for _, begun := range l.begun {
		if begun.After(since) {
			n--
		}
	}
	return n
}

// end stops the writers and checks the ledgers: what was acknowledged and nothing else, in order and once, all of it
// answered, and each reader saw all of it once.
func (l *load) end() {
	l.t.Helper()
	close(l.stopped)
	l.writers.Wait()
	for session, acked := range l.acked {
		events := l.p.rested(session)
		story(l.t, events)
		presentsAll(l.t, events)
		var inputs, seqs []string
		for _, e := range events {
			seqs = append(seqs, fmt.Sprint(e.Seq))
			if e.Kind == "user.message" {
				inputs = append(inputs, e.told(l.t).Text)
			}
		}
		require.Equal(l.t, acked, inputs, session)
		seen := func() []string {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.seen[session]
		}
		require.Eventually(l.t, func() bool { return len(seen()) >= len(events) }, 15*time.Second, 10*time.Millisecond, session)
		require.Equal(l.t, seqs, seen(), session)
	}
	l.leave()
	l.readers.Wait()
}
