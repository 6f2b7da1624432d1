package portstest

import (
	"strings"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// retryOfEnd: rule X. A repeated end of an attempt is answered alike, as long as no later end was recorded.
func retryOfEnd(e *env) {
	for _, end := range []func(w *worker) domain.Command{
		func(w *worker) domain.Command { return w.settle(domain.Failure) },
		func(w *worker) domain.Command { return w.handBack() },
		func(w *worker) domain.Command { return w.park(0) },
	} {
		w := e.started()
		c := end(w)
		out := w.ok(c)
		again := e.unchanged(w.ref, c)
		require.Equal(e, out.Run.Ended, again.Run.Ended)
		require.Equal(e, out.Run.Status, again.Run.Status)
		e.do(w.ref, domain.Unpark{})
		v := e.begin(w.ref)
		e.unchanged(w.ref, c)
		v.ok(v.answer(1))
		v.ok(v.settle(domain.Success))
		w.no(c, domain.ErrFenced) // a later end is recorded now
	}

	w := e.started()
	w.ok(w.answer(1))
	c := w.settle(domain.Success)
	w.ok(c)
	e.unchanged(w.ref, c)
	e.do(w.ref, domain.CloseSession{})
	e.unchanged(w.ref, c)
	require.Equal(e, []domain.Kind{domain.UserMessage, domain.AssistantMessage, domain.RunFinished}, e.kinds(w.ref))

	w = e.started()
	w.cancel()
	e.submit(w.ref)
	c = w.settle(domain.Success)
	w.ok(c)
	next := e.row(w.ref).ActiveRun
	e.unchanged(w.ref, c)
	require.Equal(e, next, e.row(w.ref).ActiveRun, "the retry makes no second successor")
}

// settleTable is the table of commands.md, row by row.
func settleTable(e *env) {
	for _, c := range []struct {
		name     string
		prepare  func(w *worker)
		result   domain.Result
		finished string
		run      domain.RunStatus
		reason   string
		attempts int
	}{
		{"success", func(w *worker) { w.ok(w.answer(1)) }, domain.Success, "done", domain.StatusDone, "", 1},
		{"more input", func(w *worker) { w.ok(w.answer(1)); w.submit(w.ref) }, domain.Success, "done", domain.StatusPending, domain.ReasonMoreInput, 0},
		{"nothing answered", func(*worker) {}, domain.Success, "done", domain.StatusPending, domain.ReasonMoreInput, 0},
		{"turn limit", func(w *worker) { w.ok(w.calling([]domain.Seq{1}, "c")); w.ok(w.result("c")) }, domain.Success, "done", domain.StatusDone, "", 1},
		{"failure", func(w *worker) { w.ok(w.failing(1)) }, domain.Failure, "failed", domain.StatusPending, domain.ReasonFailed, 1},
		{"success claimed after a failure", func(w *worker) { w.ok(w.failing(1)) }, domain.Success, "failed", domain.StatusPending, domain.ReasonFailed, 1},
		{"permanent", func(w *worker) { w.ok(w.failing(1)) }, domain.Permanent, "failed", domain.StatusFailed, domain.ReasonPermanent, 1},
		{"cancelled", func(w *worker) { w.cancel() }, domain.Failure, "cancelled", domain.StatusFailed, domain.ReasonCancelled, 1},
		{"cancelled wins over success", func(w *worker) { w.ok(w.answer(1)); w.cancel() }, domain.Success, "cancelled", domain.StatusFailed, domain.ReasonCancelled, 1},
		{"cancelled wins over permanent", func(w *worker) { w.cancel() }, domain.Permanent, "cancelled", domain.StatusFailed, domain.ReasonCancelled, 1},
	} {
		w := e.started()
		c.prepare(w)
		out := w.ok(w.settle(c.result))
		require.Equal(e, domain.RunFinished, out.Event.Kind, c.name)
		require.Contains(e, out.Event.Payload.String(), `"status":"`+c.finished+`"`, c.name)
		require.Equal(e, w.run, out.Event.RunID)
		require.Equal(e, w.token.Epoch, out.Event.Epoch)
		run := e.run(w.ref, w.run)
		require.Equal(e, c.run, run.Status, c.name)
		require.Equal(e, c.reason, run.Reason, c.name)
		require.Equal(e, c.attempts, run.Attempts, c.name)
		require.Nil(e, run.ClaimSeq, c.name)
		require.Equal(e, c.run != domain.StatusPending, !run.SettledAt.IsZero(), c.name)
		row := e.row(w.ref)
		require.Empty(e, row.Owner, c.name)
		if c.run == domain.StatusPending {
			require.Equal(e, w.run, row.ActiveRun, c.name)
			w = e.begin(w.ref)
			w.ok(w.handBack())
		}
		if c.finished == "failed" {
			require.Equal(e, "why", run.Error, c.name)
		} else {
			require.Empty(e, run.Error, c.name)
			require.Empty(e, row.TurnInputs, c.name)
		}
	}
	w := e.started()
	w.ok(w.answer(1))
	w.ok(w.settle(domain.Success))
	require.EqualValues(e, 3, e.run(w.ref, w.run).ReadWatermark, "success moves the watermark to the head")
	e.submit(w.ref)
	w = e.begin(w.ref)
	require.Zero(e, e.active(w.ref).ReadWatermark, "a claim does not")
	w.ok(w.calling([]domain.Seq{4}, "c"))
	w.ok(w.result("c"))
	w.ok(w.failing(4))
	w.ok(w.settle(domain.Failure))
	require.Equal(e, []domain.Seq{4}, e.row(w.ref).TurnInputs, "a failure keeps the turn's inputs")
	w = e.begin(w.ref)
	w.ok(w.answer(4))
}

func settleWithOpenCalls(e *env) {
	w := e.started()
	w.ok(w.calling([]domain.Seq{1}, "c"))
	w.no(w.settle(domain.Success), domain.ErrOpenCalls)
	w.no(w.settle(domain.Permanent), domain.ErrOpenCalls)
	w.ok(w.settle(domain.Failure))
	require.Equal(e, []string{"c"}, e.openIDs(w.ref), "a repeated attempt finds them")
	v := e.begin(w.ref)
	v.cancel()
	v.no(v.settle(domain.Failure), domain.ErrOpenCalls)
	standIn := v.result("c")
	standIn.Payload = domaintest.StandIn("c")
	v.ok(standIn)
	v.ok(v.settle(domain.Failure))
	require.Equal(e, domain.StatusFailed, e.status(v.ref, v.run))
}

// settleCleans: nothing in a summary or an error text can stop a settlement.
func settleCleans(e *env) {
	w := e.started()
	c := w.settle(domain.Permanent)
	c.Error = "bad \x00 text \xff"
	c.Summary = domain.Summary{Turns: -1, Error: "bad \x00 \xff", ToolTimings: []domain.ToolTiming{{Name: "\xff"}}}
	out := w.ok(c)
	require.Equal(e, domain.StatusFailed, e.status(w.ref, w.run))
	require.Contains(e, out.Event.Payload.String(), `"status":"failed"`)
	got := e.run(w.ref, w.run).Error
	require.True(e, utf8.ValidString(got) && !strings.Contains(got, "\x00") && strings.HasPrefix(got, "bad "), "%q", got)
	e.unchanged(w.ref, c)
}

func handBack(e *env) {
	w := e.started()
	w.ok(w.calling([]domain.Seq{1}, "c"))
	e.submit(w.ref)
	w.cancel()
	before := e.row(w.ref)
	w.ok(w.handBack())
	run := e.active(w.ref)
	require.Equal(e, domain.StatusPending, run.Status)
	require.Zero(e, run.Attempts)
	require.EqualValues(e, 1, *run.ClaimSeq)
	require.EqualValues(e, 3, *run.CancelSeq)
	row := e.row(w.ref)
	require.Equal(e, before.TurnInputs, row.TurnInputs)
	require.Equal(e, before.HeadSeq, row.HeadSeq, "no event")
	v := e.begin(w.ref)
	require.Equal(e, domain.ClaimCancelled, v.mode)
}

// rescue: only from the dead, the attempt stays counted, and the second in a row waits.
func rescue(e *env) {
	w := e.started()
	e.unchanged(w.ref, domain.Rescue{Run: w.run})
	e.submit(w.ref)
	w.die()
	run := e.active(w.ref)
	require.Equal(e, domain.StatusPending, run.Status)
	require.Equal(e, domain.ReasonRescued, run.Reason)
	require.Equal(e, 1, run.Attempts)
	require.EqualValues(e, 1, *run.ClaimSeq, "the same turn goes on")
	e.unchanged(w.ref, domain.Rescue{Run: w.run})

	v := e.begin(w.ref) // the first time at once
	require.Equal(e, 2, v.claim.Attempts)
	require.NoError(e, e.Processes.Deregister(e.ctx, v.token.Process))
	e.proc = ""
	_, _, err := e.Processes.Bury(e.ctx)
	require.NoError(e, err)
	e.do(w.ref, domain.Rescue{Run: w.run, Jitter: 0.99})
	require.Empty(e, e.claims(e.process(), 10), "the second time after a back-off")
	e.do(w.ref, domain.EnsureRun{At: e.at(), NewRun: e.id("r")}) // ends it
	v = e.begin(w.ref)
	v.ok(v.answer(1))
	v.ok(v.settle(domain.Success))
	require.Equal(e, domain.StatusPending, e.status(w.ref, w.run), "the input beyond the claim is next")
}

func park(e *env) {
	w := e.started()
	w.ok(w.calling([]domain.Seq{1}, "c1", "c2"))
	w.ok(w.start("c2"))
	e.submit(w.ref)
	w.no(w.park(0), domain.ErrOpenCalls) // c2 is running
	seen := e.active(w.ref).Signals
	e.do(w.ref, domain.Unpark{}) // the decision is answered before the parking
	out := e.unchanged(w.ref, w.park(seen, "c2"))
	require.True(e, out.Signalled)
	require.Equal(e, domain.StatusRunning, e.active(w.ref).Status)
	seen = e.active(w.ref).Signals
	head := e.row(w.ref).HeadSeq
	out = w.ok(w.park(seen, "c2"))
	require.False(e, out.Signalled)
	run := e.active(w.ref)
	require.Equal(e, domain.StatusPending, run.Status)
	require.True(e, run.Parked)
	require.Equal(e, `{"decision":"d"}`, run.Wait)
	require.Zero(e, run.Attempts)
	require.EqualValues(e, 1, *run.ClaimSeq)
	row := e.row(w.ref)
	require.Equal(e, head, row.HeadSeq, "no event")
	require.Equal(e, []domain.Seq{1}, row.TurnInputs)

	require.Empty(e, e.claims(e.process(), 10), "a parked run is not claimed")
	e.do(w.ref, domain.EnsureRun{At: e.at(), NewRun: e.id("r")})
	e.submit(w.ref)
	require.True(e, e.active(w.ref).Parked, "neither a wish nor an input unparks")
	require.Empty(e, e.claims(e.process(), 10))
	e.do(w.ref, domain.Unpark{})
	e.do(w.ref, domain.Unpark{}) // harmless
	v := e.begin(w.ref)
	require.Empty(e, v.claim.Wait)
	require.EqualValues(e, 1, *v.claim.ClaimSeq, "the same turn goes on")
	require.Equal(e, seen+2, v.claim.Signals)
	v.cancel()
	v.no(v.park(v.claim.Signals, "c1", "c2"), domain.ErrCancelled)

	idle := e.session()
	e.unchanged(idle, domain.Unpark{})
}

// budgetOfAttempts: the attempt counts when it is claimed, and a spent budget is finished, not worked.
func budgetOfAttempts(e *env) {
	ref := e.session()
	e.submit(ref)
	var w *worker
	for i := range budget {
		w = e.begin(ref)
		require.Equal(e, domain.ClaimWork, w.mode)
		require.Equal(e, i+1, w.claim.Attempts)
		w.die()
		e.do(ref, domain.EnsureRun{At: e.at(), NewRun: e.id("r")}) // end the back-off
	}
	w = e.begin(ref)
	require.Equal(e, domain.ClaimExhausted, w.mode, "a process that crashes each time uses the budget up")
	w.ok(w.settle(domain.Failure))
	run := e.run(ref, w.run)
	require.Equal(e, domain.StatusFailed, run.Status)
	require.Equal(e, domain.ReasonExhausted, run.Reason)
	require.Empty(e, e.row(ref).ActiveRun)
	require.Equal(e, []domain.Seq{1}, e.row(ref).Unanswered)

	w = e.started()
	for range budget - 1 {
		w.ok(w.settle(domain.Failure))
		w = e.begin(w.ref)
	}
	require.Equal(e, budget, w.claim.Attempts)
	w.ok(w.settle(domain.Failure))
	require.Equal(e, domain.StatusFailed, e.status(w.ref, w.run), "the last failure is final")
	for range budget + 2 {
		v := e.started()
		v.ok(v.handBack())
		v = e.begin(v.ref)
		require.Equal(e, 1, v.claim.Attempts, "a hand-back costs nothing")
		v.ok(v.handBack())
	}
}
