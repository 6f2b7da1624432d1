package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
)

// K25: a real process is killed between two commits of results and the next answer. Both results stand,
// the calls are not asked for again, and one answer is committed.
func TestK25KilledBehindBothResults(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			store := newStore(t, kind)
			b := openaitest.Start(t)
			env := []string{"OPENAI_BASE_URL=" + b.URL(), "OPENAI_MODEL=test-model"}
			flags := []string{"--provider", "openai", "--lease-ttl", "1s", "--heartbeat", "300ms"}
			b.Push(sleeping(`{"ms":0}`, `{"ms":50}`), openaitest.Events(openaitest.Text("It i")).Ending(openaitest.Hang), answered("It is done."))
			first := serve(t, store, env, flags...)
			first.create(`{"id":"s1","tools":["sleep"]}`)
			frames := first.stream(t.Context(), "s1", "after=0&partials=1")
			first.input("s1", `{"text":"go","requestId":"r"}`)
			for nextPartial(t, frames).Delta.Text != "It i" {
			}
			before := first.events("s1")
			require.Equal(t, 2, count(before, "tool.result"))
			first.kill()
			second := serve(t, store, env, flags...)
			events := second.rested("s1")
			tells(t, events, "input go", `[1] tool_use: sleep{"ms":0} | sleep{"ms":50}`, "result 1: waited 0 ms", "result 2: waited 50 ms", "[1] end_turn: It is done.", "done end_turn")
			require.Equal(t, before, events[:len(before)], "what was committed stands")
			require.Len(t, b.Requests(), 3)
			require.Equal(t, string(b.Requests()[1].Body), string(b.Requests()[2].Body), "the same question")
			second.stop()
		})
	}
}

// K25: the commit of a result, and then that of an answer, is held back while the process is killed, so that
// the effect is there and the commit is not.
func TestK25KilledBeforeACommit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string // of the turn
		held   string // the kind of the event that is not committed
		seen   int    // events before it
		want   []string
	}{
		"result": {
			`{"toolCalls":[{"name":"sleep","arguments":{"ms":1500}},{"name":"calculator","arguments":{"expression":"6*7"}}]},{"text":"done"}`, "sleep", 3,
			[]string{
				"input go", `[1] tool_use: sleep{"ms":1500} | calculator{"expression":"6*7"}`, "result 2: 42",
				"result 1 interrupted: The call was interrupted and may have had effects; its outcome is unknown.", "[1] end_turn: done", "done end_turn",
			},
		},
		"answer": {
			`{"toolCalls":[{"name":"calculator","arguments":{"expression":"6*7"}}]},{"text":"done and done and done","chunkDelayMs":300}`, "answer", 3,
			[]string{"input go", `[1] tool_use: calculator{"expression":"6*7"}`, "result 1: 42", "[1] end_turn: done and done and done", "done end_turn"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t, "postgres")
			flags := []string{"--provider", "fake", "--lease-ttl", "1s", "--heartbeat", "300ms"}
			first := serve(t, store, nil, flags...)
			first.create(`{"id":"s1","tools":["sleep","calculator"]}`)
			first.input("s1", fmt.Sprintf(`{"text":"go","requestId":"r","selection":{"script":[%s]}}`, c.script))
			before := first.until("s1", func(es []event) bool { return len(es) == c.seen })
			conn, err := pgx.Connect(t.Context(), store)
			require.NoError(t, err)
			defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
			_, err = conn.Exec(t.Context(), "BEGIN; LOCK TABLE events IN EXCLUSIVE MODE")
			require.NoError(t, err)
			waits := func() (n int) {
				require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE relation = 'events'::regclass AND NOT granted").Scan(&n))
				return n
			}
			require.Eventually(t, func() bool { return waits() > 0 }, 10*time.Second, 10*time.Millisecond, "the %s is about to be committed", c.held)
			first.kill()
			_, err = conn.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'events'::regclass AND NOT granted")
			require.NoError(t, err)
			require.Eventually(t, func() bool { return waits() == 0 }, 10*time.Second, 10*time.Millisecond)
			_, err = conn.Exec(t.Context(), "COMMIT")
			require.NoError(t, err)
			second := serve(t, store, nil, flags...)
			require.Equal(t, before, second.events("s1")[:c.seen])
			tells(t, second.rested("s1"), c.want...)
			second.stop()
		})
	}
}
