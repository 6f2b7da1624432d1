package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
)

// natsServer returns the address of a NATS server that lives as long as the test.
func natsServer(t *testing.T) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	require.NoError(t, err)
	go s.Start()
	t.Cleanup(s.Shutdown)
	require.True(t, s.ReadyForConnections(10*time.Second))
	return s.ClientURL()
}

// A client sees the pieces of an answer, and after them the message, on a process that does not run the session.
func TestK20PiecesReachEveryProcess(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"postgres", "nats"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var flags []string
			if kind == "nats" {
				flags = []string{"--bus", natsServer(t)}
			}
			b, store := openaitest.Start(t), newStore(t, "postgres")
			begin, end := make(chan struct{}), make(chan struct{})
			said := openaitest.Events(openaitest.Text("w0 "))
			whole := "w0 "
			for i := range 200 {
				word := fmt.Sprint("w", i+1, " ")
				whole += word
				said.Steps = append(said.Steps, openaitest.Step{Until: begin, Delay: 5 * time.Millisecond, Write: openaitest.Event(openaitest.Text(word))})
			}
			said.Steps = append(said.Steps, openaitest.Step{Until: end, Write: openaitest.Event(openaitest.Finish("stop")) + openaitest.Done})
			b.Push(said)
			env := []string{"OPENAI_BASE_URL=" + b.URL(), "OPENAI_API_KEY=sk-test", "OPENAI_MODEL=test-model"}
			owner := serve(t, store, env, append(flags, "--provider", "openai")...)
			owner.create(`{"id":"s1"}`)
			here := owner.stream(t.Context(), "s1", "after=0&partials=1")
			owner.input("s1", `{"text":"go","requestId":"r"}`)
			require.Equal(t, "w0 ", nextPartial(t, here).Delta.Text, "the run is the first process's")

			other := serve(t, store, nil, append(flags, "--provider", "fake")...)
			there := other.stream(t.Context(), "s1", "after=0&partials=1")
			require.Equal(t, "1", (<-there).LastEventID)
			close(begin)
			var pieces strings.Builder
			for first := true; !strings.HasSuffix(pieces.String(), "w200 "); first = false {
				p := nextPartial(t, there)
				require.Equal(t, 1, p.Attempt)
				if first {
					require.NotContains(t, p.Delta.Text, "w0 ", "what was said before is not said again")
				}
				pieces.WriteString(p.Delta.Text)
			}
			require.True(t, strings.HasSuffix(whole, pieces.String()), "in order and without gaps: %s", pieces.String())
			close(end)
			for _, id := range []string{"2", "3"} {
				f := <-there
				require.Equal(t, []string{"", id}, []string{f.Type, f.LastEventID})
			}
			requireSilence(t, there)
			other.stop()
			owner.stop()
		})
	}
}

// A bus that is not there is no failure: the safety poll finds what it does not tell.
func TestBusThatIsAway(t *testing.T) {
	t.Parallel()
	p := serve(t, newStore(t, "postgres"), nil, "--provider", "fake", "--bus", "nats://127.0.0.1:1")
	p.create(`{"id":"s1"}`)
	p.input("s1", `{"text":"go","requestId":"r"}`)
	require.Len(t, p.rested("s1"), 3)
	p.stop()
}

func TestBusIsRefusedWhereThereIsOneProcess(t *testing.T) {
	code, _, errs := command(t, "serve", "--store", "memory:", "--bus", "nats://127.0.0.1:1")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "--bus is for several processes on one Postgres")
}
