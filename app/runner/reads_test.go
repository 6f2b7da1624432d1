package runner_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
)

func TestARunReadsNothingThatItsProcessCommitted(t *testing.T) {
	play(t, func(w *world) {
		w.script(calls("count"), text("one"), text("two"))
		n := w.start()
		w.say("a")
		w.settled()
		require.Equal(t, tally{commands: 4}, n.line.count())
		w.say("b")
		w.settled()
		require.Equal(t, tally{commands: 2}, n.line.count())
		require.Contains(t, fmt.Sprint(w.provider.requests[2].Messages), "one")
	})
}

func TestARunReadsItsInputAndNothingElse(t *testing.T) {
	play(t, func(w *world) {
		w.script(calls("count"), text("one"), text("two"))
		n := w.start()
		w.hears(n, false)
		w.say("a")
		w.settled()
		require.Equal(t, tally{commands: 4, pages: 1}, n.line.count())
		w.say("b") // the transcript is at hand; only the input is new
		w.settled()
		require.Equal(t, tally{commands: 2, pages: 1}, n.line.count())
	})
}

func TestARunReadsWhatItsProcessDidNotHearOf(t *testing.T) {
	play(t, func(w *world) {
		w.script(text("one"), slowly(time.Second, text("two")), text("three"))
		n := w.start()
		w.say("a")
		w.settled()
		w.hears(n, false)
		w.say("b")
		synctest.Wait()
		require.Equal(t, 1, n.line.eventsRead())
		w.hears(n, true)
		w.say("c") // the turn is going on, so the transcript is not there to follow
		w.settled()
		require.Equal(t, 4, n.line.eventsRead())
		w.expect(
			"1 user queue a", "2 assistant [1] end_turn: one", "3 finished done turns=1 end_turn",
			"4 user queue b", "5 user queue c", "6 assistant [4] end_turn: two", "7 finished done turns=1 end_turn",
			"8 assistant [5] end_turn: three", "9 finished done turns=1 end_turn",
		)
		require.Len(t, w.provider.requests[2].Messages, 5)
	})
}

func TestALargeInputIsLeftToBeRead(t *testing.T) {
	play(t, func(w *world) {
		w.script(text("one"))
		n := w.start()
		w.say("a", `"extra":"`+strings.Repeat("x", 70_000)+`"`)
		w.settled()
		require.Equal(t, tally{commands: 2, pages: 1}, n.line.count())
	})
}

func TestASettlementOfManyTurnsReadsNothing(t *testing.T) {
	play(t, func(w *world) {
		w.script(calls("count", "safe"), calls("count"), fault("permanent", 0))
		n := w.start()
		w.say("a")
		w.settled()
		require.Equal(t, tally{commands: 7}, n.line.count())
	})
}

func TestARunThatWaitedLooksAgain(t *testing.T) {
	play(t, func(w *world) {
		w.script(calls("count"), text("one"))
		n := w.start()
		n.line.after = nthOf[domain.AppendToolResult](1, func() { // its reply is slow
			w.guide("late")
			time.Sleep(300 * time.Millisecond)
		})
		w.say("a")
		w.expect(
			"1 user queue a",
			"2 assistant [1] tool_use: count{}",
			"3 result count {}",
			"4 user guide late",
			"5 assistant [1 4] end_turn: one",
			"6 finished done turns=2 end_turn",
		)
		require.Equal(t, tally{commands: 4, pages: 1, runs: 1}, n.line.count())
	})
}

// points are the commits of a run with a call, and how the request after each is seen to know of what came before it.
var points = []struct {
	name     string
	at       func(f func()) func(domain.Command)
	requests int // that are made when a cancel comes just before the commit
	executed int
}{
	{"the first answer", func(f func()) func(domain.Command) { return nthOf[domain.AppendAssistant](1, f) }, 1, 0},
	{"the result", func(f func()) func(domain.Command) { return nthOf[domain.AppendToolResult](1, f) }, 1, 1},
	{"the last answer", func(f func()) func(domain.Command) { return nthOf[domain.AppendAssistant](2, f) }, 2, 1},
	{"the settlement", func(f func()) func(domain.Command) { return nthOf[domain.Settle](1, f) }, 2, 1},
}

// nthOf returns what calls f at the nth command of type C.
func nthOf[C domain.Command](n int, f func()) func(domain.Command) {
	return func(c domain.Command) {
		if _, ok := c.(C); !ok {
			return
		}
		if n--; n == 0 {
			f()
		}
	}
}

func TestAGuideThatACommitFoundIsPresentedNext(t *testing.T) {
	for _, p := range points {
		t.Run(p.name, func(t *testing.T) {
			play(t, func(w *world) {
				w.script(calls("count"), text("one"), text("two"))
				n := w.start()
				n.line.before = p.at(func() { w.guide("psst") })
				w.say("a")
				w.settled()
				next := w.provider.requests[p.requests]
				require.Contains(t, fmt.Sprint(next.Messages), "psst")
				require.NotContains(t, fmt.Sprint(w.provider.requests[p.requests-1].Messages), "psst")
				require.Zero(t, n.line.count().runs)
			})
		})
	}
}

func TestAGuideAfterACommitIsAnsweredAllTheSame(t *testing.T) {
	for _, p := range points {
		t.Run(p.name, func(t *testing.T) {
			play(t, func(w *world) {
				w.script(calls("count"), text("one"), text("two"))
				n := w.start()
				n.line.after = p.at(func() { w.guide("psst") })
				w.say("a")
				w.settled()
				last := w.provider.requests[len(w.provider.requests)-1]
				require.Contains(t, fmt.Sprint(last.Messages), "psst")
				s, _, err := w.store.Sessions().Get(t.Context(), w.ref)
				require.NoError(t, err)
				require.Empty(t, s.Unanswered)
			})
		})
	}
}

func TestACancelThatACommitFoundHasNoEffectAfterIt(t *testing.T) {
	for _, p := range points {
		t.Run(p.name, func(t *testing.T) {
			play(t, func(w *world) {
				w.script(calls("count"), text("one"))
				n := w.start()
				n.line.before = p.at(w.cancel)
				w.say("a")
				w.settled()
				require.Len(t, w.provider.requests, p.requests)
				require.Equal(t, p.executed, w.tools.times("count"))
				require.Contains(t, w.text(), "finished cancelled")
				require.Equal(t, 1, strings.Count(w.text(), "result ")) // of the tool, or in its stead
			})
		})
	}
}
