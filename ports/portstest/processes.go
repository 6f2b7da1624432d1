package portstest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// TestProcesses checks ports.Processes.
func TestProcesses(t *testing.T, open Open) {
	suite{
		{"register", register},
		{"list", listProcesses},
		{"renew", renew},
		{"renew tells of cancels", renewTellsOfCancels},
		{"owned", owned},
		{"an expired row stays so", expiredStaysSo},
		{"bury", bury},
		{"bury tells of the next expiry", nextExpiry},
		{"deregister", deregister},
		{"dead rows go", deadRowsGo},
	}.run(t, open)
}

// rows are the process rows by id, after a look at their order.
func (e *env) rows() map[string]ports.Process {
	e.Helper()
	rows, err := e.Processes.List(e.ctx)
	require.NoError(e, err)
	require.True(e, slices.IsSortedFunc(rows, func(a, b ports.Process) int { return a.StartedAt.Compare(b.StartedAt) }), "oldest first")
	byID := map[string]ports.Process{}
	for _, r := range rows {
		byID[r.ID] = r
	}
	require.Len(e, byID, len(rows))
	return byID
}

func register(e *env) {
	require.Empty(e, e.rows())
	require.NoError(e, e.Processes.Register(e.ctx, "p1", "http://one ? $1", long))
	p := e.rows()["p1"]
	require.Equal(e, "http://one ? $1", p.Address)
	require.False(e, p.Dead || p.Draining)
	require.InDelta(e, long, p.ExpiresAt.Sub(p.StartedAt), float64(time.Second))
	require.Error(e, e.Processes.Register(e.ctx, "p1", "other", long), "an id is used once")
	require.Equal(e, p, e.rows()["p1"])
	require.NoError(e, e.Processes.SetDraining(e.ctx, "p1"))
	require.True(e, e.rows()["p1"].Draining)
	_, err := e.Processes.Renew(e.ctx, "p1", long)
	require.NoError(e, err)
	require.True(e, e.rows()["p1"].Draining, "a draining process goes on living")

	w := e.started()
	require.NoError(e, e.Processes.Deregister(e.ctx, w.token.Process))
	_, _, err = e.Processes.Bury(e.ctx)
	require.NoError(e, err)
	require.True(e, e.rows()[w.token.Process].Dead)
	require.Error(e, e.Processes.Register(e.ctx, w.token.Process, "again", long), "not even after death")
	require.True(e, e.rows()[w.token.Process].Dead)
}

func listProcesses(e *env) {
	var want, got []string
	for _, id := range []string{"c", "a", "b"} {
		require.NoError(e, e.Processes.Register(e.ctx, id, "", long))
		want = append(want, id)
		e.wait(e.Short / 4)
	}
	rows, err := e.Processes.List(e.ctx)
	require.NoError(e, err)
	for _, r := range rows {
		got = append(got, r.ID)
	}
	require.Equal(e, want, got, "oldest first")
}

func renew(e *env) {
	id := e.id("p")
	require.NoError(e, e.Processes.Register(e.ctx, id, "a", 5*e.Short))
	owned, err := e.Processes.Renew(e.ctx, id, long)
	require.NoError(e, err)
	require.Empty(e, owned)
	e.wait(6 * e.Short)
	orphans, _, err := e.Processes.Bury(e.ctx)
	require.NoError(e, err)
	require.Empty(e, orphans)
	_, err = e.Processes.Renew(e.ctx, id, long)
	require.NoError(e, err, "the renewed lease is the one that counts")
	_, err = e.Processes.Renew(e.ctx, "never registered", long)
	require.ErrorIs(e, err, ports.ErrProcessDead)
	require.Len(e, e.rows(), 1, "a renewal registers nobody")
}

// renewTellsOfCancels: the beat brings what a lost wake-up has kept back, of running runs and of the process's own.
func renewTellsOfCancels(e *env) {
	process := e.process()
	renewed := func(id string) []ports.Owned {
		cancelled, err := e.Processes.Renew(e.ctx, id, long)
		require.NoError(e, err)
		return cancelled
	}
	working := e.session()
	e.submit(working)
	e.begin(working, process)
	cancelled, pending, other := e.session(), e.session(), e.session()
	e.submit(cancelled)
	w := e.begin(cancelled, process)
	e.submit(other)
	elsewhere := e.process()
	e.begin(other, elsewhere)
	require.Empty(e, renewed(process))
	e.submit(pending)
	for _, ref := range []domain.SessionRef{cancelled, pending, other} {
		e.do(ref, domain.RequestCancel{})
	}
	require.Equal(e, []ports.Owned{{Ref: cancelled, Run: w.run, Epoch: w.token.Epoch}}, renewed(process))
	require.Len(e, renewed(process), 1, "until it has ended")
	w.ok(w.settle(domain.Failure))
	require.Empty(e, renewed(process))
	require.Len(e, renewed(elsewhere), 1)
	require.Empty(e, renewed(e.process()))
}

// owned: what a lost reply to a claim has kept back.
func owned(e *env) {
	process := e.process()
	var want []ports.Owned
	var w *worker
	for range 3 {
		ref := e.session()
		e.submit(ref)
		w = e.begin(ref, process)
		want = append(want, ports.Owned{Ref: ref, Run: w.run, Epoch: w.token.Epoch})
	}
	other := e.session()
	e.submit(other)
	e.begin(other, e.process())
	got, err := e.Processes.Owned(e.ctx, process)
	require.NoError(e, err)
	require.ElementsMatch(e, want, got)
	w.ok(w.handBack())
	got, err = e.Processes.Owned(e.ctx, process)
	require.NoError(e, err)
	require.Len(e, got, 2, "what has ended is not owned")
	got, err = e.Processes.Owned(e.ctx, "never registered")
	require.NoError(e, err)
	require.Empty(e, got)
}

// expired returns a process whose lease has run out, and nobody has buried it.
func (e *env) expired(prepare func(id string)) string {
	e.Helper()
	id := e.id("p")
	require.NoError(e, e.Processes.Register(e.ctx, id, "a", long))
	prepare(id)
	_, err := e.Processes.Renew(e.ctx, id, e.Short)
	require.NoError(e, err)
	e.until("the lease expires", func() bool {
		_, err := e.Runs.Claim(e.ctx, ports.ClaimRequest{Process: id, Max: 1, Budget: budget})
		return err != nil
	})
	return id
}

func expiredStaysSo(e *env) {
	id := e.expired(func(string) {})
	for range 2 {
		_, err := e.Processes.Renew(e.ctx, id, long)
		require.ErrorIs(e, err, ports.ErrProcessDead)
		_, err = e.Runs.Claim(e.ctx, ports.ClaimRequest{Process: id, Max: 1, Budget: budget})
		require.ErrorIs(e, err, ports.ErrProcessDead, "the refused renewal revived it")
	}
	require.NoError(e, e.Processes.Deregister(e.ctx, id))
	_, err := e.Processes.Renew(e.ctx, id, long)
	require.ErrorIs(e, err, ports.ErrProcessDead)
}

// bury: only the expired, finally; and their runs are named until somebody has rescued them.
func bury(e *env) {
	live := e.process()
	kept := e.session()
	e.submit(kept)
	w := e.begin(kept, live)
	lost := e.session()
	e.submit(lost)
	var claimed []ports.Claim
	dead := e.expired(func(id string) { claimed = e.claims(id, 10) })
	require.Len(e, claimed, 1)
	want := []ports.RunRef{{Ref: lost, Run: claimed[0].Run.ID}}
	for range 2 {
		orphans, _, err := e.Processes.Bury(e.ctx)
		require.NoError(e, err)
		require.Equal(e, want, orphans)
	}
	require.True(e, e.rows()[dead].Dead)
	require.False(e, e.rows()[live].Dead)
	old := &worker{env: e, ref: lost, run: claimed[0].Run.ID, token: domain.Token{Process: dead, Epoch: 1}}
	old.ok(old.answer(1)) // the fence is the epoch, not the clock: until the rescue its writes stand
	e.unchanged(kept, domain.Rescue{Run: w.run})
	e.do(lost, domain.Rescue{Run: claimed[0].Run.ID})
	old.fenced()
	orphans, _, err := e.Processes.Bury(e.ctx)
	require.NoError(e, err)
	require.Empty(e, orphans)
	require.NotContains(e, e.rows(), dead)
	require.Equal(e, live, e.active(kept).Owner)
}

// nextExpiry: whoever buries need not look again before somebody can have expired, unless there is more to do at once.
func nextExpiry(e *env) {
	next := func() time.Duration {
		_, left, err := e.Processes.Bury(e.ctx)
		require.NoError(e, err)
		return left
	}
	within := func(most, left time.Duration) {
		e.Helper()
		require.LessOrEqual(e, left, most)
		require.Greater(e, left, most-30*time.Second)
	}
	require.Zero(e, next(), "nobody lives")
	lasts, ends := e.process(), e.id("p")
	require.NoError(e, e.Processes.Register(e.ctx, ends, "a", time.Minute))
	within(time.Minute, next())
	_, err := e.Processes.Renew(e.ctx, ends, 2*time.Minute)
	require.NoError(e, err)
	within(2*time.Minute, next())
	require.NoError(e, e.Processes.SetDraining(e.ctx, ends))
	within(2*time.Minute, next())
	require.NoError(e, e.Processes.Deregister(e.ctx, ends))
	require.Zero(e, next(), "somebody was dead")
	within(long, next())
	e.expired(func(string) {})
	require.Zero(e, next(), "somebody had expired")
	within(long, next())
	busy := e.started()
	require.NoError(e, e.Processes.Deregister(e.ctx, busy.token.Process))
	for range 2 {
		require.Zero(e, next(), "somebody has to be rescued")
	}
	e.rescueAll()
	require.Zero(e, next(), "the dead one is forgotten now")
	within(long, next())
	require.NoError(e, e.Processes.Deregister(e.ctx, lasts))
	require.Zero(e, next())
}

func deregister(e *env) {
	w := e.started()
	require.NoError(e, e.Processes.Deregister(e.ctx, w.token.Process))
	require.NoError(e, e.Processes.Deregister(e.ctx, w.token.Process), "twice is as good as once")
	_, err := e.Processes.Renew(e.ctx, w.token.Process, long)
	require.ErrorIs(e, err, ports.ErrProcessDead)
	orphans, _, err := e.Processes.Bury(e.ctx)
	require.NoError(e, err)
	require.Equal(e, []ports.RunRef{{Ref: w.ref, Run: w.run}}, orphans)
	e.do(w.ref, domain.Rescue{Run: w.run})
	e.proc = ""
	v := e.begin(w.ref)
	require.Greater(e, v.token.Epoch, w.token.Epoch)
	w.fenced()
}

func deadRowsGo(e *env) {
	idle, busy := e.process(), e.started()
	for _, id := range []string{idle, busy.token.Process} {
		require.NoError(e, e.Processes.Deregister(e.ctx, id))
	}
	_, _, err := e.Processes.Bury(e.ctx)
	require.NoError(e, err)
	require.NotContains(e, e.rows(), idle)
	require.Contains(e, e.rows(), busy.token.Process, "a run names it")
	e.rescueAll()
	_, _, err = e.Processes.Bury(e.ctx)
	require.NoError(e, err)
	require.Empty(e, e.rows())
}
