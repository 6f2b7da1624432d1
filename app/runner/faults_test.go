package runner_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

func TestCancelMidStream(t *testing.T) {
	play(t, func(w *world) {
		w.script(slowly(time.Minute, text("never")), text("fresh"))
		n := w.start()
		w.say("go")
		time.Sleep(time.Second)
		began := time.Now()
		w.cancel()
		w.expect("1 user queue go", "2 assistant [1] aborted: hm", "3 finished cancelled turns=1 aborted")
		require.Less(t, time.Since(began), time.Second)
		require.Equal(t, domain.StatusFailed, w.runs()[0].Status)
		w.say("again")
		w.settled()
		require.Contains(t, w.text(), "5 assistant [1 4] end_turn: fresh", "a later input answers both")
		n.drain(time.Second)
	})
}

// A turn that goes on without any input of its own counts its calls all the same.
func TestRunAfterCancelCountsItsCalls(t *testing.T) {
	play(t, func(w *world) {
		w.script(calls(`slow{"s":60}`), calls("count"), text("done"))
		n := w.start()
		w.say("go")
		time.Sleep(time.Second)
		w.cancel()
		w.settled()
		w.do(domain.EnsureRun{At: time.Now(), NewRun: w.ids.New()})
		w.settled()
		var numbers []int
		for _, r := range w.provider.requests {
			numbers = append(numbers, r.Turn.Call)
		}
		require.Equal(t, []int{0, 0, 1}, numbers)
		n.drain(time.Second)
	})
}

// A tool that ignores its context does not hold the settle; its late result is nowhere.
func TestCancelMidToolDoesNotWait(t *testing.T) {
	play(t, func(w *world) {
		w.script(calls(`stubborn{"s":30}`, `count`))
		n := w.start()
		w.say("go")
		time.Sleep(time.Second)
		began := time.Now()
		w.cancel()
		w.expect(
			"1 user queue go",
			`2 assistant [1] tool_use: stubborn{"s":30} | count{}`,
			"3 result count {}",
			"4 result The call was interrupted: the user cancelled. (error) (interrupted)",
			"5 finished cancelled turns=1 aborted",
		)
		require.Less(t, time.Since(began), time.Second)
		time.Sleep(time.Minute)
		require.Len(t, w.ledger(), 5)
		n.drain(time.Second)
	})
}

func TestCancelBeforeClaimAndInBackoff(t *testing.T) {
	play(t, func(w *world) {
		w.script(fault(ports.Retryable, time.Minute))
		w.say("never claimed")
		w.cancel()
		n := w.start()
		w.settled()
		require.Equal(t, "1 user queue never claimed\n2 finished cancelled turns=0  cancelled", w.text())
		w.say("backs off")
		time.Sleep(5 * time.Second)
		w.cancel()
		w.settled()
		require.True(t, strings.HasSuffix(w.text(), "finished cancelled turns=0  cancelled"), w.text())
		n.drain(time.Second)
	})
}

func TestInputAfterCancelStartsASuccessor(t *testing.T) {
	play(t, func(w *world) {
		reluctant := func(ctx context.Context, _ ports.ModelRequest, _ func(ports.Delta)) (ports.Reply, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			return ports.Reply{}, context.Cause(ctx)
		}
		w.script(reluctant, text("second"))
		n := w.start()
		w.say("go")
		time.Sleep(time.Second)
		w.cancel()
		out := w.say("after the cancel")
		w.settled()
		require.Equal(t, out.Event.RunID, w.runs()[0].ID)
		require.Contains(t, w.text(), "assistant [1 2] end_turn: second")
		n.drain(time.Second)
	})
}

// A process whose line is cut stops by its own clock; another one rescues the run and goes on with the same turn.
func TestTakeoverResumesTheTurn(t *testing.T) {
	play(t, func(w *world) {
		w.script(calls(`count`, `safe{"s":40}`, `slow{"s":40}`), text("done by the second"))
		first := w.start()
		w.say("go")
		time.Sleep(time.Second)
		first.line.setCut(true)
		began := time.Now()
		second := w.start()
		w.expect(
			"1 user queue go",
			`2 assistant [1] tool_use: count{} | safe{"s":40} | slow{"s":40}`,
			"3 result count {}",
			"4 result The call was interrupted and may have had effects; its outcome is unknown. (error) (interrupted)",
			`5 result safe {"s":40}`,
			"6 assistant [1] end_turn: done by the second",
			"7 finished done turns=1 end_turn",
		)
		require.Less(t, time.Since(began), 17*time.Second+40*time.Second)
		require.Equal(t, 1, w.tools.times("count"), "a committed result is not run again")
		require.Equal(t, 1, w.tools.times("slow"), "a call that may have had effects is not run again")
		require.Equal(t, 2, w.tools.times("safe"))
		first.line.setCut(false)
		time.Sleep(time.Minute)
		require.Len(t, w.ledger(), 7, "the first process writes nothing when it comes back")
		require.True(t, first.Ready(), "it registers anew")
		first.drain(time.Second)
		second.drain(time.Second)
	})
}

// A process that crashes on every attempt uses up the budget; the last claim finishes the run without any call. Each
// takeover is as prompt as the first one.
func TestCrashingAttemptsSpendTheBudget(t *testing.T) {
	play(t, func(w *world) {
		w.script(slowly(time.Hour, text("never")))
		w.say("poison")
		var nodes []*node
		crashed := time.Now()
		for i := range domain.DefaultBudget {
			n := w.start()
			nodes = append(nodes, n)
			for range 400 {
				if _, run, _ := w.store.Sessions().Get(t.Context(), w.ref); run.Status == domain.StatusRunning && run.Epoch == int64(i+1) {
					break
				}
				time.Sleep(250 * time.Millisecond)
			}
			require.LessOrEqual(t, time.Since(crashed), 17*time.Second, "takeover %d", i)
			time.Sleep(6700 * time.Millisecond) // so that the next process beats and polls out of step with the lease
			n.line.setCut(true)
			crashed = time.Now()
		}
		last := w.start()
		w.settled()
		require.Equal(t, "1 user queue poison\n2 finished failed turns=0  all attempts are used up", w.text())
		last.drain(time.Second)
		for _, n := range nodes {
			n.line.setCut(false)
			n.drain(time.Second)
		}
	})
}

// K31: a drain is no cancel and costs no attempt.
func TestDrainHandsBack(t *testing.T) {
	play(t, func(w *world) {
		w.script(slowly(20*time.Second, text("by the first")), text("by the second"))
		first := w.start()
		w.say("go")
		time.Sleep(time.Second)
		first.drain(5 * time.Second)
		require.Equal(t, "1 user queue go", w.text())
		run := w.runs()[0]
		require.Equal(t, domain.StatusPending, run.Status)
		require.Zero(t, run.Attempts)
		w.say("typed during the hand-over")
		second := w.start()
		w.expect(
			"1 user queue go",
			"2 user queue typed during the hand-over",
			"3 assistant [1] end_turn: by the second",
			"4 finished done turns=1 end_turn",
			"5 assistant [2] end_turn: by the second",
			"6 finished done turns=1 end_turn",
		)
		second.drain(time.Second)
	})
}

// A tool that the drain stops has no result, whatever the loop is busy with at that moment: the next owner runs it again
// where that is safe.
func TestDrainCommitsNoResultOfAStoppedTool(t *testing.T) {
	for range 20 {
		play(t, func(w *world) {
			w.script(calls("count", `safe{"s":20}`, `slow{"s":20}`), text("done"))
			first := w.start()
			first.line.slow = func(c domain.Command) time.Duration {
				if _, ok := c.(domain.AppendToolResult); ok {
					return 3 * time.Second
				}
				return 0
			}
			w.say("go")
			time.Sleep(time.Second)
			first.drain(time.Second)
			second := w.start()
			w.expect(
				"1 user queue go",
				`2 assistant [1] tool_use: count{} | safe{"s":20} | slow{"s":20}`,
				"3 result count {}",
				"4 result The call was interrupted and may have had effects; its outcome is unknown. (error) (interrupted)",
				`5 result safe {"s":20}`,
				"6 assistant [1] end_turn: done",
				"7 finished done turns=1 end_turn",
			)
			second.drain(time.Second)
		})
	}
}

func TestDrainLetsAttemptsEndWithinTheGrace(t *testing.T) {
	play(t, func(w *world) {
		w.script(slowly(20*time.Second, text("whole")))
		n := w.start()
		w.say("go")
		time.Sleep(time.Second)
		n.drain(30 * time.Second)
		w.expect("1 user queue go", "2 assistant [1] end_turn: whole", "3 finished done turns=1 end_turn")
	})
}

// K17: every reply to a commit gets lost once; the same command is given again and nothing doubles.
func TestLostRepliesDoubleNothing(t *testing.T) {
	play(t, func(w *world) {
		w.script(calls("count", `safe{"s":1}`), fault(ports.Retryable, 0), text("done"))
		n := w.start()
		lost := map[string]bool{}
		n.line.lose = func(c domain.Command) bool {
			key := describeCommand(c)
			first := !lost[key]
			lost[key] = true
			return first
		}
		w.say("go")
		w.expect(
			"1 user queue go",
			"2 assistant [1] tool_use: count{} | safe{\"s\":1}",
			"3 result count {}",
			"4 result safe {\"s\":1}",
			"5 assistant [1] error:",
			"6 finished failed turns=2 error provider: retryable",
			"7 assistant [1] end_turn: done",
			"8 finished done turns=1 end_turn",
		)
		require.GreaterOrEqual(t, len(lost), 7)
		n.drain(time.Second)
	})
}

func describeCommand(c domain.Command) string {
	switch c := c.(type) {
	case domain.AppendAssistant:
		return "assistant " + c.GenerationID
	case domain.AppendToolResult:
		return "result " + c.Call
	case domain.Settle:
		return "settle " + time.Duration(c.Token.Epoch).String()
	default:
		return ""
	}
}

// A claim whose reply was lost is found by the next beat and handed back; it costs no attempt.
func TestLostClaimIsHandedBack(t *testing.T) {
	play(t, func(w *world) {
		w.script(text("hello"))
		n := w.start()
		n.line.loseNextClaim()
		began := time.Now()
		w.say("go")
		w.expect("1 user queue go", "2 assistant [1] end_turn: hello", "3 finished done turns=1 end_turn")
		require.EqualValues(t, 2, w.runs()[0].Epoch)
		require.LessOrEqual(t, time.Since(began), 5*time.Second)
		n.drain(time.Second)
	})
}

// What came back of a claim that failed is played; the rest is found by the next beat.
func TestHalfAClaim(t *testing.T) {
	play(t, func(w *world) {
		w.script(text("hello"))
		n := w.start()
		n.line.setCut(true)
		w.say("go")
		other := w.child(w.ref, "other")
		n.line.loseNextClaim()
		n.line.setCut(false)
		time.Sleep(11 * time.Second) // a poll, and a beat behind it
		epochs := 0
		for _, ref := range []domain.SessionRef{w.ref, other} {
			run, err := w.store.Runs().List(t.Context(), ref, nil, 1)
			require.NoError(t, err)
			require.Equal(t, domain.StatusDone, run[0].Status)
			epochs += int(run[0].Epoch)
		}
		require.Equal(t, 3, epochs, "one of the two was claimed again")
		n.drain(time.Second)
	})
}

// A claim that comes through after its connection was given up, and what came of it looked for, is found in time.
func TestLateClaimIsHandedBack(t *testing.T) {
	play(t, func(w *world) {
		w.script(slowly(time.Hour, text("late")))
		n := w.start(func(c *runner.Config) { c.Workers = 1 })
		w.say("go")
		synctest.Wait()
		other := w.child(w.ref, "other")
		rows, err := w.store.Processes().List(t.Context())
		require.NoError(t, err)
		claims, err := w.store.Runs().Claim(t.Context(), ports.ClaimRequest{Process: rows[0].ID, Max: 1})
		require.NoError(t, err)
		require.Len(t, claims, 1)
		time.Sleep(66 * time.Second)
		run, err := w.store.Runs().Get(t.Context(), other, claims[0].Run.ID)
		require.NoError(t, err)
		require.Equal(t, domain.StatusPending, run.Status)
		require.Zero(t, run.Attempts)
		n.drain(time.Second)
	})
}

// K20: the partials of a failed generation are marked as ended, and each names its attempt.
func TestPartialsNameTheirAttempt(t *testing.T) {
	play(t, func(w *world) {
		frames, unsubscribe := w.partials.Subscribe(w.ref)
		defer unsubscribe()
		w.script(fault(ports.Retryable, 0), text("First we open the door."))
		n := w.start()
		w.say("go")
		w.settled()
		a, b := <-frames, <-frames
		require.Equal(t, ports.Delta{End: "failed"}, a.Delta)
		require.Equal(t, "First we open the door.", b.Delta.Text)
		require.NotEqual(t, a.GenerationID, b.GenerationID)
		require.Equal(t, []int{1, 2}, []int{a.Attempt, b.Attempt})
		require.Greater(t, b.Epoch, a.Epoch)
		n.drain(time.Second)
	})
}
