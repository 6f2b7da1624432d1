package portstest

import (
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// demoted gives a guide that must be stored as queue, and its retry.
func (e *env) demoted(ref domain.SessionRef) domain.Outcome {
	e.Helper()
	c := e.guide("now")
	out := e.do(ref, c)
	want := domaintest.Queued(c.RequestID, "now").With("requestedDelivery", `"guide"`)
	require.Equal(e, want.String(), out.Event.Payload.String())
	require.NotContains(e, e.row(ref).Guides, out.Event.Seq)
	require.Contains(e, e.row(ref).Unanswered, out.Event.Seq)

	require.Equal(e, *out.Event, *e.unchanged(ref, c).Event, "a demoted guide equals its retry")
	asQueue := c
	asQueue.Payload = domaintest.Queued(c.RequestID, "now")
	e.refused(ref, asQueue, domain.ErrIdempotencyConflict)
	return out
}

func guideWithoutAttempt(e *env) {
	ref := e.session()
	e.demoted(ref) // no run at all
	require.Equal(e, domain.StatusPending, e.active(ref).Status)
	e.demoted(ref) // pending
	w := e.begin(ref)
	w.ok(w.handBack())
	e.demoted(ref)
	w = e.begin(ref)
	w.ok(w.park(0))
	e.demoted(ref) // parked
	e.do(ref, domain.Unpark{})
	w = e.begin(ref)
	w.cancel()
	e.demoted(ref) // running, but being cancelled
	w.ok(w.settle(domain.Success))
	e.demoted(ref) // the successor waits
}

func guideWithAttempt(e *env) {
	w := e.started()
	g := e.guide("look there")
	out := w.ok(g)
	require.Equal(e, g.Payload.String(), out.Event.Payload.String())
	require.Equal(e, []domain.Seq{2}, e.row(w.ref).Guides)
	require.Equal(e, w.run, out.Event.RunID)
	q := e.input("later")
	w.ok(q)

	w.no(w.answer(1, 3), domain.ErrInvalidPayload) // queue beyond the claim
	w.ok(w.answer(1, 2))
	require.Equal(e, []domain.Seq{3}, e.row(w.ref).Unanswered)
	require.Empty(e, e.row(w.ref).Guides)
	w.ok(w.settle(domain.Success))
	require.Equal(e, *out.Event, *e.unchanged(w.ref, g).Event)
	asQueue := g
	asQueue.Payload = domaintest.Queued(g.RequestID, "look there")
	e.refused(w.ref, asQueue, domain.ErrIdempotencyConflict)
	w = e.begin(w.ref)
	w.ok(w.answer(3))
}

// guideAgainstSettle: a guide is a guide only if it was committed before the attempt settled, and in either case a run
// will come for it (K13, variant C).
func guideAgainstSettle(e *env) {
	for i := range 16 {
		w := e.started()
		w.ok(w.answer(1))
		guide, settle := e.guide("now"), w.settle(domain.Success)
		var out domain.Outcome
		var errGuide, errSettle error
		var wg sync.WaitGroup
		both := []func(){
			func() { out, errGuide = e.Ledger.Do(e.ctx, w.ref, guide) },
			func() { _, errSettle = e.Ledger.Do(e.ctx, w.ref, settle) },
		}
		wg.Go(both[i%2])
		wg.Go(both[1-i%2])
		wg.Wait()
		require.NoError(e, errGuide)
		require.NoError(e, errSettle)
		events := e.events(w.ref)
		require.Len(e, events, 4)
		in, err := domain.ParseInput(out.Event.Payload)
		require.NoError(e, err)
		if out.Event.Seq == 3 {
			require.Equal(e, domain.Guide, in.Delivery)
			require.Equal(e, w.run, e.row(w.ref).ActiveRun)
		} else {
			require.EqualValues(e, 4, out.Event.Seq)
			require.Equal(e, domain.Queue, in.Delivery)
			require.Equal(e, guide.NewRun, e.row(w.ref).ActiveRun)
		}
		require.Equal(e, domain.StatusPending, e.active(w.ref).Status)
		v := e.begin(w.ref)
		v.ok(v.answer(out.Event.Seq))
	}
}
