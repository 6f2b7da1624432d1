package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tmaxmax/go-sse"

	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
)

// follower is a client that reads one stream after the other, from where the last one ended.
type follower struct {
	session string
	cursor  int64
	seen    []string // frames, in order
	drains  []time.Duration
}

// open opens a stream and returns it without reading any of it.
func (f *follower) open(p *process) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodGet, fmt.Sprintf("%s/v1/sessions/%s/events/stream?after=0", p.url, f.session), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Last-Event-ID", strconv.FormatInt(f.cursor, 10))
	res, err := (&http.Transport{}).RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("status %d", res.StatusCode), res.Body.Close())
	}
	return res, nil
}

var errBeyondDrain = errors.New("something came behind the drain frame")

// read reads the stream to its end, or to the event last.
func (f *follower) read(res *http.Response, last int64) error {
	defer func() { _ = res.Body.Close() }()
	drained := false
	for e, err := range sse.Read(res.Body, &sse.ReadConfig{MaxEventSize: 1 << 20}) {
		switch {
		case err != nil:
			return err
		case drained:
			return errBeyondDrain
		case e.Type == "drain":
			drained = true
			var hint struct {
				Wait int64 `json:"retry_after_ms"`
			}
			if err := json.Unmarshal([]byte(e.Data), &hint); err != nil {
				return err
			}
			f.drains = append(f.drains, time.Duration(hint.Wait)*time.Millisecond)
			continue
		}
		f.seen = append(f.seen, e.LastEventID)
		if f.cursor, err = strconv.ParseInt(e.LastEventID, 10, 64); err != nil {
			return err
		}
		if f.cursor == last {
			return nil
		}
	}
	return nil
}

// scripted is the body of an input with one scripted turn per element.
func scripted(text, request, turns string) string {
	return fmt.Sprintf(`{"text":%q,"requestId":%q,"selection":{"script":[%s]}}`, text, request, turns)
}

// K21: SIGTERM with fifty streams, three active runs, one of them in a long tool, and one in back-off; then
// inputs, new streams and a cancel while the process drains; then the next process, and everybody's return to it.
func TestK21SigtermWithOpenStreams(t *testing.T) {
	t.Parallel()
	for _, kind := range durableStores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			const readers, turns = 50, 20
			store, socket := newStore(t, kind), holdSocket(t, "127.0.0.1:0")
			p := serveOn(t, socket, store, "--drain-grace", "4s")
			p.create(`{"id":"wide"}`)
			for i := range turns {
				p.input("wide", fmt.Sprintf(`{"text":"x","requestId":"w%d"}`, i))
				p.finished("wide", i+1)
			}
			for session, turns := range map[string]string{
				"ends": `{"text":"in time","delayMs":1000}`, "tool": `{"toolCalls":[{"name":"sleep","arguments":{"ms":40000}}]},{"text":"after the tool"}`,
				"cancel": `{"text":"never","delayMs":60000}`, "backoff": `{"error":{"status":529,"message":"busy","retryAfter":4}},{"text":"second try"}`,
			} {
				p.create(fmt.Sprintf(`{"id":%q,"tools":["sleep"]}`, session))
				p.input(session, scripted("go", "r", turns))
			}
			running := func(session string) bool { return p.newest(session)["status"] == "running" }
			p.until("tool", func(es []event) bool { return len(es) == 2 })
			p.until("backoff", func(es []event) bool { return count(es, "run.finished") == 1 })
			eventually(t, "the runs are active", func() bool { return running("ends") && running("cancel") && running("tool") })

			var reading sync.WaitGroup
			var clients []*follower
			follow := func(f *follower) *http.Response {
				clients = append(clients, f)
				res, err := f.open(p)
				require.NoError(t, err)
				return res
			}
			read := func(f *follower, res *http.Response, last int64) {
				reading.Go(func() {
					if err := f.read(res, last); err != nil {
						t.Errorf("%s after %d: %v", f.session, f.cursor, err)
					}
				})
			}
			streams := map[*follower]*http.Response{} // what they hold is not read yet
			for i := range readers {
				f := &follower{session: "wide", cursor: int64(i)}
				streams[f] = follow(f) //nolint:bodyclose // by read
			}
			p.signal(syscall.SIGTERM)
			eventually(t, "it is not ready", func() bool { return p.status("/readyz") == http.StatusServiceUnavailable })
			require.Empty(t, p.done)
			for f, res := range streams {
				read(f, res, 0)
			}
			for i := range 20 {
				session := []string{"wide", "ends", "tool", "backoff"}[i%4]
				a := p.input(session, fmt.Sprintf(`{"text":"late","requestId":"late%d"}`, i))
				require.Equal(t, "true", a.field(t, "created"))
			}
			for i := range 5 {
				f := &follower{session: "wide", cursor: int64(10 * i)}
				res := follow(f) //nolint:bodyclose // by read
				require.NoError(t, f.read(res, 0))
				require.Len(t, f.drains, 1, "a stream that opens now is told at once")
				require.EqualValues(t, 3*turns+5, f.cursor, "after it got what is committed")
			}
			require.Equal(t, http.StatusAccepted, p.call("POST", "/v1/sessions/cancel/cancel", "").status)
			require.Empty(t, p.done, "it still drains")
			p.ended()
			reading.Wait()
			hints := map[time.Duration]bool{}
			for _, f := range clients {
				require.Len(t, f.drains, 1)
				require.EqualValues(t, 3*turns+5, f.cursor, "all that was committed came before the drain frame")
				hints[f.drains[0]] = true
			}
			require.Greater(t, len(hints), readers/2, "the clients do not all return at once")

			p = serveOn(t, socket, store)
			wide := p.all("wide")
			for _, f := range clients {
				res, err := f.open(p) //nolint:bodyclose // by read
				require.NoError(t, err)
				read(f, res, int64(len(wide)))
			}
			reading.Wait()
			for i, f := range clients {
				first := i + 1
				if i >= readers {
					first = 10*(i-readers) + 1
				}
				var want []string
				for seq := first; seq <= len(wide); seq++ {
					want = append(want, fmt.Sprint(seq))
				}
				require.Equal(t, want, f.seen, "every seq once")
			}
			for session, want := range map[string][]string{
				"ends":   {"[1] end_turn: in time"},
				"tool":   {"result 1 interrupted: " + outcomeUnknown, "[1] end_turn: after the tool"},
				"cancel": {"cancelled "}, "backoff": {"failed error ", "end_turn: second try"},
			} {
				events := p.all(session)
				text := story(t, events)
				for _, line := range want {
					require.Contains(t, text, line, session)
				}
				if session != "cancel" {
					presentsAll(t, events)
					require.NotContains(t, text, "aborted")
				}
			}
			require.Equal(t, "failed", p.newest("cancel")["status"])
			require.Equal(t, "cancelled", p.newest("cancel")["reason"])
			presentsAll(t, wide)
			p.stop()
			verify, err := exec.Command(keel, "verify", "--store", store).CombinedOutput()
			require.NoError(t, err, string(verify))
		})
	}
}

const outcomeUnknown = "The call was interrupted and may have had effects; its outcome is unknown."

// K31: what a deploy interrupts is neither answered by half nor cancelled, and the client that posted it or
// listens has no say in it. The backend would need far longer than the grace.
func TestK31SigtermIsNoCancel(t *testing.T) {
	t.Parallel()
	for _, kind := range durableStores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			store, b := newStore(t, kind), openaitest.Start(t)
			env := []string{"OPENAI_BASE_URL=" + b.URL(), "OPENAI_MODEL=test-model"}
			flags := []string{"--provider", "openai", "--drain-grace", "300ms"}
			halves := openaitest.Events(openaitest.Text("Half an ans")).Ending(openaitest.Hang)
			for round := range 6 { // more restarts than a run has attempts
				b.Push(halves)
				p := serve(t, store, env, flags...)
				ctx, leave := context.WithCancel(t.Context())
				if round == 0 {
					p.create(`{"id":"s1"}`)
					p.inputAndLeave("s1")
				}
				eventually(t, "the backend is asked", func() bool { return len(b.Requests()) == round+1 })
				p.stream(ctx, "s1", "after=0")
				leave()
				require.Equal(t, "running", p.newest("s1")["status"], "clients that leave change nothing")
				p.stop()
			}
			b.Push(answered("The whole answer."))
			p := serve(t, store, env, flags...)
			tells(t, p.all("s1"), "input x", "[1] end_turn: The whole answer.", "done end_turn")
			require.EqualValues(t, 1, p.newest("s1")["attempts"], "restarts cost no attempts")
			require.Equal(t, "done", p.newest("s1")["status"])
			p.stop()
		})
	}
}

// K31: SIGTERM and a cancel within a moment. The cancel wins, in whichever order they come.
func TestK31SigtermAndCancel(t *testing.T) {
	t.Parallel()
	for _, kind := range durableStores {
		for _, order := range []string{"term-cancel", "cancel-term"} {
			t.Run(kind+"/"+order, func(t *testing.T) {
				t.Parallel()
				store, b := newStore(t, kind), openaitest.Start(t)
				env := []string{"OPENAI_BASE_URL=" + b.URL(), "OPENAI_MODEL=test-model"}
				flags := []string{"--provider", "openai", "--drain-grace", "300ms"}
				b.Push(openaitest.Events(openaitest.Text("Half an ans")).Ending(openaitest.Hang))
				p := serve(t, store, env, flags...)
				p.create(`{"id":"s1"}`)
				p.input("s1", `{"text":"go","requestId":"r"}`)
				eventually(t, "the backend is asked", func() bool { return len(b.Requests()) == 1 })
				term := func() { p.signal(syscall.SIGTERM) }
				cancel := func() { require.Equal(t, http.StatusAccepted, p.call("POST", "/v1/sessions/s1/cancel", "").status) }
				first, second := term, cancel
				if order == "cancel-term" {
					first, second = cancel, term
				}
				first()
				<-time.After(10 * time.Millisecond)
				second()
				p.ended()
				p = serve(t, store, env, flags...)
				events := p.all("s1")
				require.Equal(t, "cancelled", p.newest("s1")["reason"])
				require.Equal(t, "failed", p.newest("s1")["status"])
				require.Equal(t, 1, count(events, "run.finished"))
				if count(events, "assistant.message") > 0 {
					require.Contains(t, story(t, events), "cancelled aborted")
				} else { // it was handed back before the cancel came; who claimed it then asked nobody
					require.True(t, strings.HasSuffix(story(t, events), "cancelled  cancelled\n"), story(t, events))
				}
				for _, e := range events {
					require.True(t, e.Kind != "assistant.message" || e.told(t).StopReason == "aborted", "the input stays unanswered")
				}
				require.Len(t, b.Requests(), 1, "nothing is tried again")
				p.stop()
			})
		}
	}
}

// K31: the lease is lost while the process is told to end. It writes nothing more, the next owner answers.
func TestK31SigtermAndALostLease(t *testing.T) {
	t.Parallel()
	store, b := newStore(t, "postgres"), openaitest.Start(t)
	env := []string{"OPENAI_BASE_URL=" + b.URL(), "OPENAI_MODEL=test-model"}
	flags := []string{"--provider", "openai", "--lease-ttl", "1s", "--heartbeat", "300ms"}
	b.Push(openaitest.Events(openaitest.Text("Half an ans")).Ending(openaitest.Hang), answered("By the second."))
	first := serve(t, store, env, flags...)
	first.create(`{"id":"s1"}`)
	first.input("s1", `{"text":"go","requestId":"r"}`)
	eventually(t, "the backend is asked", func() bool { return len(b.Requests()) == 1 })
	second := serve(t, store, env, flags...)
	first.signal(syscall.SIGSTOP)
	events := second.finished("s1", 1)
	first.signal(syscall.SIGTERM)
	first.signal(syscall.SIGCONT)
	first.ended()
	require.Equal(t, events, second.all("s1"), "it wrote nothing")
	tells(t, events, "input go", "[1] end_turn: By the second.", "done end_turn")
	second.stop()
}

// inputAndLeave submits an input on a connection of its own and closes it behind the answer.
func (p *process) inputAndLeave(session string) {
	p.t.Helper()
	conn, err := dial(strings.TrimPrefix(p.url, "http://"))
	require.NoError(p.t, err)
	_, err = conn.input(session, 0)
	require.NoError(p.t, err)
	conn.close()
}
