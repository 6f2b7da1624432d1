package runner_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestARequestWaitsForToolsThatLoad(t *testing.T) {
	play(t, func(w *world) {
		w.script(calls(`count`), text("done"))
		w.tools.known = make(chan struct{})
		n := w.start()
		w.say("go")
		time.Sleep(5 * time.Second)
		require.Empty(t, w.provider.requests)
		close(w.tools.known)
		w.expect(
			"1 user queue go", `2 assistant [1] tool_use: count{}`, "3 result count {}", "4 assistant [1] end_turn: done", "5 finished done turns=2 end_turn",
		)
		require.Len(t, w.provider.requests[0].Tools, 6)
		n.drain(time.Second)
	})
}

// A process that takes over knows its tools later than the calls that it finds.
func TestACallThatIsTakenOverIsNotRefusedWhileToolsLoad(t *testing.T) {
	play(t, func(w *world) {
		w.script(calls(`safe{"s":40}`), text("done by the second"))
		first := w.start()
		w.say("go")
		time.Sleep(time.Second)
		first.line.setCut(true)
		w.tools.known = make(chan struct{})
		second := w.start()
		time.Sleep(20 * time.Second)
		close(w.tools.known)
		w.expect(
			"1 user queue go", `2 assistant [1] tool_use: safe{"s":40}`, `3 result safe {"s":40}`, "4 assistant [1] end_turn: done by the second",
			"5 finished done turns=1 end_turn",
		)
		first.line.setCut(false)
		first.drain(time.Second)
		second.drain(time.Second)
	})
}

func TestToolsThatNeverLoadHoldUpNobodyForEver(t *testing.T) {
	play(t, func(w *world) {
		w.script(calls(`count`), text("without"))
		w.tools.known = make(chan struct{})
		n := w.start()
		began := time.Now()
		w.say("go")
		w.expect(
			"1 user queue go", `2 assistant [1] tool_use: count{}`, `3 result There is no tool named "count". (error)`, "4 assistant [1] end_turn: without",
			"5 finished done turns=2 end_turn",
		)
		require.Equal(t, 30*time.Second, time.Since(began).Truncate(time.Second), "15 s for each request")
		require.Empty(t, w.provider.requests[0].Tools)
		n.drain(time.Second)
	})
}

func TestACancelDoesNotWaitForToolsThatLoad(t *testing.T) {
	play(t, func(w *world) {
		w.script(text("never asked for"))
		w.tools.known = make(chan struct{})
		n := w.start()
		w.say("go")
		time.Sleep(time.Second)
		w.cancel()
		time.Sleep(time.Second)
		require.Equal(t, "1 user queue go\n2 finished cancelled turns=0 aborted", w.text())
		require.Empty(t, w.provider.requests)
		n.drain(time.Second)
	})
}

// Nor when the taking over itself is cancelled meanwhile.
func TestACallIsNotRefusedForACancelWhileToolsLoad(t *testing.T) {
	play(t, func(w *world) {
		w.script(calls(`safe{"s":40}`), text("never asked for"))
		first := w.start()
		w.say("go")
		time.Sleep(time.Second)
		first.line.setCut(true)
		w.tools.known = make(chan struct{})
		second := w.start()
		time.Sleep(20 * time.Second)
		w.cancel()
		w.expect(
			"1 user queue go", `2 assistant [1] tool_use: safe{"s":40}`, "3 result The call was interrupted: the user cancelled. (error) (interrupted)",
			"4 finished cancelled turns=0 aborted",
		)
		first.line.setCut(false)
		first.drain(time.Second)
		second.drain(time.Second)
	})
}

func TestToolsAreLookedUpAnewForEachRequest(t *testing.T) {
	play(t, func(w *world) {
		w.script(text("without"), calls(`count`), text("with"))
		w.tools.known = make(chan struct{})
		n := w.start()
		w.say("first")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, w.provider.requests[0].Tools)
		close(w.tools.known)
		w.say("second")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, w.provider.requests[1].Tools, 6)
		require.Equal(t, 1, w.tools.times("count"))
		n.drain(time.Second)
	})
}
