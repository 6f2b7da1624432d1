package portstest

import (
	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// workerRefusals gives each worker command several faults at once: the first of them in the order of commands.md is
// the answer.
func workerRefusals(e *env) {
	w := e.started()
	known := w.calling([]domain.Seq{1}, "used", "open")
	w.ok(known)
	knownResult := w.result("used")
	w.ok(knownResult)
	stale := *w
	stale.token.Epoch--
	thief := *w
	thief.token.Process = e.process()
	ahead := *w
	ahead.token.Epoch++
	nobody := *w
	nobody.token = domain.Token{}
	other := *w
	other.run = "other"

	answerAs := func(v *worker, key string, p domain.Payload) domain.Command {
		a := v.append(p)
		a.GenerationID = key
		return a
	}
	resultAs := func(v *worker, call string, p domain.Payload) domain.Command {
		r := v.result(call)
		r.Payload = p
		return r
	}
	shape := func(text string) domain.Payload { return domaintest.Payload(text) }
	fine := domaintest.AssistantText(nil, "x")
	reuse := domaintest.AssistantCalls([]domain.Seq{99}, "x", domaintest.Call{ID: "used", Name: "tool"})
	for _, c := range []struct {
		name string
		cmd  domain.Command
		want error
	}{
		{"answer: no key, bad payload, stale", answerAs(&stale, "", shape(`{}`)), domain.ErrInvalidKey},
		{"answer: bad payload, stale", answerAs(&stale, "k", shape(`{}`)), domain.ErrInvalidPayload},
		{"answer: unknown stop reason", answerAs(w, "k", shape(`{"content":[],"stopReason":"done"}`)), domain.ErrInvalidPayload},
		{"answer: turn_limit is not one", answerAs(w, "k", shape(`{"content":[],"stopReason":"turn_limit"}`)), domain.ErrInvalidPayload},
		{"answer: call without id", answerAs(w, "k", shape(`{"content":[{"type":"toolCall","name":"n","arguments":{}}],"stopReason":"tool_use"}`)), domain.ErrInvalidPayload},
		{"answer: call without name", answerAs(w, "k", shape(`{"content":[{"type":"toolCall","id":"i","arguments":{}}],"stopReason":"tool_use"}`)), domain.ErrInvalidPayload},
		{"answer: one id twice", answerAs(w, "k", domaintest.AssistantCalls(nil, "", domaintest.Call{ID: "x", Name: "n"}, domaintest.Call{ID: "x", Name: "n"})), domain.ErrInvalidPayload},
		{"answer: inputSeqs descend", answerAs(w, "k", domaintest.AssistantText([]domain.Seq{2, 1}, "")), domain.ErrInvalidPayload},
		{"answer: inputSeqs repeat", answerAs(w, "k", domaintest.AssistantText([]domain.Seq{1, 1}, "")), domain.ErrInvalidPayload},
		{"answer: inputSeqs of zero", answerAs(w, "k", domaintest.AssistantText([]domain.Seq{0}, "")), domain.ErrInvalidPayload},
		{"answer: stale, known key", answerAs(&stale, known.GenerationID, fine), domain.ErrFenced},
		{"answer: known key, calls open", answerAs(w, known.GenerationID, fine), domain.ErrIdempotencyConflict},
		{"answer: calls open, id used, no input", answerAs(w, "k", reuse), domain.ErrOpenCalls},

		{"result: no key", resultAs(&stale, "", shape(`{}`)), domain.ErrInvalidKey},
		{"result: bad payload, stale", resultAs(&stale, "open", shape(`{}`)), domain.ErrInvalidPayload},
		{"result: of another call", resultAs(&stale, "open", domaintest.Result("used", "")), domain.ErrInvalidPayload},
		{"result: stale, known key", resultAs(&stale, "used", domaintest.Result("used", "other")), domain.ErrFenced},
		{"result: known key", resultAs(w, "used", domaintest.Result("used", "other")), domain.ErrIdempotencyConflict},
		{"result: no such call", w.result("nowhere"), domain.ErrUnknownCall},

		{"start: stale, no such call", stale.start("nowhere"), domain.ErrFenced},
		{"start: no such call", w.start("nowhere"), domain.ErrUnknownCall},
		{"start: has its result", w.start("used"), domain.ErrUnknownCall},
		{"start: one of them unknown", w.start("open", "nowhere"), domain.ErrUnknownCall},

		{"compaction: bad payload, stale", domain.AppendCompaction{Run: w.run, Token: stale.token, Payload: shape(`{"summary":"s"}`)}, domain.ErrInvalidPayload},
		{"compaction: no summary", domain.AppendCompaction{Run: w.run, Token: w.token, Payload: shape(`{"firstKeptSeq":1}`)}, domain.ErrInvalidPayload},
		{"compaction: stale, calls open", stale.compaction(1), domain.ErrFenced},
		{"compaction: calls open, beyond the head", w.compaction(99), domain.ErrOpenCalls},

		{"settle: stale, calls open", stale.settle(domain.Success), domain.ErrFenced},
		{"settle: calls open", w.settle(domain.Success), domain.ErrOpenCalls},
	} {
		_, err := e.Ledger.Do(e.ctx, w.ref, c.cmd)
		require.ErrorIs(e, err, c.want, c.name)
		w.no(c.cmd, c.want)
	}
	for _, v := range []*worker{&stale, &thief, &ahead, &nobody, &other} {
		v.fenced()
	}
	w.ok(w.result("open"))
	w.no(answerAs(w, "k", reuse), domain.ErrCallIDUsed)
	w.no(answerAs(w, "k", domaintest.AssistantText([]domain.Seq{2}, "an answer is no input")), domain.ErrInvalidPayload)
	w.no(answerAs(w, "k", domaintest.AssistantText([]domain.Seq{99}, "beyond the head")), domain.ErrInvalidPayload)
	starts := w.calling([]domain.Seq{1}, "c9")
	starts.Start = []string{"c8"}
	w.no(starts, domain.ErrUnknownCall)
	w.ok(w.answer(1))
	w.no(w.answer(1), domain.ErrInvalidPayload) // of an earlier turn
}

// fencedAfterEnd: whatever ended an attempt, its token is refused for ever, also under the next attempt's epoch.
func fencedAfterEnd(e *env) {
	for name, end := range map[string]func(w *worker) domain.Command{
		"settled, done": func(w *worker) domain.Command {
			w.ok(w.answer(1))
			c := w.settle(domain.Success)
			w.ok(c)
			return c
		},
		"settled, to be repeated": func(w *worker) domain.Command {
			c := w.settle(domain.Failure)
			w.ok(c)
			return c
		},
		"settled, more input": func(w *worker) domain.Command {
			w.submit(w.ref)
			w.ok(w.answer(1))
			c := w.settle(domain.Success)
			w.ok(c)
			return c
		},
		"settled, cancelled": func(w *worker) domain.Command {
			w.cancel()
			c := w.settle(domain.Success)
			w.ok(c)
			return c
		},
		"handed back": func(w *worker) domain.Command {
			c := w.handBack()
			w.ok(c)
			return c
		},
		"parked": func(w *worker) domain.Command {
			c := w.park(0)
			w.ok(c)
			return c
		},
		"rescued": func(w *worker) domain.Command {
			w.die()
			return domain.Rescue{}
		},
	} {
		w := e.started()
		c := end(w)
		require.Empty(e, e.row(w.ref).Owner, name)
		w.fenced(c)
		e.do(w.ref, domain.Unpark{})
		e.do(w.ref, e.input("go on"))
		v := e.begin(w.ref)
		require.Greater(e, v.token.Epoch, w.token.Epoch, name)
		sameRun := v.run == w.run
		w.fenced(c)
		if sameRun {
			imitation := *w
			imitation.token = domain.Token{Process: e.process(), Epoch: v.token.Epoch}
			imitation.fenced()
		}
		require.Equal(e, v.token.Process, e.row(w.ref).Owner, name)
		v.ok(v.handBack())
	}
}

// repliesTell: each reply to a worker says how the session stood after the command, with all that others had committed
// before it. A worker that got it need not look.
func repliesTell(e *env) {
	w := e.started()
	told := func(out domain.Outcome, head domain.Seq, open, unanswered int) {
		e.Helper()
		require.Equal(e, head, out.Session.HeadSeq)
		require.Equal(e, open, out.Session.OpenCalls)
		require.Len(e, out.Session.Unanswered, unanswered)
		require.Equal(e, w.run, out.Run.ID)
	}
	edge := e // another process, if the store can have one
	if e.Reopen != nil {
		edge = newEnv(e.T, e.Reopen(e.T))
		edge.n.Store(1000)
	}
	first := w.calling([]domain.Seq{1}, w.id("a"), w.id("b"))
	told(w.ok(first), 2, 2, 0)
	edge.do(w.ref, edge.guide("hold on"))
	told(w.ok(first), 3, 2, 1) // again
	m, err := domain.ParseAssistant(first.Payload)
	require.NoError(e, err)
	result := w.result(m.CallIDs()[0])
	told(w.ok(result), 4, 1, 1)
	edge.submit(w.ref)
	told(w.ok(w.result(m.CallIDs()[1])), 6, 0, 2)
	edge.do(w.ref, domain.RequestCancel{Run: w.run})
	out := w.ok(result) // again
	told(out, 6, 0, 2)
	require.NotNil(e, out.Run.CancelSeq)
}

// anothersRun: a worker that owns two sessions at equal epochs cannot write to one in the name of the other's run.
func anothersRun(e *env) {
	process := e.process()
	a, b := e.session(), e.session()
	e.submit(a)
	w := e.begin(a, process)
	e.submit(b)
	v := e.begin(b, process)
	require.Equal(e, w.token, v.token)
	mixed := *w
	mixed.run = v.run
	mixed.fenced()
	require.Equal(e, domain.StatusRunning, e.status(b, v.run))
	_, err := e.Runs.Get(e.ctx, a, v.run)
	require.ErrorIs(e, err, domain.ErrNotFound)
	e.unchanged(a, domain.Rescue{Run: v.run})
}

// retryOfOwnerEvent: under a lease that holds, a known key is the first outcome.
func retryOfOwnerEvent(e *env) {
	w := e.started()
	a := w.calling([]domain.Seq{1}, "c1", "c2")
	a.Start = []string{"c2"}
	first := w.ok(a)
	require.Equal(e, []string{"c2"}, first.Started)
	a.At = e.at()
	again := e.unchanged(w.ref, a)
	require.Equal(e, *first.Event, *again.Event)
	require.Equal(e, first.Started, again.Started)

	r := w.result("c1")
	out := w.ok(r)
	r.At = e.at()
	require.Equal(e, *out.Event, *e.unchanged(w.ref, r).Event)
	w.ok(w.result("c2"))
	require.Equal(e, *out.Event, *e.unchanged(w.ref, r).Event)
	require.Equal(e, *first.Event, *e.unchanged(w.ref, a).Event)

	w.ok(w.handBack())
	w.no(a, domain.ErrFenced)
	w.no(r, domain.ErrFenced)
	v := e.begin(w.ref)
	r.Token, a.Token = v.token, v.token
	require.Equal(e, *out.Event, *e.unchanged(w.ref, r).Event, "the next attempt's lease serves as well")
	require.Equal(e, *first.Event, *e.unchanged(w.ref, a).Event)
}
