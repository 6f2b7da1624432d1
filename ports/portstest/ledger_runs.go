package portstest

import (
	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

func ensureRun(e *env) {
	ref := e.session()
	ensure := func(compact bool) domain.EnsureRun {
		return domain.EnsureRun{At: e.at(), Compact: compact, NewRun: e.id("r")}
	}
	require.Nil(e, e.unchanged(ref, ensure(false)).Run, "there is nothing to do")

	w := e.started()
	w.ok(w.failing(1))
	w.ok(w.settle(domain.Permanent))
	c := ensure(false)
	out := e.do(w.ref, c)
	require.Equal(e, c.NewRun, out.Run.ID, "an unanswered input is work")
	require.Equal(e, c.NewRun, e.active(w.ref).ID)
	require.Equal(e, c.NewRun, e.do(w.ref, ensure(false)).Run.ID, "one active run")

	w = e.begin(w.ref)
	require.Equal(e, w.run, e.unchanged(w.ref, ensure(false)).Run.ID)
	require.True(e, e.do(w.ref, ensure(true)).Run.Compact)
	e.unchanged(w.ref, ensure(true))
	failure := w.settle(domain.Failure)
	failure.Backoff = long
	w.ok(failure)
	require.Empty(e, e.claims(e.process(), 10))
	e.do(w.ref, ensure(false))
	w = e.begin(w.ref) // the back-off was ended
	w.cancel()
	c = ensure(false)
	out = e.do(w.ref, c)
	require.Equal(e, c.NewRun, out.Run.ID, "after the cancelled one")
	require.Equal(e, c.NewRun, e.unchanged(w.ref, ensure(false)).Run.ID, "promised once")
	w.ok(w.settle(domain.Failure))
	require.Equal(e, c.NewRun, e.active(w.ref).ID)
	require.True(e, e.active(w.ref).Compact)

	owed := e.started()
	owed.ok(owed.calling([]domain.Seq{1}, "c"))
	owed.ok(owed.result("c"))
	owed.ok(owed.settle(domain.Success)) // turn limit
	require.Empty(e, e.row(owed.ref).ActiveRun)
	require.True(e, e.do(owed.ref, ensure(false)).Created, "an owed turn is work")

	idle := e.session()
	c = ensure(true)
	require.True(e, e.do(idle, c).Run.Compact, "a compaction is work")
	w = e.begin(idle)
	w.ok(w.compaction(0))
	w.ok(w.settle(domain.Success))
	made := func() {
		again := e.unchanged(idle, c).Run
		require.Equal(e, c.NewRun, again.ID, "the reply was lost, and the run has ended since")
		require.Equal(e, domain.StatusDone, again.Status)
	}
	made()
	e.submit(idle)
	made()
	w = e.begin(idle)
	w.cancel()
	made()
	w.ok(w.settle(domain.Failure))
	e.do(idle, domain.CloseSession{})
	made()
}

func cancelInEachState(e *env) {
	cancel := func(ref domain.SessionRef) domain.Outcome {
		return e.do(ref, domain.RequestCancel{})
	}
	again := func(ref domain.SessionRef) { e.unchanged(ref, domain.RequestCancel{}) }
	idle := e.session()
	again(idle)

	pending := e.session()
	e.submit(pending)
	require.EqualValues(e, 1, *cancel(pending).Run.CancelSeq)
	again(pending)
	require.Len(e, e.events(pending), 1, "no event")
	w := e.begin(pending)
	require.Equal(e, domain.ClaimCancelled, w.mode)
	w.ok(w.settle(domain.Failure))
	require.Equal(e, domain.ReasonCancelled, e.run(pending, w.run).Reason)
	require.Empty(e, e.row(pending).ActiveRun)
	require.Equal(e, []domain.Seq{1}, e.row(pending).Unanswered, "the input stays unanswered")

	w = e.started()
	failure := w.settle(domain.Failure)
	failure.Backoff = long
	w.ok(failure)
	cancel(w.ref)
	w = e.begin(w.ref) // due at once
	require.Equal(e, domain.ClaimCancelled, w.mode)
	require.Equal(e, 2, w.claim.Attempts)

	parked := e.started()
	parked.ok(parked.park(0))
	cancel(parked.ref)
	require.False(e, e.active(parked.ref).Parked)
	require.Equal(e, domain.ClaimCancelled, e.begin(parked.ref).mode)

	running := e.started()
	e.submit(running.ref)
	out := cancel(running.ref)
	require.Equal(e, domain.StatusRunning, out.Run.Status, "the owner settles it")
	require.EqualValues(e, 2, *out.Run.CancelSeq)
	again(running.ref)
	require.NotNil(e, running.ok(running.answer(1)).Run.CancelSeq, "every reply tells the worker")
	running.ok(running.settle(domain.Success))
	require.Empty(e, e.row(running.ref).ActiveRun, "the input came before the cancel")
	again(running.ref)
}

func cancelNamesItsRun(e *env) {
	w := e.started()
	w.ok(w.answer(1))
	w.ok(w.settle(domain.Success))
	e.submit(w.ref)
	e.unchanged(w.ref, domain.RequestCancel{Run: w.run}) // a late retry
	require.Nil(e, e.active(w.ref).CancelSeq)
	e.do(w.ref, domain.RequestCancel{Run: e.active(w.ref).ID})
	require.NotNil(e, e.active(w.ref).CancelSeq)
}

// inputAfterCancel gets the run after the cancelled one, promised once and made by the settlement.
func inputAfterCancel(e *env) {
	w := e.started()
	w.cancel()
	first, second := e.input("a"), e.guide("b")
	out := e.do(w.ref, first)
	require.Equal(e, first.NewRun, out.Run.ID)
	require.Equal(e, first.NewRun, out.Event.RunID)
	require.Equal(e, first.NewRun, e.do(w.ref, second).Event.RunID)
	require.Equal(e, first.NewRun, e.active(w.ref).NextRunID)
	require.Equal(e, w.run, e.active(w.ref).ID)
	require.Equal(e, *out.Event, *e.unchanged(w.ref, first).Event)
	w.ok(w.settle(domain.Success))
	next := e.active(w.ref)
	require.Equal(e, first.NewRun, next.ID)
	require.Equal(e, domain.StatusPending, next.Status)
	v := e.begin(w.ref)
	v.ok(v.answer(1, 2, 3)) // what the cancelled run left is in the ledger
	v.ok(v.settle(domain.Success))
	require.Equal(e, domain.StatusDone, e.status(w.ref, v.run))

	ref := e.session()
	e.submit(ref)
	e.do(ref, domain.RequestCancel{})
	late := e.input("late")
	require.Equal(e, late.NewRun, e.do(ref, late).Event.RunID)
	e.begin(ref).handBackAndFinish()
	require.Equal(e, late.NewRun, e.active(ref).ID)
}

// handBackAndFinish ends a cancelled run by way of a hand-over.
func (w *worker) handBackAndFinish() {
	w.Helper()
	w.ok(w.handBack())
	v := w.begin(w.ref)
	require.Equal(w, domain.ClaimCancelled, v.mode)
	v.ok(v.settle(domain.Failure))
}

// inputBeyondFailure: a claimed or presented input shares its run's failure, a later one gets a successor.
func inputBeyondFailure(e *env) {
	w := e.started()
	e.submit(w.ref)
	c := w.settle(domain.Permanent)
	w.ok(c)
	require.Equal(e, c.NewRun, e.active(w.ref).ID)
	require.Equal(e, domain.StatusFailed, e.status(w.ref, w.run))
	v := e.begin(w.ref)
	v.ok(v.answer(1, 2))

	w = e.started()
	w.ok(e.guide("now"))
	c = w.settle(domain.Permanent)
	c.Presented = []domain.Seq{2}
	w.ok(c)
	require.Empty(e, e.row(w.ref).ActiveRun, "the guide was presented")

	w = e.started()
	w.ok(e.guide("now"))
	w.ok(w.settle(domain.Permanent))
	require.NotEmpty(e, e.row(w.ref).ActiveRun, "the guide was not")

	w = e.started()
	e.submit(w.ref)
	w.ok(w.settle(domain.Failure))
	require.Equal(e, w.run, e.row(w.ref).ActiveRun, "a repeated run takes it along")
	require.EqualValues(e, 3, *e.begin(w.ref).claim.ClaimSeq)
}

func closeSession(e *env) {
	idle := e.session()
	e.do(idle, domain.CloseSession{})
	require.Equal(e, domain.SessionClosed, e.row(idle).State)
	e.unchanged(idle, domain.CloseSession{})
	e.unchanged(idle, domain.RequestCancel{})
	e.unchanged(idle, domain.Unpark{})

	w := e.started()
	w.ok(w.calling([]domain.Seq{1}, "c"))
	e.do(w.ref, domain.CloseSession{})
	require.Equal(e, domain.SessionClosing, e.row(w.ref).State)
	require.NotNil(e, e.active(w.ref).CancelSeq)
	e.unchanged(w.ref, domain.CloseSession{})
	e.refused(w.ref, e.input("more"), domain.ErrSessionClosed)
	e.refused(w.ref, domain.EnsureRun{At: e.at(), NewRun: e.id("r")}, domain.ErrSessionClosed)
	title := "still"
	e.do(w.ref, domain.PatchSession{Title: &title})
	w.ok(w.result("c")) // the owner may finish
	w.ok(w.settle(domain.Failure))
	require.Equal(e, domain.SessionClosed, e.row(w.ref).State)
	require.Empty(e, e.row(w.ref).ActiveRun)

	promised := e.started()
	promised.cancel()
	e.submit(promised.ref)
	e.do(promised.ref, domain.CloseSession{})
	promised.ok(promised.settle(domain.Failure))
	require.Equal(e, domain.SessionClosed, e.row(promised.ref).State)
	require.Empty(e, e.row(promised.ref).ActiveRun, "a closing session gets no successor")

	pending := e.session()
	e.submit(pending)
	e.do(pending, domain.CloseSession{})
	v := e.begin(pending)
	require.Equal(e, domain.ClaimCancelled, v.mode)
	v.die()
	v = e.begin(pending)
	v.ok(v.settle(domain.Failure))
	require.Equal(e, domain.SessionClosed, e.row(pending).State)

	ext := e.session(external)
	e.do(ext, domain.CloseSession{})
	require.Equal(e, domain.SessionClosed, e.row(ext).State)
}

func patch(e *env) {
	ref := e.session(func(c *domain.CreateSession) {
		c.Info = domain.SessionInfo{Title: "t", Model: "m", System: "s", Metadata: domaintest.Payload(`{"k":"v"}`)}
	})
	title, model, meta := "", "other ? $1 'x'", domaintest.Payload(`{"n":9007199254740993}`)
	e.do(ref, domain.PatchSession{Title: &title})
	row := e.row(ref)
	require.Equal(e, "", row.Title)
	require.Equal(e, "m", row.Model)
	require.Equal(e, `{"k":"v"}`, row.Metadata.String())
	e.do(ref, domain.PatchSession{Model: &model, Metadata: &meta})
	row = e.row(ref)
	require.Equal(e, model, row.Model)
	require.Equal(e, "s", row.System)
	require.Equal(e, meta.String(), row.Metadata.String())
	e.submit(ref) // an append leaves it alone
	require.Equal(e, row.SessionInfo, e.row(ref).SessionInfo)
}

// notifications: a commit is told once, after it is durable, with what it appended.
func notifications(e *env) {
	if e.Notified == nil {
		e.Skip("the store has no recorder")
	}
	ref := e.session()
	e.Notified.Take()
	c := e.input("hello")
	out := e.do(ref, c)
	told := e.Notified.Take()
	require.Len(e, told, 1)
	require.Equal(e, ref, told[0].Ref)
	require.True(e, told[0].Wake.Readers && told[0].Wake.Queue)
	require.Equal(e, []domain.Event{*out.Event}, told[0].Events)
	_, err := e.Ledger.Do(e.ctx, ref, c)
	require.NoError(e, err)
	require.Empty(e, e.Notified.Take(), "a replay wakes nobody")
	c.Payload = domaintest.User(c.RequestID, "other")
	_, err = e.Ledger.Do(e.ctx, ref, c)
	require.Error(e, err)
	require.Empty(e, e.Notified.Take(), "a refusal wakes nobody")

	w := e.begin(ref)
	e.Notified.Take()
	e.do(ref, domain.RequestCancel{})
	told = e.Notified.Take()
	require.Len(e, told, 1)
	require.Equal(e, w.token.Process, told[0].Wake.Owner)

	child := e.session(func(c *domain.CreateSession) { c.Parent = &domain.Parent{Session: ref.Session, Run: "r", Call: "c"} })
	e.submit(child)
	v := e.begin(child)
	v.ok(v.answer(1))
	e.Notified.Take()
	v.ok(v.settle(domain.Success))
	told = e.Notified.Take()
	require.Len(e, told, 1)
	require.Equal(e, ref, *told[0].Wake.Parent)
}

// reopened: what was committed is there for another process, and the lease holds there too.
func reopened(e *env) {
	if e.Reopen == nil {
		e.Skip("the store is of one process")
	}
	w := e.started()
	a := w.calling([]domain.Seq{1}, "c")
	w.ok(a)
	before := e.facts(w.ref)
	there := newEnv(e.T, e.Reopen(e.T))
	require.Equal(e, before, there.facts(w.ref))
	there.n.Store(1000)
	v := *w
	v.env = there
	there.unchanged(w.ref, a)
	v.ok(v.result("c"))
	require.Equal(e, there.facts(w.ref), e.facts(w.ref))
	w.ok(w.answer(1))
	v.ok(v.settle(domain.Success))
	w.fenced(domain.Settle{})
}
