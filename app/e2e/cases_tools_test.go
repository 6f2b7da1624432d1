package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
)

// sleeping is an answer with one call of sleep per argument.
func sleeping(arguments ...string) openaitest.Response {
	var chunks []string
	for i, a := range arguments {
		chunks = append(chunks, openaitest.CallHead(i, fmt.Sprint("c", i+1), "sleep"), openaitest.CallArguments(i, a))
	}
	return openaitest.Stream(append(chunks, openaitest.Finish("tool_calls"))...)
}

func results(n int) func([]event) bool {
	return func(es []event) bool { return count(es, "tool.result") >= n }
}

// lost is what a call is answered with whose process died.
const lost = "The call was interrupted and may have had effects; its outcome is unknown."

// K08, variants A and C: a cancel while a tool runs that does not listen, and ends late.
func TestK08CancelWithALateTool(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		onEachWire(t, store, func(t *testing.T, w onWire) {
			const quick, late = `sleep{"ms":0}`, `sleep{"ms":1500,"ignoreCancel":true}`
			const interrupted = "The call was interrupted: the user cancelled."
			w.push(w.answer("tool_use", calls("c1", "sleep", `{"ms":0}`), calls("c2", "sleep", `{"ms":1500,"ignoreCancel":true}`)), w.ends("a.txt"))
			s := w.session("s1", `"tools":["sleep"]`)
			w.say(s, "build it")
			w.until(s, results(1))
			began := time.Now()
			run := w.newest(s)["id"]
			require.Equal(t, http.StatusAccepted, w.call("POST", "/v1/sessions/"+s+"/cancel", `{}`).status)
			w.rested(s)
			cancelled := w.newest(s)
			require.Equal(t, []any{run, "failed", "cancelled"}, []any{cancelled["id"], cancelled["status"], cancelled["reason"]})
			next := w.say(s, "never mind, list files")
			require.NotEqual(t, run, next.field(t, "run", "id"), "a run of its own")
			want := []string{
				"input build it", "[1] tool_use: " + quick + " | " + late, "result 1: waited 0 ms", "result 2 interrupted: " + interrupted, "cancelled aborted",
				"input never mind, list files", "[6] end_turn: a.txt", "done end_turn",
			}
			tells(t, w.rested(s), want...)
			require.Equal(t, []string{
				"user: build it", "assistant: " + quick + " " + late, "tool: waited 0 ms", "tool: " + interrupted, "user: never mind, list files",
			}, w.requested(1))
			if rest := 1700*time.Millisecond - time.Since(began); rest > 0 {
				time.Sleep(rest)
			}
			tells(t, w.events(s), want...)
		})
	})
}

// K08, variant B: the process is killed; the next one goes on with the same turns.
func TestK08KillWithAnOpenCall(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			store := newStore(t, kind)
			backends, env := startBackends(t)
			flags := []string{"--provider", chatWire, "--lease-ttl", "1s", "--heartbeat", "300ms"}
			first := serve(t, store, env, flags...)
			sessions := map[string]string{}
			for _, each := range wires {
				w := each.on(t, first, backends)
				w.push(w.answer("tool_use", calls("c1", "sleep", `{"ms":60000}`), calls("c2", "sleep", `{"ms":0}`)), w.ends("It is built."), w.ends("a.txt"))
				sessions[w.provider] = w.session("s1", `"tools":["sleep"]`)
				w.say(sessions[w.provider], "build it")
			}
			for _, s := range sessions {
				first.until(s, results(1))
			}
			first.kill()
			second := serve(t, store, env, flags...)
			for _, each := range wires {
				t.Run(each.provider, func(t *testing.T) {
					w := each.on(t, second, backends)
					s := sessions[w.provider]
					next := w.say(s, "never mind, list files").field(t, "seq")
					told := story(t, w.finished(s, 2))
					for _, line := range []string{"result 2: waited 0 ms", "result 1 interrupted: " + lost, "[1] end_turn: It is built.", "[" + next + "] end_turn: a.txt"} {
						require.Contains(t, told, line+"\n")
					}
					require.Equal(t, 2, strings.Count(told, "result "))
					require.Len(t, w.backend.Requests(), 3, "the turn is resumed, its first answer not asked for again")
					built := []string{"user: build it", `assistant: sleep{"ms":60000} sleep{"ms":0}`, "tool: " + lost, "tool: waited 0 ms"}
					require.Equal(t, built, w.requested(2))
					require.Equal(t, append(built, "assistant: It is built.", "user: never mind, list files"), w.requested(1))
				})
			}
			second.stop()
		})
	}
}

// K13: guides and a queued input that arrive between the results of one batch.
func TestK13GuidesBetweenResults(t *testing.T) {
	t.Parallel()
	b, p := backend(t, newStore(t, "sqlite"))
	b.Push(sleeping(`{"ms":1800}`, `{"ms":200}`, `{"ms":1000}`), sleeping(`{"ms":1}`), answered("as you wish"), answered("and Q1"))
	p.create(`{"id":"s1","tools":["sleep"]}`)
	p.input("s1", `{"text":"go","requestId":"r"}`)
	p.until("s1", results(1))
	p.input("s1", `{"text":"G1","requestId":"g1","delivery":"guide"}`)
	p.input("s1", `{"text":"G2","requestId":"g2","delivery":"guide"}`)
	p.until("s1", results(2))
	p.input("s1", `{"text":"Q1","requestId":"q1"}`)
	tells(t, p.finished("s1", 2),
		"input go", `[1] tool_use: sleep{"ms":1800} | sleep{"ms":200} | sleep{"ms":1000}`, "result 2: waited 200 ms", "guide G1", "guide G2",
		"result 3: waited 1000 ms", "input Q1", "result 1: waited 1800 ms", `[1 4] tool_use: sleep{"ms":1}`, "result 4: waited 1 ms",
		"[1 4 5] end_turn: as you wish", "done end_turn", "[7] end_turn: and Q1", "done end_turn",
	)
	batch := []string{"user: go", `assistant: sleep{"ms":1800} sleep{"ms":200} sleep{"ms":1000}`, "tool: waited 1800 ms", "tool: waited 200 ms", "tool: waited 1000 ms", "user: G1"}
	second := append(slices.Clone(batch), `assistant: sleep{"ms":1}`, "tool: waited 1 ms", "user: G2")
	third := append(slices.Clone(second), "assistant: as you wish", "user: Q1")
	for i, messages := range lastMessages(t, b, 3) {
		require.Equal(t, [][]string{batch, second, third}[i], shown(messages))
	}
}

// K13, variant B: the limit of calls ends the turn, and the guide is answered by the next one.
func TestK13GuideAtTheTurnLimit(t *testing.T) {
	t.Parallel()
	b := openaitest.Start(t)
	p := serve(t, newStore(t, "sqlite"), []string{"OPENAI_BASE_URL=" + b.URL(), "OPENAI_MODEL=test-model"}, "--provider", "openai", "--max-turns", "1")
	b.Push(sleeping(`{"ms":400}`, `{"ms":0}`), answered("guided"))
	p.create(`{"id":"s1","tools":["sleep"]}`)
	p.input("s1", `{"text":"go","requestId":"r"}`)
	p.until("s1", results(1))
	p.input("s1", `{"text":"G1","requestId":"g1","delivery":"guide"}`)
	tells(t, p.rested("s1"), "input go", `[1] tool_use: sleep{"ms":400} | sleep{"ms":0}`, "result 2: waited 0 ms", "guide G1", "result 1: waited 400 ms",
		"done turn_limit", "[4] end_turn: guided", "done end_turn")
	require.Equal(t, "user: G1", shown(lastMessages(t, b, 1)[0])[4])
}

// K13, variant C: guides at the moment of settlement and after the end.
func TestK13GuidesAtTheEnd(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		p := serve(t, store, nil, "--provider", "fake")
		p.create(`{"id":"s1"}`)
		const rounds = 12
		for i := range rounds {
			p.input("s1", fmt.Sprintf(`{"text":"go","requestId":"r%d"}`, i))
			time.Sleep(time.Duration(i) * 2 * time.Millisecond) // from the middle of the run to long after it
			g := p.input("s1", fmt.Sprintf(`{"text":"guide","requestId":"g%d","delivery":"guide"}`, i))
			require.Contains(t, []string{"guide", "queue"}, g.field(t, "delivery"))
		}
		events := p.rested("s1")
		late := p.input("s1", `{"text":"late","requestId":"late","delivery":"guide"}`)
		require.Equal(t, "queue", late.field(t, "delivery"), "nothing runs that it could guide")
		require.Contains(t, late.body, `"status":"pending"`)
		events = append(events, p.rested("s1")[len(events):]...)
		answeredBy := map[int64]int{}
		for _, e := range events {
			if p := e.told(t); e.Kind == "assistant.message" {
				for _, seq := range p.InputSeqs {
					answeredBy[seq]++
				}
			}
		}
		require.Equal(t, 2*rounds+1, count(events, "user.message"))
		for _, e := range events {
			if e.Kind == "user.message" {
				require.NotZero(t, answeredBy[e.Seq], "input %d is lost", e.Seq)
			}
		}
		require.Contains(t, string(events[len(events)-3].Payload), `"delivery":"queue","requestedDelivery":"guide"`)
		p.stop()
	})
}

// K20, 2: a client that leaves in the middle of an answer gets no partial twice and the message once.
func TestK20ReconnectAroundACommit(t *testing.T) {
	t.Parallel()
	b, p := backend(t, newStore(t, "sqlite"))
	more, end := make(chan struct{}), make(chan struct{})
	second := openaitest.Events(openaitest.Text("First we open"))
	rest := []string{" the", " old", " red", " door."}
	for _, word := range rest {
		second.Steps = append(second.Steps, openaitest.Step{Until: more, Delay: 100 * time.Millisecond, Write: openaitest.Event(openaitest.Text(word))})
	}
	second.Steps = append(second.Steps, openaitest.Step{Until: end, Write: openaitest.Event(openaitest.Finish("stop")) + openaitest.Done})
	b.Push(openaitest.Events(openaitest.Text("First we open th")), second)
	p.create(`{"id":"s1"}`)
	ctx, leave := context.WithCancel(t.Context())
	frames := p.stream(ctx, "s1", "after=0&partials=1")
	p.input("s1", `{"text":"how?","requestId":"r"}`)
	for nextPartial(t, frames).Delta.Text != "First we open" {
		continue
	}
	leave()
	before := p.stream(t.Context(), "s1", "after=3&partials=1")
	close(more)
	for piece := ""; piece != " door."; {
		piece = nextPartial(t, before).Delta.Text
		require.Contains(t, rest, piece, "what was shown before is not shown again")
	}
	close(end)
	p.rested("s1")
	for after, want := range map[string][]string{"3": {"4", "5"}, "4": {"5"}} {
		at := p.stream(t.Context(), "s1", "partials=1&after="+after)
		for _, id := range want {
			f := <-at
			require.Equal(t, []string{"", id}, []string{f.Type, f.LastEventID}, "nothing of the pieces comes again")
		}
		requireSilence(t, at)
	}
	require.Equal(t, "4", (<-before).LastEventID)
	require.Equal(t, "5", (<-before).LastEventID)
	requireSilence(t, before)
}

// requireSilence wants no frame for a moment.
func requireSilence(t *testing.T, frames <-chan sseEvent) {
	t.Helper()
	select {
	case f := <-frames:
		t.Fatalf("%s %s", f.Type, f.Data)
	case <-time.After(100 * time.Millisecond):
	}
}

// K20, 3: a thousand pieces change nothing for a client that does not want them, nor in the ledger.
func TestK20PartialsAreBesideTheLedger(t *testing.T) {
	t.Parallel()
	b, p := backend(t, newStore(t, "sqlite"))
	chunks := make([]string, 1000)
	for i := range chunks {
		chunks[i] = openaitest.Text(fmt.Sprintf("%03d ", i))
	}
	long := openaitest.Stream(append(chunks, openaitest.Finish("stop"))...)
	ledgers := map[string]bool{}
	for _, clients := range []string{"none", "both"} {
		b.Push(long)
		p.create(fmt.Sprintf(`{"id":%q}`, clients))
		var with, without <-chan sseEvent
		if clients == "both" {
			with, without = p.stream(t.Context(), clients, "after=0&partials=1"), p.stream(t.Context(), clients, "after=0")
		}
		p.input(clients, `{"text":"count","requestId":"r"}`)
		events := p.rested(clients)
		ledgers[normal(events)] = true
		if clients == "none" {
			continue
		}
		for seq := 1; seq <= len(events); seq++ {
			f := <-without
			require.Equal(t, []string{"", fmt.Sprint(seq)}, []string{f.Type, f.LastEventID}, "only frames of the ledger")
		}
		requireSilence(t, without)
		latest := -1
		for seq := 1; seq <= len(events); {
			f := <-with
			if f.Type == "" {
				require.Equal(t, fmt.Sprint(seq), f.LastEventID)
				seq++
				continue
			}
			var piece partial
			require.NoError(t, json.Unmarshal([]byte(f.Data), &piece))
			require.Equal(t, 2, seq, "pieces come before their message")
			require.NotEmpty(t, piece.GenerationID)
			for number := range strings.FieldsSeq(piece.Delta.Text) { // pieces that waited are one
				n, err := strconv.Atoi(number)
				require.NoError(t, err)
				require.Greater(t, n, latest, "each piece comes once, in order")
				latest = n
			}
		}
		require.Positive(t, latest)
	}
	require.Len(t, ledgers, 1, "the ledger is the same with and without them")
}

// K20, 4: a process that was frozen wakes after another one took its run over.
func TestK20FrozenProcess(t *testing.T) {
	t.Parallel()
	store := newStore(t, "postgres")
	flags := []string{"--provider", "fake", "--lease-ttl", "2s", "--heartbeat", "300ms"}
	words := strings.TrimSpace(strings.Repeat("word ", 40))
	first := serve(t, store, nil, flags...)
	first.create(`{"id":"s1"}`)
	old := first.stream(t.Context(), "s1", "after=0&partials=1")
	first.input("s1", `{"text":"go","requestId":"r","selection":{"script":[{"text":"`+words+`","chunkDelayMs":60}]}}`)
	stale := nextPartial(t, old)
	require.NoError(t, first.cmd.Process.Signal(syscall.SIGSTOP))
	second := serve(t, store, nil, flags...)
	frames := second.stream(t.Context(), "s1", "after=0&partials=1")
	fresh := nextPartial(t, frames)
	require.NotEqual(t, stale.GenerationID, fresh.GenerationID)
	require.NoError(t, first.cmd.Process.Signal(syscall.SIGCONT))
	tells(t, second.finished("s1", 1), "input go", "[1] end_turn: "+words, "done end_turn")
	message := second.events("s1")[1]
	require.Contains(t, string(message.Payload), fresh.GenerationID)
	var group sync.WaitGroup
	for name, c := range map[string]<-chan sseEvent{"second": frames, "first": old} {
		group.Go(func() {
			committed := 0
			for committed < 3 {
				select {
				case f := <-c:
					var piece partial
					if f.Type != "partial" {
						if f.LastEventID == "2" || f.LastEventID == "3" || f.LastEventID == "1" {
							committed = int(f.LastEventID[0] - '0')
						}
					} else if err := json.Unmarshal([]byte(f.Data), &piece); err != nil || name == "second" && piece.GenerationID == stale.GenerationID {
						t.Errorf("%s: %s %v", name, f.Data, err)
					} else if committed >= 2 && piece.GenerationID == stale.GenerationID {
						t.Errorf("%s shows a piece of the old attempt behind the message: %s", name, f.Data)
					}
				case <-time.After(10 * time.Second):
					t.Errorf("%s ends after %d", name, committed)
					return
				}
			}
		})
	}
	group.Wait()
	requireSilence(t, frames)
	requireSilence(t, old)
	second.stop()
	first.stop()
}
