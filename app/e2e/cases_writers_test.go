package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// K23: an owner wakes up behind its lease, in the middle of an answer or of a tool, while another one has
// finished its turn. Nothing of it reaches the ledger; what users wrote meanwhile did.
func TestK23TwoWriters(t *testing.T) {
	t.Parallel()
	const interrupted = "The call was interrupted and may have had effects; its outcome is unknown."
	for name, c := range map[string]struct {
		script string
		seen   int // events when it freezes
		want   []string
	}{
		"answer": {
			`{"text":"one two three four five","chunkDelayMs":500}`, 1,
			[]string{"input go", "input more", "[1] end_turn: one two three four five", "done end_turn", "[2] end_turn: echo: more", "done end_turn"},
		},
		"tool": {
			`{"toolCalls":[{"name":"sleep","arguments":{"ms":2500}}]},{"text":"done"}`, 2,
			[]string{
				"input go", `[1] tool_use: sleep{"ms":2500}`, "input more", "result 1 interrupted: " + interrupted,
				"[1] end_turn: done", "done end_turn", "[3] end_turn: echo: more", "done end_turn",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t, "postgres")
			flags := []string{"--provider", "fake", "--lease-ttl", "1s", "--heartbeat", "300ms"}
			first, second := serve(t, store, nil, flags...), (*process)(nil)
			first.create(`{"id":"s1","tools":["sleep"]}`)
			pieces := first.stream(t.Context(), "s1", "after=0&partials=1")
			first.input("s1", `{"text":"go","requestId":"r","selection":{"script":[`+c.script+`]}}`)
			nextPartial(t, pieces)
			first.until("s1", func(es []event) bool { return len(es) == c.seen })
			require.NoError(t, first.cmd.Process.Signal(syscall.SIGSTOP))
			second = serve(t, store, nil, flags...)
			second.input("s1", `{"text":"more","requestId":"r2"}`)
			finished := second.finished("s1", 2)
			tells(t, finished, c.want...)
			require.NoError(t, first.cmd.Process.Signal(syscall.SIGCONT))
			require.Eventually(t, func() bool { return strings.Count(first.logs.String(), "registered") == 2 }, 10*time.Second, 10*time.Millisecond, "it begins anew")
			require.Eventually(t, func() bool { return first.logs.find(`(attempt stopped: lease lost)`) != "" }, 10*time.Second, 10*time.Millisecond)
			first.stop()
			require.Equal(t, finished, second.events("s1"))
			require.NotRegexp(t, "could not|failed", first.logs.String(), "it insists on nothing")
			second.stop()
		})
	}
}
