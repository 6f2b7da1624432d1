package portstest

import (
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// retryOfInput: whatever happens meanwhile, a repeated input is the first submission.
func retryOfInput(e *env) {
	ref := e.session()
	c := e.input("hello")
	first := e.do(ref, c)
	require.True(e, first.Created)
	require.EqualValues(e, 1, first.Event.Seq)
	require.Equal(e, c.NewRun, first.Event.RunID)
	require.Equal(e, first.Event.RunID, e.row(ref).ActiveRun)

	again := func() {
		c.At, c.NewRun = e.at(), e.id("r")
		out := e.unchanged(ref, c)
		require.Equal(e, *first.Event, *out.Event)
		if out.Run != nil {
			require.Equal(e, first.Event.RunID, out.Run.ID, "a later run has nothing to do with it")
		}
	}
	conflict := func() {
		other := c
		other.Payload = domaintest.User(c.RequestID, "bye")
		e.refused(ref, other, domain.ErrIdempotencyConflict)
	}
	again()
	conflict()
	w := e.begin(ref)
	again()
	w.ok(w.failing(1))
	w.ok(w.settle(domain.Permanent))
	require.Empty(e, e.row(ref).ActiveRun)
	again() // the run failed: the retry does not start another
	conflict()
	e.do(ref, domain.EnsureRun{At: e.at(), NewRun: e.id("r")})
	w = e.begin(ref)
	again()
	w.ok(w.answer(1))
	w.ok(w.settle(domain.Success))
	again()
	conflict()
}

// keySpaces: keys of different kinds never meet, so that a client cannot block an owner's commit (K15, 4).
func keySpaces(e *env) {
	ref := e.session()
	for _, id := range []string{"call_0", "gen_0", "toolCallId:call_0"} {
		c := e.input("x")
		c.RequestID, c.Payload = id, domaintest.User(id, "x")
		e.do(ref, c)
	}
	w := e.begin(ref)
	calling := w.calling([]domain.Seq{1}, "call_0")
	calling.GenerationID = "gen_0"
	w.ok(calling)
	w.ok(w.result("call_0"))
	answer := w.answer(1, 2, 3)
	answer.GenerationID = "call_0"
	w.ok(answer)
	require.Equal(e, []string{"requestId:call_0", "requestId:gen_0", "requestId:toolCallId:call_0", "generationId:gen_0",
		"toolCallId:call_0", "generationId:call_0"}, keysOf(e.events(ref)))

	ext := e.session(external)
	e.do(ext, domain.AppendExternal{At: e.at(), RequestID: "call_0", Payload: domaintest.External("x")})
}

func keysOf(events []domain.Event) (keys []string) {
	for _, ev := range events {
		keys = append(keys, ev.Key)
	}
	return keys
}

func sameKeyElsewhere(e *env) {
	here, there := e.session(), e.session()
	foreign := domain.SessionRef{Tenant: "t2", Session: here.Session}
	e.do(foreign, domain.CreateSession{At: e.at(), Request: domaintest.Payload(`{}`)})
	c := e.input("hello")
	for _, ref := range []domain.SessionRef{here, there, foreign} {
		c.NewRun = e.id("r")
		out := e.do(ref, c)
		require.True(e, out.Created, "%v", ref)
		require.EqualValues(e, 1, out.Event.Seq)
		require.Equal(e, c.NewRun, out.Event.RunID)
	}
	w := e.begin(here)
	v := e.begin2(there)
	for _, x := range []*worker{w, v} {
		a := x.calling([]domain.Seq{1}, "same-call")
		a.GenerationID = "same-generation"
		x.ok(a)
		x.ok(x.result("same-call"))
	}
}

// begin2 finds an attempt that begin of another session claimed along with it.
func (e *env) begin2(ref domain.SessionRef) *worker {
	e.Helper()
	run := e.active(ref)
	require.Equal(e, domain.StatusRunning, run.Status)
	token := domain.Token{Process: run.Owner, Epoch: run.Epoch}
	return &worker{env: e, ref: ref, run: run.ID, token: token, mode: domain.ClaimWork, claim: run}
}

// sameContent: what counts is the value, not its spelling (protocol.md §3, K16).
func sameContent(e *env) {
	ref := e.session()
	for _, c := range []struct {
		first, again string
		equal        bool
	}{
		{`{"b":1,"a":2}`, `{"a":2, "b":1}`, true},
		{`{"n":1.0}`, `{"n":1}`, true},
		{`{"n":10e-1}`, `{"n":1}`, true},
		{`{"n":-0}`, `{"n":0}`, true},
		{`{"n":1e400}`, `{"n":10e399}`, true},
		{`{"n":1e1000000000}`, `{"n":1e1000000000}`, true},
		{`{"s":"\u0041"}`, `{"s":"A"}`, true},
		{`{"s":"\ud83d"}`, `{"s":"\ufffd"}`, true},
		{`{"s":"d\u0000i"}`, `{"s":"d\u0000i"}`, true},
		{`{"s":"\u2028"}`, "{\"s\":\"\u2028\"}", true},
		{`{"n":9007199254740993}`, `{"n":9007199254740992}`, false},
		{`{"n":1e400}`, `{"n":1e401}`, false},
		{`{"n":1}`, `{"n":"1"}`, false},
		{`{"s":"d\u0000i"}`, `{"s":"di"}`, false},
		{`{"s":"\u0000"}`, `{"s":"\\u0000"}`, false},
		{`{"s":"é"}`, `{"s":"e` + "\u0301" + `"}`, false},
		{`{"a":[1,2]}`, `{"a":[2,1]}`, false},
		{`{"a":null}`, `{}`, false},
		{`{"text":"t"}`, `{"TEXT":"t"}`, false},
	} {
		in := e.input("")
		with := func(text string) domain.SubmitInput {
			in.Payload = domaintest.Payload(text).With("requestId", domaintest.Quote(in.RequestID))
			in.NewRun = e.id("r")
			return in
		}
		out := e.do(ref, with(c.first))
		if !c.equal {
			e.refused(ref, with(c.again), domain.ErrIdempotencyConflict)
			continue
		}
		require.Equal(e, *out.Event, *e.unchanged(ref, with(c.again)).Event, "%s and %s", c.first, c.again)
	}
}

// keyUsedAtOnce: of twenty equal requests at a time one is the first, and all get its answer (K15, 1).
func keyUsedAtOnce(e *env) {
	ref := e.session()
	c := e.input("hello")
	var created atomic.Int64
	var wg sync.WaitGroup
	outs := make([]domain.Outcome, 20)
	errs := make([]error, len(outs))
	for i := range outs {
		again := c
		again.NewRun = e.id("r")
		wg.Go(func() {
			outs[i], errs[i] = e.Ledger.Do(e.ctx, ref, again)
			if outs[i].Created {
				created.Add(1)
			}
		})
	}
	wg.Wait()
	for i, out := range outs {
		require.NoError(e, errs[i])
		require.Equal(e, *outs[0].Event, *out.Event)
	}
	require.EqualValues(e, 1, created.Load())
	require.Len(e, e.events(ref), 1)
	runs, err := e.Runs.List(e.ctx, ref, nil, 100)
	require.NoError(e, err)
	require.Len(e, runs, 1)
}

func replayAfterClose(e *env) {
	ref := e.session()
	c := e.input("hello")
	first := e.do(ref, c)
	w := e.begin(ref)
	w.ok(w.answer(1))
	w.ok(w.settle(domain.Success))
	e.do(ref, domain.CloseSession{})
	out := e.unchanged(ref, c)
	require.Equal(e, *first.Event, *out.Event)
	c.Payload = domaintest.User(c.RequestID, "bye")
	e.refused(ref, c, domain.ErrIdempotencyConflict)
	e.refused(ref, e.input("new"), domain.ErrSessionClosed)

	ext := e.session(external)
	x := domain.AppendExternal{At: e.at(), RequestID: "k", Payload: domaintest.External("x")}
	e.do(ext, x)
	e.do(ext, domain.CloseSession{})
	e.unchanged(ext, x)
	x.RequestID = "l"
	e.refused(ext, x, domain.ErrSessionClosed)
}
