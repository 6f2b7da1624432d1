package portstest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// TestRuns checks ports.Runs.
func TestRuns(t *testing.T, open Open) {
	suite{
		{"claim", claim},
		{"claim modes", claimModes},
		{"claim without work", claimWithoutWork},
		{"not due", notDue},
		{"external sessions", neverExternal},
		{"fairness", fairness},
		{"fair in turn", fairInTurn},
		{"dead processes", claimByTheDead},
		{"claims at once", claimsAtOnce},
		{"list", listRuns},
		{"forsaken children", forsakenChildren},
		{"forsaken later", forsakenLater},
		{"not forsaken", notForsaken},
		{"active", activeRuns},
	}.run(t, open)
}

// claim begins the attempt: owner, epoch, boundary, all of them in the row that others read.
func claim(e *env) {
	ref := e.session()
	e.submit(ref)
	e.submit(ref)
	process := e.process()
	got := e.claims(process, 10)
	require.Len(e, got, 1)
	c := got[0]
	require.Equal(e, domain.ClaimWork, c.Mode)
	require.Equal(e, ref, c.Session.Ref)
	require.Equal(e, ref, c.Run.Ref)
	require.EqualValues(e, 1, c.Session.Epoch)
	require.EqualValues(e, 2, *c.Run.ClaimSeq)
	require.False(e, c.Run.PendingInput)
	require.Equal(e, []domain.Seq{1, 2}, c.Session.Unanswered)
	row := e.row(ref)
	require.Equal(e, process, row.Owner)
	require.Equal(e, c.Session.Epoch, row.Epoch)
	require.Equal(e, c.Session.Version, row.Version)
	run := e.active(ref)
	require.Equal(e, process, run.Owner)
	require.Equal(e, domain.StatusRunning, run.Status)
	require.Equal(e, 1, run.Attempts)
	require.Empty(e, e.claims(process, 10), "it is running")
	require.Empty(e, e.claims(e.process(), 10))
	require.Len(e, e.events(ref), 2, "a claim is no event")
}

func claimModes(e *env) {
	cancelled := e.session()
	e.submit(cancelled)
	e.do(cancelled, domain.RequestCancel{})
	require.Equal(e, domain.ClaimCancelled, e.begin(cancelled).mode)

	work := e.session()
	e.submit(work)
	w := e.begin(work)
	require.Equal(e, domain.ClaimWork, w.mode)
	w.ok(w.settle(domain.Failure))
	process := e.process()
	claims, err := e.Runs.Claim(e.ctx, ports.ClaimRequest{Process: process, Max: 10, Budget: 1})
	require.NoError(e, err)
	require.Len(e, claims, 1)
	require.Equal(e, domain.ClaimExhausted, claims[0].Mode)
	require.Equal(e, domain.StatusRunning, e.active(work).Status)
}

// claimWithoutWork: a run that has nothing to do is done on the way: no attempt, no epoch, no event.
func claimWithoutWork(e *env) {
	w := e.started()
	w.ok(w.answer(1))
	w.ok(w.handBack()) // answered, but not settled
	if e.Notified != nil {
		e.Notified.Take()
	}
	require.Empty(e, e.claims(e.process(), 10))
	run := e.run(w.ref, w.run)
	require.Equal(e, domain.StatusDone, run.Status)
	require.Equal(e, domain.ReasonNoWork, run.Reason)
	require.False(e, run.SettledAt.IsZero())
	row := e.row(w.ref)
	require.Empty(e, row.ActiveRun)
	require.Equal(e, w.token.Epoch, row.Epoch)
	require.Len(e, e.events(w.ref), 2)
	if e.Notified != nil {
		told := e.Notified.Take()
		require.Len(e, told, 1)
		require.True(e, told[0].Wake.Readers)
	}
	seq, _ := e.submit(w.ref)
	v := e.begin(w.ref)
	v.ok(v.answer(seq))

	owed := e.started()
	owed.ok(owed.calling([]domain.Seq{1}, "c"))
	owed.ok(owed.result("c"))
	owed.ok(owed.handBack())
	require.Equal(e, domain.ClaimWork, e.begin(owed.ref).mode, "the results await the model")
}

func notDue(e *env) {
	w := e.started()
	c := w.settle(domain.Failure)
	c.Backoff = long
	w.ok(c)
	process := e.process()
	require.Empty(e, e.claims(process, 10))
	e.do(w.ref, domain.EnsureRun{At: e.at(), NewRun: e.id("r")})
	w = e.begin(w.ref)
	c = w.settle(domain.Failure)
	c.Backoff = e.Short
	w.ok(c)
	e.until("the back-off ends", func() bool { return len(e.claims(process, 10)) == 1 })
	require.Equal(e, process, e.active(w.ref).Owner)
}

// neverExternal: not even a dirty row makes an external session's run claimable.
func neverExternal(e *env) {
	ext := e.session(external)
	e.do(ext, domain.AppendExternal{At: e.at(), RequestID: "k", Payload: domaintest.External("x")})
	if e.InsertRun == nil {
		e.Skip("the store inserts no dirty rows")
	}
	dirty := domain.Run{ID: e.id("r"), Ref: ext, CreatedAt: e.at(), Status: domain.StatusPending}
	e.InsertRun(e.T, dirty)
	native := e.session()
	e.submit(native)
	claims := e.claims(e.process(), 10)
	require.Len(e, claims, 1)
	require.Equal(e, native, claims[0].Session.Ref)
	require.Equal(e, domain.StatusPending, e.status(ext, dirty.ID))
	require.Empty(e, e.row(ext).Owner)
	require.Zero(e, e.row(ext).Epoch)
}

// crowd makes n sessions of a tenant, each with a due run.
func (e *env) crowd(tenant string, n int) {
	e.Helper()
	for range n {
		ref := domain.SessionRef{Tenant: tenant, Session: e.id("s")}
		e.do(ref, domain.CreateSession{At: e.at(), Request: domaintest.Payload(`{}`)})
		e.submit(ref)
		if e.Advance != nil {
			e.Advance(time.Millisecond) // so that each is due a little later
		}
	}
}

// fairness: one claim of several serves the tenants in turn, and within a tenant whoever is due longest.
func fairness(e *env) {
	e.crowd("big", 8)
	e.crowd("small", 2)
	e.crowd("tiny", 1)
	tenants := func(n int) map[string]int {
		count := map[string]int{}
		for _, c := range e.claims(e.process(), n) {
			count[c.Session.Ref.Tenant]++
		}
		return count
	}
	require.Equal(e, map[string]int{"big": 1, "small": 1, "tiny": 1}, tenants(3))
	require.Equal(e, map[string]int{"big": 3, "small": 1}, tenants(4))
	rest := e.claims(e.process(), 100)
	require.Len(e, rest, 4)
	require.True(e, slices.IsSortedFunc(rest, func(a, b ports.Claim) int { return a.Run.CreatedAt.Compare(b.Run.CreatedAt) }),
		"the oldest due first")
}

// fairInTurn: claims of one at a time serve the tenants in turn as well.
func fairInTurn(e *env) {
	e.crowd("big", 6)
	e.crowd("small", 2)
	e.crowd("tiny", 1)
	process := e.process()
	var served []string
	for range 3 {
		c := e.claims(process, 1)
		require.Len(e, c, 1)
		served = append(served, c[0].Session.Ref.Tenant)
	}
	slices.Sort(served)
	require.Equal(e, []string{"big", "small", "tiny"}, served)
}

func claimByTheDead(e *env) {
	ref := e.session()
	e.submit(ref)
	refused := func(process string) {
		e.Helper()
		claims, err := e.Runs.Claim(e.ctx, ports.ClaimRequest{Process: process, Max: 10, Budget: budget})
		require.ErrorIs(e, err, ports.ErrProcessDead)
		require.Empty(e, claims)
		require.Equal(e, domain.StatusPending, e.active(ref).Status)
	}
	refused("never registered")
	dead := e.process()
	require.NoError(e, e.Processes.Deregister(e.ctx, dead))
	refused(dead)
	_, _, err := e.Processes.Bury(e.ctx)
	require.NoError(e, err)
	refused(dead)

	draining := e.process()
	require.NoError(e, e.Processes.SetDraining(e.ctx, draining))
	require.Empty(e, e.claims(draining, 10), "a draining process claims nothing more")
	require.Equal(e, domain.StatusPending, e.active(ref).Status)
	require.Len(e, e.claims(e.process(), 10), 1)
}

// claimsAtOnce: two processes that claim at the same time never get one run twice, and leave none.
func claimsAtOnce(e *env) {
	const runs = 40
	for i := range runs {
		e.crowd(fmt.Sprint("t", i%3), 1)
	}
	var mu sync.Mutex
	owner := map[string]string{}
	var wg sync.WaitGroup
	errs := make(chan error, 4)
	handles := e.handles()
	for i := range 4 {
		process, store := e.process(), handles[i%len(handles)]
		wg.Go(func() {
			for empty := 0; empty < 3; {
				claims, err := store.Runs.Claim(e.ctx, ports.ClaimRequest{Process: process, Max: 3, Budget: budget})
				if err != nil {
					errs <- err
					return
				}
				if len(claims) == 0 {
					empty++ // another one may hold the locks of the rest
				}
				mu.Lock()
				for _, c := range claims {
					if was, ok := owner[c.Run.ID]; ok {
						errs <- fmt.Errorf("run %s was claimed by %s and by %s", c.Run.ID, was, process)
					}
					if c.Run.Owner != process || c.Session.Epoch != 1 {
						errs <- errors.New("a claim names another owner or epoch")
					}
					owner[c.Run.ID] = process
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(e, err)
	}
	for _, c := range e.claims(e.process(), runs) {
		owner[c.Run.ID] = "late"
	}
	require.Len(e, owner, runs)
}

// listRuns: newest first, ties by the bytes of the id, in pages, of this session alone.
func listRuns(e *env) {
	ref, other := e.session(), e.session()
	e.submit(other)
	at := e.at()
	var want []string
	for i, id := range []string{"a", "B", "b", "_", "é", "z1"} {
		c := e.input("hello")
		if c.NewRun = id; i < 5 {
			c.At = at
		}
		e.do(ref, c)
		w := e.begin(ref)
		w.ok(w.answer(e.row(ref).Unanswered...))
		w.ok(w.settle(domain.Success))
		want = append(want, id)
	}
	slices.SortFunc(want[:5], compareDescending)
	want = append([]string{"z1"}, want[:5]...)
	for _, limit := range []int{1, 2, 6, 50} {
		var got []string
		var before *ports.RunCursor
		for {
			page, err := e.Runs.List(e.ctx, ref, before, limit)
			require.NoError(e, err)
			require.LessOrEqual(e, len(page), limit)
			if len(page) == 0 {
				break
			}
			require.LessOrEqual(e, len(got), len(want), "the pages do not end")
			for _, r := range page {
				require.Equal(e, e.run(ref, r.ID), r)
				got = append(got, r.ID)
			}
			last := page[len(page)-1]
			before = &ports.RunCursor{CreatedAtMS: last.CreatedAt.UnixMilli(), Run: last.ID}
		}
		require.Equal(e, want, got, "pages of %d", limit)
	}
	_, err := e.Runs.Get(e.ctx, ref, "nowhere")
	require.ErrorIs(e, err, domain.ErrNotFound)
	open, err := e.Runs.OpenCalls(e.ctx, ref)
	require.NoError(e, err)
	require.Empty(e, open)
}

// activeRuns: of many sessions, those that have an active run, by id.
func activeRuns(e *env) {
	active := func(tenant string, sessions ...string) (ids []string) {
		runs, err := e.Runs.Active(e.ctx, tenant, sessions)
		require.NoError(e, err)
		for _, r := range runs {
			ref := domain.SessionRef{Tenant: tenant, Session: r.Ref.Session}
			require.Equal(e, e.active(ref), r)
			ids = append(ids, r.Ref.Session)
		}
		return ids
	}
	require.Empty(e, active("t1"))
	pending, idle, done := e.session(), e.session(), e.session()
	e.submit(pending)
	e.submit(done)
	other := domain.SessionRef{Tenant: "t2", Session: pending.Session}
	e.do(other, domain.CreateSession{At: e.at(), Request: domaintest.Payload(`{}`)})
	all := []string{done.Session, "nowhere", idle.Session, "\x00", pending.Session, "", pending.Session, "it's", "\xff"}
	require.Equal(e, []string{pending.Session, done.Session}, active("t1", all...), "each once, in order")
	require.Empty(e, active("t2", all...), "the runs are another tenant's")
	require.Empty(e, active("nobody\x00", all...))

	w := e.begin(done)
	require.Equal(e, []string{pending.Session, done.Session}, active("t1", all...), "pending or running")
	w.ok(w.answer(e.row(done).Unanswered...))
	w.ok(w.settle(domain.Success))
	require.Equal(e, []string{pending.Session}, active("t1", all...))

	var many, want []string
	for i := range 300 {
		ref := e.session()
		many = append(many, ref.Session)
		if i%3 == 0 {
			e.submit(ref)
			want = append(want, ref.Session)
		}
	}
	for i := range 5000 {
		many = append(many, fmt.Sprint("missing-", i))
	}
	require.Equal(e, want, active("t1", many...))
}
