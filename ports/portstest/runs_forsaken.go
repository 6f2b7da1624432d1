package portstest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// child makes a session that a call of a run of parent made, with an input and so a run of its own.
func (e *env) child(parent domain.SessionRef, run string) (ref domain.SessionRef, own string) {
	e.Helper()
	ref = e.session(func(c *domain.CreateSession) {
		c.Parent = &domain.Parent{Session: parent.Session, Run: run, Call: "call"}
	})
	_, own = e.submit(ref)
	return ref, own
}

func (e *env) forsaken(parent domain.SessionRef, limit int) []ports.RunRef {
	e.Helper()
	found, err := e.Runs.Forsaken(e.ctx, parent, limit)
	require.NoError(e, err)
	return found
}

// forsakenChildren are the active runs whose makers were cancelled, each level by itself, until they are cancelled too.
func forsakenChildren(e *env) {
	parent := e.session()
	_, maker := e.submit(parent)
	first, firstRun := e.child(parent, maker)
	second, secondRun := e.child(parent, maker)
	grandchild, grandchildRun := e.child(first, firstRun)
	other := e.session()
	_, otherMaker := e.submit(other)
	e.child(other, otherMaker)
	e.child(domain.SessionRef{Session: "of-another-maker"}, "missing")
	require.Empty(e, e.forsaken(domain.SessionRef{}, 10), "nobody was cancelled")

	w := e.begin(parent)
	e.do(parent, domain.RequestCancel{})
	both := []ports.RunRef{{Ref: first, Run: firstRun}, {Ref: second, Run: secondRun}}
	require.Equal(e, both, e.forsaken(domain.SessionRef{}, 10))
	require.Equal(e, both, e.forsaken(parent, 10))
	require.Equal(e, both[:1], e.forsaken(parent, 1))
	require.Empty(e, e.forsaken(other, 10))
	require.Empty(e, e.forsaken(domain.SessionRef{Tenant: "t2", Session: parent.Session}, 10))
	require.Empty(e, e.forsaken(domain.SessionRef{Tenant: "t1", Session: "missing"}, 10))

	e.do(first, domain.RequestCancel{Run: firstRun})
	require.Equal(e, []ports.RunRef{{Ref: grandchild, Run: grandchildRun}}, e.forsaken(first, 10))
	require.Equal(e, both[1:], e.forsaken(parent, 10))

	w.ok(w.settle(domain.Failure))
	require.Equal(e, both[1:], e.forsaken(parent, 10), "ended, but its child runs on")
	e.do(second, domain.RequestCancel{Run: secondRun})
	require.Empty(e, e.forsaken(parent, 10))
}

// forsakenLater: a run that a session made by a cancelled one has later is forsaken if it was created until that one ended.
func forsakenLater(e *env) {
	parent := e.session()
	_, maker := e.submit(parent)
	w := e.begin(parent)
	var children []domain.SessionRef
	for range 3 {
		child, run := e.child(parent, maker)
		v := e.begin(child)
		v.ok(v.answer(1))
		v.ok(v.settle(domain.Success))
		require.Empty(e, e.forsaken(parent, 10), "%s is done", run)
		children = append(children, child)
	}
	stranger, _ := e.child(domain.SessionRef{Tenant: parent.Tenant, Session: "stranger"}, maker)
	e.do(parent, domain.RequestCancel{})
	require.Empty(e, e.forsaken(domain.SessionRef{}, 10), "those that are done, and %s, whose maker is another session's run", stranger.Session)
	w.ok(w.settle(domain.Failure))
	ended, err := e.Runs.Get(e.ctx, parent, maker)
	require.NoError(e, err)
	for i, at := range []time.Duration{-time.Millisecond, 0, time.Millisecond} {
		late := e.input("one more")
		late.At = ended.SettledAt.Add(at)
		e.do(children[i], late)
	}
	require.Equal(e, []ports.RunRef{
		{Ref: children[0], Run: e.active(children[0]).ID}, {Ref: children[1], Run: e.active(children[1]).ID},
	}, e.forsaken(parent, 10), "not the one that a user made go on")
}

// notForsaken: a run that ended without a cancel leaves nothing behind.
func notForsaken(e *env) {
	parent := e.session()
	_, maker := e.submit(parent)
	w := e.begin(parent)
	e.child(parent, maker)
	w.ok(w.answer(1))
	w.ok(w.settle(domain.Success))
	require.Empty(e, e.forsaken(parent, 10))
}
