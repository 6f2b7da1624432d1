package runner_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/app/compaction"
	"github.com/keel-agent/keel/app/runner"
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
		_, err := s.do("user", ref, domain.CreateSession{At: time.Now(), Request: payload(t, "{}"), Info: domain.SessionInfo{System: "a/s0"}})
		require.NoError(t, err)
		s.submitted(ref, s.roll("input", 0))
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

// A request that was refused as too long is made again in the same attempt, also when it was the last that the turn limit
// allowed: it had no answer, and an attempt that ended here failed for no reason that the ledger told.
func TestRefusedAtTheTurnLimit(t *testing.T) {
	play(t, func(w *world) {
		w.compacts = compaction.New(compaction.Config{})
		w.script(text(thousand))
		p := w.start(func(c *runner.Config) { c.MaxTurns = 1 })
		for _, said := range []string{"a", "b"} {
			w.say(said)
			w.settled()
		}
		w.script(text(thousand), text(thousand), fault(ports.Overflow, 0), text("S"), text("ok"))
		w.say("go")
		w.settled()
		require.Equal(t, []string{
			"user queue go", "assistant [7] error:", "compaction from 7: S", "assistant [7] end_turn: ok", "finished done turns=2 end_turn",
		}, numberless(w.since(6)))
		p.drain(time.Second)
	})
}

// slowModels is a catalogue that is slow to answer once it is told to.
type slowModels struct{ delay atomic.Int64 }

func (m *slowModels) Resolve(context.Context, string, string) (domain.Model, domain.ModelDefaults, error) {
	time.Sleep(time.Duration(m.delay.Load()))
	return domain.Model{Provider: "scripted"}, domain.ModelDefaults{}, nil
}

// A process that loses its lease while it finds the model of a request asks for no summary when it goes on.
func TestNoSummaryUnderALostLease(t *testing.T) {
	play(t, func(w *world) {
		models := &slowModels{}
		w.models, w.compacts = models, compaction.New(compaction.Config{})
		w.script(text(thousand))
		p := w.start()
		for _, said := range []string{"a", "b"} {
			w.say(said)
			w.settled()
		}
		models.delay.Store(int64(time.Minute))
		w.do(domain.EnsureRun{At: time.Now(), NewRun: w.ids.New(), Compact: true})
		time.Sleep(time.Second)
		p.line.setCut(true)
		time.Sleep(2 * time.Minute)
		require.Zero(t, w.provider.summaries())
		models.delay.Store(0)
		p.line.setCut(false)
		w.settled()
		require.Equal(t, 1, w.provider.summaries())
		p.drain(time.Second)
	})
}
