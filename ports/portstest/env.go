package portstest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// long is a time that never passes during a test.
const long = time.Hour

// budget is the attempts per run, unless a test says otherwise.
const budget = 5

// env is one test of one store.
type env struct {
	*testing.T
	Store
	ctx  context.Context
	n    atomic.Int64
	proc string
}

func newEnv(t *testing.T, s Store) *env {
	if s.Short == 0 {
		s.Short = 100 * time.Millisecond
	}
	return &env{T: t, Store: s, ctx: t.Context()}
}

// handles are all ways to the data that the store offers at the same time.
func (e *env) handles() []Store {
	if e.Reopen == nil {
		return []Store{e.Store}
	}
	return []Store{e.Store, e.Reopen(e.T)}
}

// id mints an id that no other call returns.
func (e *env) id(prefix string) string { return fmt.Sprintf("%s-%04d", prefix, e.n.Add(1)) }

// at is the time of the next command, later than all before.
func (e *env) at() time.Time {
	return domaintest.Epoch.Add(time.Duration(e.n.Add(1)) * time.Millisecond)
}

// wait lets d pass on the store's clock.
func (e *env) wait(d time.Duration) {
	if e.Advance != nil {
		e.Advance(d)
		return
	}
	time.Sleep(d)
}

// until calls ok until it reports true, letting a little time pass in between.
func (e *env) until(what string, ok func() bool) {
	e.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			require.FailNow(e, "did not come about in time", what)
		}
		e.wait(e.Short / 4)
	}
}

// do gives a command that must be accepted.
func (e *env) do(ref domain.SessionRef, cmd domain.Command) domain.Outcome {
	e.Helper()
	out, err := e.Ledger.Do(e.ctx, ref, cmd)
	require.NoError(e, err, "%T%+v", cmd, cmd)
	return out
}

// refused gives a command that must be refused so, and must change nothing.
func (e *env) refused(ref domain.SessionRef, cmd domain.Command, want error) {
	e.Helper()
	before := e.facts(ref)
	_, err := e.Ledger.Do(e.ctx, ref, cmd)
	require.ErrorIs(e, err, want, "%T%+v", cmd, cmd)
	require.Equal(e, before, e.facts(ref), "the refused %T changed something", cmd)
}

// unchanged gives a command that must be accepted and change nothing.
func (e *env) unchanged(ref domain.SessionRef, cmd domain.Command) domain.Outcome {
	e.Helper()
	before := e.facts(ref)
	if e.Notified != nil {
		e.Notified.Take()
	}
	out := e.do(ref, cmd)
	require.Equal(e, before, e.facts(ref), "%T changed something", cmd)
	require.False(e, out.Created, "%T says that it wrote", cmd)
	if e.Notified != nil {
		require.Empty(e, e.Notified.Take(), "%T woke somebody", cmd)
	}
	return out
}

// facts is all that can be read of a session, as text.
func (e *env) facts(ref domain.SessionRef) string {
	e.Helper()
	return dump(storePlayer{e.ctx, e.Store}, ref)
}

func (e *env) row(ref domain.SessionRef) domain.Session {
	e.Helper()
	row, _, err := e.Sessions.Get(e.ctx, ref)
	require.NoError(e, err)
	return row
}

// active is the session's active run, which must exist.
func (e *env) active(ref domain.SessionRef) domain.Run {
	e.Helper()
	row, run, err := e.Sessions.Get(e.ctx, ref)
	require.NoError(e, err)
	require.NotNil(e, run, "there is no active run")
	require.Equal(e, row.ActiveRun, run.ID)
	return *run
}

func (e *env) run(ref domain.SessionRef, id string) domain.Run {
	e.Helper()
	run, err := e.Runs.Get(e.ctx, ref, id)
	require.NoError(e, err)
	return run
}

func (e *env) events(ref domain.SessionRef) []domain.Event {
	e.Helper()
	events, err := e.Ledger.Events(e.ctx, ref, 0, 1000)
	require.NoError(e, err)
	return events
}

// kinds is the kinds of the session's events, shortened.
func (e *env) kinds(ref domain.SessionRef) (kinds []domain.Kind) {
	e.Helper()
	for _, ev := range e.events(ref) {
		kinds = append(kinds, ev.Kind)
	}
	return kinds
}

func (e *env) status(ref domain.SessionRef, run string) domain.RunStatus {
	e.Helper()
	return e.run(ref, run).Status
}

// session makes a session. change may alter the command first.
func (e *env) session(change ...func(*domain.CreateSession)) domain.SessionRef {
	e.Helper()
	ref := domain.SessionRef{Tenant: "t1", Session: e.id("s")}
	c := domain.CreateSession{At: e.at(), Request: domaintest.Payload(`{"id":` + domaintest.Quote(ref.Session) + `}`)}
	for _, f := range change {
		f(&c)
	}
	e.do(ref, c)
	return ref
}

func external(c *domain.CreateSession) { c.StateOwner = domain.External }

// input is a SubmitInput with an id of its own.
func (e *env) input(text string) domain.SubmitInput {
	id := e.id("q")
	return domain.SubmitInput{At: e.at(), RequestID: id, Payload: domaintest.User(id, text), NewRun: e.id("r")}
}

func (e *env) guide(text string) domain.SubmitInput {
	c := e.input(text)
	c.Payload = domaintest.Guide(c.RequestID, text)
	return c
}

// submit commits an input and returns its seq and run.
func (e *env) submit(ref domain.SessionRef) (domain.Seq, string) {
	e.Helper()
	out := e.do(ref, e.input("hello"))
	require.NotNil(e, out.Event)
	return out.Event.Seq, out.Event.RunID
}

// process returns a live process.
func (e *env) process() string {
	e.Helper()
	id := e.id("p")
	require.NoError(e, e.Processes.Register(e.ctx, id, "http://"+id, long))
	return id
}

// claims claims whatever is due for process.
func (e *env) claims(process string, max int) []ports.Claim {
	e.Helper()
	claims, err := e.Runs.Claim(e.ctx, ports.ClaimRequest{Process: process, Max: max, Budget: budget})
	require.NoError(e, err)
	require.LessOrEqual(e, len(claims), max)
	return claims
}
