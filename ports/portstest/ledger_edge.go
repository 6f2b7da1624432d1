package portstest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

func create(e *env) {
	ref := domain.SessionRef{Tenant: "t1", Session: "s"}
	c := domain.CreateSession{
		At:      e.at(),
		Request: domaintest.Payload(`{"id":"s","n":1.0}`),
		Info: domain.SessionInfo{
			Title: "a title", Model: "m", System: "be kind", Tools: []string{"a", "b"}, Metadata: domaintest.Payload(`{"k":"v"}`),
		},
		Parent: &domain.Parent{Session: "p", Run: "r", Call: "c"},
	}
	out := e.do(ref, c)
	require.True(e, out.Created)
	row := e.row(ref)
	require.Equal(e, c.Info, row.SessionInfo)
	require.Equal(e, c.Parent, row.Parent)
	require.Equal(e, domain.SessionOpen, row.State)
	require.Equal(e, domain.Native, row.StateOwner)
	require.True(e, c.At.Equal(row.CreatedAt))
	require.EqualValues(e, 1, row.Version)
	require.Zero(e, row.HeadSeq)
	require.Empty(e, e.events(ref))

	c.At, c.Request = e.at(), domaintest.Payload(`{"n":1,"id":"s"}`)
	e.unchanged(ref, c)
	c.Request = domaintest.Payload(`{"n":2,"id":"s"}`)
	e.refused(ref, c, domain.ErrIdempotencyConflict)

	ended, cancel := context.WithCancel(e.ctx)
	cancel()
	other := domain.SessionRef{Tenant: "t1", Session: "never"}
	_, err := e.Ledger.Do(ended, other, c)
	require.Error(e, err, "a context that has ended stops Do")
	_, _, err = e.Sessions.Get(e.ctx, other)
	require.ErrorIs(e, err, domain.ErrNotFound)
}

// edgeRefusals gives each command several faults at once: the first of them in the order of commands.md is the answer.
func edgeRefusals(e *env) {
	missing := domain.SessionRef{Tenant: "t1", Session: "missing"}
	open, closed, ext := e.session(), e.session(), e.session(external)
	known := e.input("hello")
	e.do(closed, known)
	e.begin(closed).cancel()
	w := e.active(closed)
	e.do(closed, domain.Settle{At: e.at(), Run: w.ID, Token: domain.Token{Process: w.Owner, Epoch: w.Epoch}, NewRun: e.id("r")})
	e.do(closed, domain.CloseSession{})
	closedExt := e.session(external)
	e.do(closedExt, domain.CloseSession{})

	submit := func(key, payload string) domain.SubmitInput {
		return domain.SubmitInput{At: e.at(), RequestID: key, Payload: domaintest.Payload(payload), NewRun: e.id("r")}
	}
	outside := func(key, payload string) domain.AppendExternal {
		return domain.AppendExternal{At: e.at(), RequestID: key, Payload: domaintest.Payload(payload)}
	}
	full := `{"backend":"b","externalRef":"x"}`
	for _, c := range []struct {
		name string
		ref  domain.SessionRef
		cmd  domain.Command
		want error
	}{
		{"no key, bad payload, missing", missing, submit("", `{"text":7}`), domain.ErrInvalidKey},
		{"key with a control character", missing, submit("a\x00b", `{"text":7}`), domain.ErrInvalidKey},
		{"key with a space behind", missing, submit("a ", `{"text":7}`), domain.ErrInvalidKey},
		{"bad payload, missing", missing, submit("k", `{"text":7,"requestId":"k"}`), domain.ErrInvalidPayload},
		{"bad delivery", open, submit("k", `{"delivery":"soon","requestId":"k"}`), domain.ErrInvalidPayload},
		{"null delivery", open, submit("k", `{"delivery":null,"requestId":"k"}`), domain.ErrInvalidPayload},
		{"bad selection", open, submit("k", `{"selection":[],"requestId":"k"}`), domain.ErrInvalidPayload},
		{"bad retryOf", open, submit("k", `{"retryOf":-1,"requestId":"k"}`), domain.ErrInvalidPayload},
		{"bad content", open, submit("k", `{"content":{},"requestId":"k"}`), domain.ErrInvalidPayload},
		{"unknown block, missing", missing, submit("k", `{"text":"t","content":[{"type":"image_url"}],"requestId":"k"}`), domain.ErrInvalidPayload},
		{"block without its text", open, submit("k", `{"text":"t","content":[{"type":"text"}],"requestId":"k"}`), domain.ErrInvalidPayload},
		{"another requestId within", missing, submit("k", `{"text":"t","requestId":"l"}`), domain.ErrInvalidKey},
		{"passes as demoted", closed, submit("k", `{"delivery":"queue","requestedDelivery":"guide","requestId":"k"}`), domain.ErrInvalidPayload},
		{"missing", missing, submit("k", `{"text":"t","requestId":"k"}`), domain.ErrNotFound},
		{"known key, other content, closed", closed, submit(known.RequestID, `{"text":"other","requestId":"`+known.RequestID+`"}`), domain.ErrIdempotencyConflict},
		{"closed", closed, submit("k", `{"text":"t","requestId":"k"}`), domain.ErrSessionClosed},
		{"closed and external", closedExt, submit("k", `{"text":"t","requestId":"k"}`), domain.ErrSessionClosed},
		{"external", ext, submit("k", `{"text":"t","requestId":"k"}`), domain.ErrExternalSession},

		{"external: no key", missing, outside("", `{}`), domain.ErrInvalidKey},
		{"external: no backend", missing, outside("k", `{"externalRef":"x"}`), domain.ErrInvalidPayload},
		{"external: no ref", missing, outside("k", `{"backend":"b"}`), domain.ErrInvalidPayload},
		{"external: other owner", missing, outside("k", `{"backend":"b","externalRef":"x","stateOwner":"native"}`), domain.ErrInvalidPayload},
		{"external: missing", missing, outside("k", full), domain.ErrNotFound},
		{"external: closed native", closed, outside("k", full), domain.ErrSessionClosed},
		{"external: native", open, outside("k", full), domain.ErrNativeSession},

		{"ensure: missing", missing, domain.EnsureRun{At: e.at(), NewRun: e.id("r")}, domain.ErrNotFound},
		{"ensure: closed and external", closedExt, domain.EnsureRun{At: e.at(), NewRun: e.id("r")}, domain.ErrSessionClosed},
		{"ensure: external", ext, domain.EnsureRun{At: e.at(), NewRun: e.id("r"), Compact: true}, domain.ErrExternalSession},
		{"patch: missing", missing, domain.PatchSession{}, domain.ErrNotFound},
		{"patch: closed", closed, domain.PatchSession{}, domain.ErrSessionClosed},
		{"cancel: missing", missing, domain.RequestCancel{}, domain.ErrNotFound},
		{"unpark: missing", missing, domain.Unpark{}, domain.ErrNotFound},
		{"close: missing", missing, domain.CloseSession{}, domain.ErrNotFound},
	} {
		_, err := e.Ledger.Do(e.ctx, c.ref, c.cmd)
		require.ErrorIs(e, err, c.want, c.name)
		e.refused(c.ref, c.cmd, c.want)
	}
	e.do(ext, outside("k", full))
	e.unchanged(ext, outside("k", `{"externalRef":"x","backend":"b"}`))
	e.refused(ext, outside("k", `{"externalRef":"y","backend":"b"}`), domain.ErrIdempotencyConflict)
	require.Equal(e, []domain.Kind{domain.ExternalEvent}, e.kinds(ext))
	require.Empty(e, e.row(ext).ActiveRun, "an external event makes no run")
}

// foreignIsMissing: for every command and every read, a session of another tenant is one that does not exist.
func foreignIsMissing(e *env) {
	w := e.started()
	w.ok(w.calling([]domain.Seq{1}, "c"))
	foreign := domain.SessionRef{Tenant: "t2", Session: w.ref.Session}
	before := e.facts(w.ref)
	title := "mine now"
	for _, cmd := range append(w.commands(),
		e.input("hello"), e.guide("hello"), domain.AppendExternal{At: e.at(), RequestID: "k", Payload: domaintest.External("x")},
		domain.EnsureRun{At: e.at(), NewRun: e.id("r")}, domain.RequestCancel{}, domain.RequestCancel{Run: w.run},
		domain.Unpark{}, domain.CloseSession{}, domain.PatchSession{Title: &title}, domain.Rescue{Run: w.run},
		w.start("c"), w.result("c"),
	) {
		e.refused(foreign, cmd, domain.ErrNotFound)
		e.refused(domain.SessionRef{Tenant: w.ref.Tenant, Session: "missing"}, cmd, domain.ErrNotFound)
	}
	_, _, err := e.Sessions.Get(e.ctx, foreign)
	require.ErrorIs(e, err, domain.ErrNotFound)
	_, err = e.Ledger.Events(e.ctx, foreign, 0, 10)
	require.ErrorIs(e, err, domain.ErrNotFound)
	_, err = e.Runs.Get(e.ctx, foreign, w.run)
	require.ErrorIs(e, err, domain.ErrNotFound)
	_, err = e.Runs.List(e.ctx, foreign, nil, 10)
	require.ErrorIs(e, err, domain.ErrNotFound)
	_, err = e.Runs.OpenCalls(e.ctx, foreign)
	require.ErrorIs(e, err, domain.ErrNotFound)
	require.Equal(e, before, e.facts(w.ref))

	e.do(foreign, domain.CreateSession{At: e.at(), Request: domaintest.Payload(`{"id":"other"}`)})
	require.Empty(e, e.events(foreign), "the other tenant's session of the same name is its own")
	require.Equal(e, before, e.facts(w.ref))
	_, err = e.Runs.Get(e.ctx, foreign, w.run)
	require.ErrorIs(e, err, domain.ErrNotFound)
}

func tooManyInputs(e *env) {
	ref := e.session()
	first := e.input("hello")
	e.do(ref, first)
	for range domain.MaxUnanswered - 1 {
		e.submit(ref)
	}
	e.refused(ref, e.input("one more"), domain.ErrTooManyInputs)
	e.unchanged(ref, first)
	w := e.begin(ref)
	w.ok(w.answer(1))
	e.submit(ref)
	e.refused(ref, e.input("one more"), domain.ErrTooManyInputs)
}

// timesNeverFall: a clock that is behind does not write history anew, and times are whole milliseconds.
func timesNeverFall(e *env) {
	ref := e.session()
	late := e.input("late")
	late.At = late.At.Add(time.Hour + 1234567*time.Nanosecond)
	e.do(ref, late)
	e.submit(ref)
	events := e.events(ref)
	require.True(e, events[0].CreatedAt.Equal(domain.Millis(late.At)))
	require.True(e, events[1].CreatedAt.Equal(events[0].CreatedAt), "%v", events[1].CreatedAt)
	require.True(e, e.row(ref).HeadAt.Equal(events[0].CreatedAt))
}
