package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tmaxmax/go-sse"
)

// answer is a response of the API.
type answer struct {
	status int
	body   string
}

// field returns a member of the response as text; path elements go down into objects.
func (a answer) field(t *testing.T, path ...string) string {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewBufferString(a.body))
	d.UseNumber()
	require.NoError(t, d.Decode(&v), a.body)
	for _, name := range path {
		o, ok := v.(map[string]any)
		require.True(t, ok, a.body)
		v = o[name]
	}
	return fmt.Sprint(v)
}

// into decodes a page of the API.
func (a answer) into(t *testing.T, v any) {
	t.Helper()
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.NoError(t, json.Unmarshal([]byte(a.body), v))
}

func (p *process) call(method, path, body string) answer {
	p.t.Helper()
	a, err := p.try(method, path, body)
	require.NoError(p.t, err)
	return a
}

func (p *process) try(method, path, body string) (answer, error) {
	req, err := http.NewRequest(method, p.url+path, bytes.NewBufferString(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, string(text)}, err
}

func (p *process) create(body string) {
	p.t.Helper()
	a := p.call("POST", "/v1/sessions", body)
	require.Equal(p.t, http.StatusCreated, a.status, a.body)
}

func (p *process) input(session, body string) answer {
	p.t.Helper()
	a := p.call("POST", "/v1/sessions/"+session+"/input", body)
	require.Equal(p.t, http.StatusCreated, a.status, a.body)
	return a
}

// event is an event as a client sees it.
type event struct {
	Seq     int64           `json:"seq"`
	Kind    string          `json:"kind"`
	Payload json.RawMessage `json:"payload"`
}

func (p *process) events(session string) []event {
	p.t.Helper()
	var all []event
	for {
		var page struct {
			Events  []event `json:"events"`
			HasMore bool    `json:"hasMore"`
		}
		p.call("GET", fmt.Sprintf("/v1/sessions/%s/events?after=%d&limit=1000", session, len(all)), "").into(p.t, &page)
		if all = append(all, page.Events...); !page.HasMore {
			return all
		}
	}
}

// until waits until the session has an event that pred accepts, and returns the ledger.
func (p *process) until(session string, pred func([]event) bool) []event {
	p.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		events := p.events(session)
		if pred(events) {
			return events
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("it never happened; ledger:\n%s", normal(events))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// finished waits for the n-th run.finished.
func (p *process) finished(session string, n int) []event {
	p.t.Helper()
	return p.until(session, func(es []event) bool { return count(es, "run.finished") >= n })
}

func count(es []event, kind string) int {
	n := 0
	for _, e := range es {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// stream opens an event stream and sends its frames until it ends.
func (p *process) stream(ctx context.Context, session, query string) <-chan sse.Event {
	p.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/v1/sessions/"+session+"/events/stream?"+query, nil)
	require.NoError(p.t, err)
	res, err := http.DefaultClient.Do(req) //nolint:bodyclose // by the goroutine below
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusOK, res.StatusCode)
	frames := make(chan sse.Event, 1000)
	go func() {
		defer close(frames)
		defer func() { _ = res.Body.Close() }()
		for e, err := range sse.Read(res.Body, &sse.ReadConfig{MaxEventSize: 1 << 22}) {
			if err != nil {
				return
			}
			select {
			case frames <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	return frames
}

var (
	uuids     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	callIDs   = regexp.MustCompile(`call_[0-9a-f]{32}`)
	durations = regexp.MustCompile(`"durationMs":\d+`)
)

// normal returns the ledger as text in which ids are numbered by first appearance and durations are 0.
func normal(events []event) string {
	var b bytes.Buffer
	for _, e := range events {
		fmt.Fprintf(&b, "%d %s %s\n", e.Seq, e.Kind, e.Payload)
	}
	text := numbered(b.String(), uuids, "<id-%d>")
	text = numbered(text, callIDs, "<call-%d>")
	return durations.ReplaceAllString(text, `"durationMs":0`)
}

func numbered(text string, ids *regexp.Regexp, format string) string {
	seen := map[string]string{}
	return ids.ReplaceAllStringFunc(text, func(id string) string {
		if seen[id] == "" {
			seen[id] = fmt.Sprintf(format, len(seen)+1)
		}
		return seen[id]
	})
}

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares text with testdata/name.golden, the same for every store.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

type sseEvent = sse.Event
