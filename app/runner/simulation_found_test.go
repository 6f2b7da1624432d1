package runner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// What the simulation found, each as a test of its own.

// A new owner that executes the open calls first shows their results and the guides of the meantime, not what it knew
// when it claimed.
func TestTakeoverShowsWhatItResumed(t *testing.T) {
	play(t, func(w *world) {
		w.script(calls(`safe{"s":20}`), text("done"))
		first := w.start()
		w.say("go")
		time.Sleep(time.Second)
		first.drain(time.Second)
		second := w.start()
		time.Sleep(time.Second)
		w.guide("G")
		w.expect(
			"1 user queue go", `2 assistant [1] tool_use: safe{"s":20}`, "3 user guide G", `4 result safe {"s":20}`,
			"5 assistant [1 3] end_turn: done", "6 finished done turns=1 end_turn",
		)
		messages := w.provider.requests[1].Messages
		require.Len(t, messages, 4)
		require.Equal(t, `safe {"s":20}`, messages[2].Content[0].Text)
		require.Equal(t, "G", messages[3].Content[0].Text)
		second.drain(time.Second)
	})
}

// A process that is stopped while it reads the ledger, longer than its lease lasts, asks no provider when it goes on.
func TestNoRequestUnderALostLease(t *testing.T) {
	s := newSimulation(1)
	s.weather = weather{latency: time.Millisecond, workers: 1, budget: 5, turns: 5}
	synctest.Test(t, func(t *testing.T) {
		s.begin(t)
		s.start()
		p, ref := s.all()[0], domain.SessionRef{Tenant: "a", Session: "s0"}
		for _, cmd := range []domain.Command{
			domain.CreateSession{At: time.Now(), Request: payload(t, "{}"), Info: domain.SessionInfo{System: "a/s0"}},
			domain.SubmitInput{At: time.Now(), RequestID: "r", Payload: payload(t, `{"text":"go","requestId":"r"}`), NewRun: "run"},
		} {
			_, err := s.do("user", ref, cmd)
			require.NoError(t, err)
		}
		for p.made("events/s0") == 0 {
			time.Sleep(10 * time.Microsecond)
		}
		thaw := p.freeze()
		time.Sleep(20 * time.Second)
		require.Empty(t, s.requests, "it was stopped before its first request")
		thaw()
		time.Sleep(time.Second)
		s.end()
	})
	require.Empty(t, s.faults)
}

// A cancelled attempt that loses its lease meanwhile publishes no further frame.
func TestNoPartialUnderALostLease(t *testing.T) {
	play(t, func(w *world) {
		w.script(func(ctx context.Context, _ ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error) {
			emit(ports.Delta{Text: "hm"})
			<-ctx.Done()
			time.Sleep(20 * time.Second)
			return ports.Reply{}, context.Cause(ctx)
		})
		frames, unsubscribe := w.partials.Subscribe(w.ref)
		defer unsubscribe()
		n := w.start()
		w.say("go")
		time.Sleep(time.Second)
		require.Equal(t, "hm", (<-frames).Delta.Text)
		w.cancel()
		synctest.Wait()
		n.line.setCut(true)
		time.Sleep(time.Minute)
		require.Empty(t, frames)
	})
}
