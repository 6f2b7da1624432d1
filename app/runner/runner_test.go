package runner_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

func TestOneInputGivesThreeEvents(t *testing.T) {
	play(t, func(w *world) {
		w.script(text("hello"))
		n := w.start()
		w.say("hi")
		w.expect("1 user queue hi", "2 assistant [1] end_turn: hello", "3 finished done turns=1 end_turn")
		n.drain(time.Second)
		require.Equal(t, domain.StatusDone, w.runs()[0].Status)
	})
}

func TestParallelCallsCommitAsTheyFinish(t *testing.T) {
	play(t, func(w *world) {
		w.script(calls(`slow{"s":5}`, `count{"s":1}`), text("done"))
		n := w.start()
		w.say("go")
		w.expect(
			"1 user queue go",
			`2 assistant [1] tool_use: slow{"s":5} | count{"s":1}`,
			`3 result count {"s":1}`,
			`4 result slow {"s":5}`,
			"5 assistant [1] end_turn: done",
			"6 finished done turns=2 end_turn",
		)
		second := w.provider.requests[1].Messages
		require.Equal(t, []string{"slow", "count"}, []string{second[2].ToolName, second[3].ToolName}, "results stand in call order")
		n.drain(time.Second)
	})
}

func TestSequentialCallsRunInOrder(t *testing.T) {
	play(t, func(w *world) {
		w.script(calls(`step{"s":3}`, `slow{"s":4}`, `step{"s":2}`, `step{"s":0}`), text("done"))
		n := w.start()
		began := time.Now()
		w.say("go")
		w.expect(
			"1 user queue go",
			`2 assistant [1] tool_use: step{"s":3} | slow{"s":4} | step{"s":2} | step{"s":0}`,
			`3 result step {"s":3}`,
			`4 result slow {"s":4}`,
			`5 result step {"s":2}`,
			`6 result step {"s":0}`,
			"7 assistant [1] end_turn: done",
			"8 finished done turns=2 end_turn",
		)
		require.Less(t, time.Since(began), 7*time.Second, "the other call ran beside them")
		n.drain(time.Second)
	})
}

func TestNoSequentialCallBeginsAfterACancel(t *testing.T) {
	play(t, func(w *world) {
		w.script(calls(`step{"s":3}`, `step{"s":0}`), text("never asked for"))
		n := w.start()
		w.say("go")
		time.Sleep(time.Second)
		w.cancel()
		time.Sleep(5 * time.Second)
		require.Equal(t, 1, w.tools.times("step"))
		n.drain(time.Second)
	})
}

// K13: guides wait for all sibling results, one joins per boundary; a queued input waits for the next claim.
func TestGuidesJoinAtBoundaries(t *testing.T) {
	play(t, func(w *world) {
		w.script(calls(`slow{"s":5}`, `slow{"s":1}`, `slow{"s":3}`), calls(`count{"s":1}`), text("all done"), text("queued done"))
		n := w.start()
		w.say("go")
		time.Sleep(2 * time.Second)
		w.guide("G1")
		time.Sleep(500 * time.Millisecond)
		w.guide("G2")
		time.Sleep(1500 * time.Millisecond)
		w.say("Q1")
		w.expect(
			"1 user queue go",
			`2 assistant [1] tool_use: slow{"s":5} | slow{"s":1} | slow{"s":3}`,
			`3 result slow {"s":1}`,
			"4 user guide G1",
			"5 user guide G2",
			`6 result slow {"s":3}`,
			"7 user queue Q1",
			`8 result slow {"s":5}`,
			`9 assistant [1 4] tool_use: count{"s":1}`,
			`10 result count {"s":1}`,
			"11 assistant [1 4 5] end_turn: all done",
			"12 finished done turns=3 end_turn",
			"13 assistant [7] end_turn: queued done",
			"14 finished done turns=1 end_turn",
		)
		n.drain(time.Second)
	})
}

// K13, variant B: the turn limit ends the turn, the guide stays unanswered and is answered next.
func TestTurnLimitKeepsGuide(t *testing.T) {
	play(t, func(w *world) {
		w.script(calls(`slow{"s":5}`), text("guided"))
		n := w.start(func(c *runner.Config) { c.MaxTurns = 1 })
		w.say("go")
		time.Sleep(time.Second)
		w.guide("G1")
		w.expect(
			"1 user queue go",
			`2 assistant [1] tool_use: slow{"s":5}`,
			"3 user guide G1",
			`4 result slow {"s":5}`,
			"5 finished done turns=1 turn_limit",
			"6 assistant [3] end_turn: guided",
			"7 finished done turns=1 end_turn",
		)
		n.drain(time.Second)
	})
}

func TestInputDuringTheRunIsAnsweredNext(t *testing.T) {
	play(t, func(w *world) {
		w.script(slowly(3*time.Second, text("one")), text("two"))
		n := w.start()
		w.say("first")
		time.Sleep(time.Second)
		w.say("second")
		w.guide("late guide")
		w.expect(
			"1 user queue first",
			"2 user queue second",
			"3 user guide late guide",
			"4 assistant [1] end_turn: one",
			"5 finished done turns=1 end_turn",
			"6 assistant [2 3] end_turn: two",
			"7 finished done turns=1 end_turn",
		)
		require.Len(t, w.runs(), 1)
		n.drain(time.Second)
	})
}

// K09, variant 4: failed attempts leave no trace in the next request.
func TestRetryAfterFailureSendsTheSameRequest(t *testing.T) {
	play(t, func(w *world) {
		w.script(fault(ports.Retryable, 0), fault(ports.Retryable, 0), text("third time"))
		n := w.start()
		w.say("go")
		w.expect(
			"1 user queue go",
			"2 assistant [1] error:",
			"3 finished failed turns=1 error provider: retryable",
			"4 assistant [1] error:",
			"5 finished failed turns=1 error provider: retryable",
			"6 assistant [1] end_turn: third time",
			"7 finished done turns=1 end_turn",
		)
		require.Equal(t, w.provider.requests[0].Messages, w.provider.requests[2].Messages)
		require.Equal(t, 2, w.provider.requests[2].Turn.Call, "the script goes on after failed calls")
		n.drain(time.Second)
	})
}

func TestPermanentFaultFailsAtOnce(t *testing.T) {
	for name, a := range map[string]answer{
		"permanent": fault(ports.Fatal, 0), "asks for a day": fault(ports.Retryable, 24*time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.script(a)
				n := w.start()
				w.say("go")
				require.Len(t, w.settled(), 3)
				require.Equal(t, domain.StatusFailed, w.runs()[0].Status)
				n.drain(time.Second)
			})
		})
	}
}

func TestUnreadableSelectionFailsAtOnce(t *testing.T) {
	play(t, func(w *world) {
		w.script(text("never"))
		n := w.start()
		w.say("go", `"selection":{"model":7}`)
		w.expect("1 user queue go", "2 finished failed turns=0  selection: invalid_payload (model): must be a string")
		require.Equal(t, domain.ReasonPermanent, w.runs()[0].Reason)
		n.drain(time.Second)
	})
}

func TestBudgetIsSpentThenFails(t *testing.T) {
	play(t, func(w *world) {
		w.script(fault(ports.Retryable, 0))
		n := w.start(func(c *runner.Config) { c.Budget = 3 })
		w.say("go")
		require.Len(t, w.settled(), 1+3*2)
		run := w.runs()[0]
		require.Equal(t, domain.StatusFailed, run.Status)
		require.Equal(t, domain.ReasonExhausted, run.Reason)
		n.drain(time.Second)
	})
}

func TestRetryAfterIsHonoured(t *testing.T) {
	play(t, func(w *world) {
		w.script(fault(ports.Retryable, 90*time.Second), text("ok"))
		n := w.start()
		began := time.Now()
		w.say("go")
		w.settled()
		require.GreaterOrEqual(t, time.Since(began), 90*time.Second)
		require.Less(t, time.Since(began), 95*time.Second)
		n.drain(time.Second)
	})
}

// K04 C: an answer without text or call is no answer, however it ended.
func TestEmptyAnswerIsAFailure(t *testing.T) {
	play(t, func(w *world) {
		w.script(func(context.Context, ports.ModelRequest, func(ports.Delta)) (ports.Reply, error) {
			return ports.Reply{
				Content:    []domain.Block{{Type: domain.ThinkingBlock, Thinking: "endless"}},
				StopReason: domain.StopLength,
			}, nil
		}, text("ok"))
		n := w.start()
		w.say("go")
		w.expect(
			"1 user queue go",
			"2 assistant [1] error:",
			"3 finished failed turns=1 length provider: the answer is empty (stop reason length)",
			"4 assistant [1] end_turn: ok",
			"5 finished done turns=1 end_turn",
		)
		n.drain(time.Second)
	})
}

// An image is an answer, though it says nothing.
func TestAnImageIsAnAnswer(t *testing.T) {
	play(t, func(w *world) {
		w.script(func(context.Context, ports.ModelRequest, func(ports.Delta)) (ports.Reply, error) {
			image := domain.Block{Type: domain.ImageBlock, MimeType: "image/png", Data: "AAAA", Signature: "s"}
			return ports.Reply{Content: []domain.Block{image}, StopReason: domain.StopEndTurn}, nil
		})
		n := w.start()
		w.say("draw")
		w.expect("1 user queue draw", "2 assistant [1] end_turn:", "3 finished done turns=1 end_turn")
		n.drain(time.Second)
	})
}

// K02, K01, K11: malformed arguments and unknown tools are answered, never executed; ids are unique in the session.
func TestUnusableCallsAreAnswered(t *testing.T) {
	play(t, func(w *world) {
		w.script(func(context.Context, ports.ModelRequest, func(ports.Delta)) (ports.Reply, error) {
			return ports.Reply{StopReason: domain.StopLength, Content: []domain.Block{
				{Type: domain.CallBlock, Name: "count", RawArguments: `{"s":`, ProviderID: "call_0"},
				{Type: domain.CallBlock, Name: "nope", Arguments: `{}`, ProviderID: "call_0"},
				{Type: domain.CallBlock, Name: "panic", Arguments: `{}`, ProviderID: "call_0"},
			}}, nil
		}, calls("count"), text("ok"))
		n := w.start()
		w.say("go")
		w.expect(
			"1 user queue go",
			`2 assistant [1] length: count{"s": | nope{} | panic{}`,
			`3 result The arguments are not one JSON object, so the call was not executed: {"s": (error)`,
			`4 result There is no tool named "nope". (error)`,
			"5 result the tool crashed: boom (error)",
			"6 assistant [1] tool_use: count{}",
			"7 result count {}",
			"8 assistant [1] end_turn: ok",
			"9 finished done turns=3 end_turn",
		)
		require.Equal(t, 1, w.tools.times("count"))
		n.drain(time.Second)
	})
}

func TestProviderPanicFailsTheAttempt(t *testing.T) {
	play(t, func(w *world) {
		w.script(func(context.Context, ports.ModelRequest, func(ports.Delta)) (ports.Reply, error) { panic("oops") }, text("ok"))
		n := w.start()
		w.say("go")
		w.expect(
			"1 user queue go",
			"2 finished failed turns=1  internal error: oops",
			"3 assistant [1] end_turn: ok",
			"4 finished done turns=1 end_turn",
		)
		n.drain(time.Second)
	})
}

func TestAnswerTooLargeToStoreFailsWithinTheBudget(t *testing.T) {
	play(t, func(w *world) {
		w.script(text("this text is longer than a payload of one hundred and twenty bytes can be, so it is refused by the ledger"), text("ok"))
		n := w.start(func(c *runner.Config) { c.MaxBytes = 180 })
		w.say("go")
		w.settled()
		require.Equal(t, domain.StatusDone, w.runs()[0].Status)
		n.drain(time.Second)
	})
}

// A replaced input is shown through the one that replaces it, and both are listed.
func TestRetryOfReplacesAPoisonedInput(t *testing.T) {
	play(t, func(w *world) {
		w.script(fault(ports.Fatal, 0), text("ok"))
		n := w.start()
		w.say("poison")
		w.settled()
		w.say("antidote", `"retryOf":1`)
		w.settled()
		last := w.provider.requests[1].Messages
		require.Len(t, last, 1)
		require.Len(t, last[0].Content, 1)
		require.Equal(t, "antidote", last[0].Content[0].Text)
		require.Contains(t, w.text(), "assistant [1 4] end_turn: ok")
		n.drain(time.Second)
	})
}

// One more turn reads what is new, however long the ledger is.
func TestLaterTurnsReadOnlyWhatIsNew(t *testing.T) {
	play(t, func(w *world) {
		w.script(text("ok"))
		n := w.start()
		for i := range 50 {
			before := n.line.eventsRead()
			w.say(fmt.Sprint("turn ", i))
			w.settled()
			require.LessOrEqual(t, n.line.eventsRead()-before, 2, "turn %d: the input, and the end of the turn before", i)
		}
		require.Len(t, w.provider.requests[49].Messages, 99)
		n.drain(time.Second)
	})
}

// The same when the next turn begins at once, with input that arrived during the one before.
func TestMoreInputReadsOnlyWhatIsNew(t *testing.T) {
	play(t, func(w *world) {
		w.script(slowly(time.Second, text("ok")))
		n := w.start()
		w.say("first")
		for i := range 20 {
			time.Sleep(time.Second / 2)
			before := n.line.eventsRead()
			w.say(fmt.Sprint("turn ", i))
			time.Sleep(time.Second / 2)
			require.LessOrEqual(t, n.line.eventsRead()-before, 3, "turn %d: the input, the answer that it overtook, and the end of the turn", i)
		}
		w.settled()
		n.drain(time.Second)
	})
}

// What a cancelled run left unanswered is shown with the next input, unless that takes its place (docs/PROTOCOL.md).
func TestRetryOfReplacesACancelledInput(t *testing.T) {
	for replaces, shown := range map[string]string{`"retryOf":1`: "[instead]", `"delivery":"queue"`: "[never mind instead]"} {
		play(t, func(w *world) {
			w.script(slowly(time.Minute, text("never")), text("ok"))
			n := w.start()
			w.say("never mind")
			time.Sleep(time.Second)
			w.cancel()
			w.settled()
			w.say("instead", replaces)
			w.settled()
			last := w.provider.requests[1].Messages
			require.Len(t, last, 1)
			var texts []string
			for _, b := range last[0].Content {
				texts = append(texts, b.Text)
			}
			require.Equal(t, shown, fmt.Sprint(texts), replaces)
			n.drain(time.Second)
		})
	}
}
