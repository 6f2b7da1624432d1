package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
)

// The measured stream of protocol.md §7: one input to the fake provider gives exactly three events.
func TestMeasuredStream(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		p := serve(t, store, nil, "--provider", "fake")
		p.create(`{"id":"s1"}`)
		frames := p.stream(t.Context(), "s1", "after=0")
		p.input("s1", `{"text":"hello keel","requestId":"9e5088a0-0000-7000-8000-000000000001"}`)
		events := p.finished("s1", 1)
		golden(t, "measured", normal(events))
		for i := range events {
			f := <-frames
			require.Equal(t, fmt.Sprint(i+1), f.LastEventID)
			var e event
			require.NoError(t, json.Unmarshal([]byte(f.Data), &e))
			require.Equal(t, events[i], e)
		}
		p.stop()
		drain, open := <-frames
		require.True(t, open)
		drainHint(t, drain)
		_, open = <-frames
		require.False(t, open, "the stream ends after the drain frame")
	})
}

// drainHint wants e to be a drain frame and returns how long it says to wait.
func drainHint(t *testing.T, e sseEvent) time.Duration {
	t.Helper()
	require.Equal(t, "drain", e.Type)
	var hint struct {
		Wait int64 `json:"retry_after_ms"`
	}
	require.NoError(t, json.Unmarshal([]byte(e.Data), &hint))
	wait := time.Duration(hint.Wait) * time.Millisecond
	require.GreaterOrEqual(t, wait, 1500*time.Millisecond)
	require.Less(t, wait, 4500*time.Millisecond)
	return wait
}

// backend starts a local OpenAI-compatible server and a keel process that uses it.
func backend(t *testing.T, store string) (*openaitest.Server, *process) {
	t.Helper()
	b := openaitest.Start(t)
	p := serve(t, store, []string{"OPENAI_BASE_URL=" + b.URL(), "OPENAI_API_KEY=sk-test", "OPENAI_MODEL=test-model"}, "--provider", "openai")
	return b, p
}

func answered(text string) openaitest.Response {
	return openaitest.Stream(openaitest.Text(text), openaitest.Finish("stop"), openaitest.Usage(10, 2))
}

func TestTextFromABackend(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		b, p := backend(t, store)
		b.Push(openaitest.Stream(openaitest.Text("Hello"), openaitest.Text(" world."), openaitest.Finish("stop"), openaitest.Usage(12, 3)))
		p.create(`{"id":"s1","system":"Be brief."}`)
		p.input("s1", `{"text":"hi","requestId":"r1"}`)
		golden(t, "text", normal(p.finished("s1", 1)))
		require.Contains(t, string(b.Requests()[0].Body), `"Be brief."`)
		p.stop()
	})
}

// Two parallel calls arrive interleaved; a guide and a queued input arrive while their tools run.
func TestToolsGuideAndQueue(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		b, p := backend(t, store)
		b.Push(
			openaitest.Stream(
				openaitest.CallHead(0, "call_a", "sleep"), openaitest.CallHead(1, "call_b", "calculator"),
				openaitest.CallArguments(0, `{"ms":`), openaitest.CallArguments(1, `{"expression":"6*`),
				openaitest.CallArguments(0, `700}`), openaitest.CallArguments(1, `7"}`), openaitest.Finish("tool_calls"),
			),
			answered("It is 42."), answered("Queued answer."),
		)
		p.create(`{"id":"s1","tools":["calculator","sleep"]}`)
		p.input("s1", `{"text":"compute","requestId":"r1"}`)
		p.until("s1", func(es []event) bool { return count(es, "tool.result") == 1 })
		g := p.input("s1", `{"text":"be nice","requestId":"g1","delivery":"guide"}`)
		require.Equal(t, "guide", g.field(t, "delivery"))
		p.input("s1", `{"text":"next","requestId":"r2"}`)
		golden(t, "tools", normal(p.finished("s1", 2)))
		messages := string(b.Requests()[1].Body)
		require.Contains(t, messages, "be nice")
		require.NotContains(t, messages, "next")
		require.Less(t, strings.LastIndex(messages, `"role":"tool"`), strings.Index(messages, "be nice"), "a guide comes after all results")
		p.stop()
	})
}

// An error in the middle of a stream fails the attempt; the retry succeeds and shows nothing of it (K03, K20).
func TestErrorMidStreamThenSuccess(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		b, p := backend(t, store)
		gate := make(chan struct{})
		broken := openaitest.Events(openaitest.Text("First we open th"))
		broken.Steps = append(broken.Steps, openaitest.Step{
			Until: gate, Write: openaitest.Event(openaitest.Fault("upstream at capacity", "overloaded")),
		})
		b.Push(broken, answered("First we open the door."))
		p.create(`{"id":"s1"}`)
		frames := p.stream(t.Context(), "s1", "after=0&partials=1")
		p.input("s1", `{"text":"how?","requestId":"r1"}`)
		first := nextPartial(t, frames)
		require.Equal(t, "First we open th", first.Delta.Text)
		close(gate)
		events := p.finished("s1", 2)
		golden(t, "retry", normal(events))
		require.NotContains(t, string(b.Requests()[1].Body), "First we open")
		second := nextPartial(t, frames)
		for second.Delta.End != "" {
			require.Equal(t, first.GenerationID, second.GenerationID, "the end of the first attempt is visible")
			second = nextPartial(t, frames)
		}
		require.NotEqual(t, first.GenerationID, second.GenerationID)
		require.Equal(t, []int{1, 2}, []int{first.Attempt, second.Attempt})
		p.stop()
	})
}

type partial struct {
	GenerationID string
	RunID        string
	Attempt      int
	Delta        struct{ Text, End string }
}

func nextPartial(t *testing.T, frames <-chan sseEvent) partial {
	t.Helper()
	for {
		select {
		case f, open := <-frames:
			require.True(t, open, "the stream ended")
			if f.Type != "partial" {
				continue
			}
			var p partial
			require.NoError(t, json.Unmarshal([]byte(f.Data), &p))
			return p
		case <-time.After(20 * time.Second):
			t.Fatal("no partial came")
		}
	}
}

// Input is accepted while a tool runs across a restart, and the next process answers everything (K08 B, K31).
func TestRestartLosesNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "postgres"} {
		for name, end := range map[string]func(*process){"kill": (*process).kill, "drain": (*process).stop} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				store := newStore(t, kind)
				flags := []string{"--provider", "fake", "--lease-ttl", "1s", "--heartbeat", "300ms", "--drain-grace", "100ms"}
				first := serve(t, store, nil, flags...)
				first.create(`{"id":"s1","tools":["sleep"]}`)
				first.input("s1", `{"text":"go","requestId":"r1","selection":{"script":[
					{"toolCalls":[{"name":"sleep","arguments":{"ms":60000}}]},{"text":"done"}]}}`)
				first.until("s1", func(es []event) bool { return count(es, "assistant.message") == 1 })
				first.input("s1", `{"text":"typed meanwhile","requestId":"r2"}`)
				end(first)
				second := serve(t, store, nil, flags...)
				events := second.finished("s1", 2)
				golden(t, "restart", normal(events))
				second.stop()
			})
		}
	}
}

// K15 1: one key, twenty requests at once: one submission.
func TestOneKeyIsOneSubmission(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		p := serve(t, store, nil, "--provider", "fake")
		p.create(`{"id":"s1"}`)
		answers := make(chan answer, 20)
		for range 20 {
			go func() {
				a, err := p.try("POST", "/v1/sessions/s1/input", `{"requestId":"R","text":"hi"}`)
				if err != nil {
					a.body = err.Error()
				}
				answers <- a
			}()
		}
		created, runs := 0, map[string]bool{}
		for range 20 {
			a := <-answers
			require.Contains(t, []int{http.StatusOK, http.StatusCreated}, a.status, a.body)
			if a.status == http.StatusCreated {
				created++
			}
			require.Equal(t, "1", a.field(t, "seq"))
			runs[a.field(t, "run", "id")] = true
		}
		require.Equal(t, 1, created)
		require.Len(t, runs, 1)
		golden(t, "onekey", normal(p.finished("s1", 1)))
		conflict := p.call("POST", "/v1/sessions/s1/input", `{"requestId":"R","text":"bye"}`)
		require.Equal(t, http.StatusConflict, conflict.status)
		require.Equal(t, "idempotency_conflict", conflict.field(t, "code"))
		p.stop()
	})
}

// A cancelled run leaves well-formed history; the next input is answered (K08 A).
func TestCancelThenGoOn(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		p := serve(t, store, nil, "--provider", "fake")
		p.create(`{"id":"s1","tools":["sleep"]}`)
		p.input("s1", `{"text":"go","requestId":"r1","selection":{"script":[
			{"toolCalls":[{"name":"sleep","arguments":{"ms":60000,"ignoreCancel":true}},{"name":"sleep","arguments":{"ms":1}}]}]}}`)
		p.until("s1", func(es []event) bool { return count(es, "tool.result") == 1 })
		began := time.Now()
		require.Equal(t, http.StatusAccepted, p.call("POST", "/v1/sessions/s1/cancel", `{}`).status)
		p.finished("s1", 1)
		require.Less(t, time.Since(began), 10*time.Second)
		p.input("s1", `{"text":"never mind","requestId":"r2"}`)
		golden(t, "cancel", normal(p.finished("s1", 2)))
		p.stop()
	})
}

func TestStreamsResumeAtEveryCursor(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		p := serve(t, store, nil, "--provider", "fake")
		p.create(`{"id":"s1"}`)
		for i := range 5 {
			p.input("s1", fmt.Sprintf(`{"text":"n%d","requestId":"r%d"}`, i, i))
			p.finished("s1", i+1)
		}
		head := len(p.events("s1"))
		for after := range head {
			ctx, cancel := context.WithCancel(t.Context())
			frames := p.stream(ctx, "s1", fmt.Sprintf("after=%d", after))
			for want := after + 1; want <= head; want++ {
				require.Equal(t, fmt.Sprint(want), (<-frames).LastEventID)
			}
			cancel()
		}
		require.Equal(t, http.StatusBadRequest, p.call("GET", fmt.Sprintf("/v1/sessions/s1/events/stream?after=%d", head+1), "").status)
		p.stop()
	})
}
