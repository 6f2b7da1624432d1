package portstest

import (
	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// openIDs is the session's open calls in order.
func (e *env) openIDs(ref domain.SessionRef) (ids []string) {
	e.Helper()
	open, err := e.Runs.OpenCalls(e.ctx, ref)
	require.NoError(e, err)
	for i, c := range open {
		require.True(e, c.Open())
		require.True(e, i == 0 || c.Ordinal > open[i-1].Ordinal)
		ids = append(ids, c.ID)
	}
	return ids
}

// calls: a call is committed with its answer, open until its one result, and its id is used up.
func calls(e *env) {
	w := e.started()
	w.ok(w.calling([]domain.Seq{1}, "z", "a", "m"))
	require.Equal(e, []string{"z", "a", "m"}, e.openIDs(w.ref), "in the order of the message")
	row := e.row(w.ref)
	require.Equal(e, 3, row.OpenCalls)
	require.Equal(e, domain.OwedCalls, row.Owed)
	require.Equal(e, []domain.Seq{1}, row.TurnInputs)
	require.Empty(e, row.Unanswered)

	w.ok(w.result("a"))
	require.Equal(e, []string{"z", "m"}, e.openIDs(w.ref))
	w.no(w.answer(1), domain.ErrOpenCalls)
	standIn := w.result("m")
	standIn.Payload = domaintest.StandIn("m")
	w.ok(standIn)
	w.no(w.result("m"), domain.ErrIdempotencyConflict) // too late
	w.ok(w.result("z"))
	require.Empty(e, e.openIDs(w.ref))

	failed := w.append(domaintest.AssistantFailed(nil, domain.StopAborted, "x").
		With("content", `[{"type":"toolCall","id":"half","name":"tool"}]`))
	w.ok(failed)
	require.Empty(e, e.openIDs(w.ref), "the calls of a terminal failure are not committed")
	require.Equal(e, domain.OwedFailure, e.row(w.ref).Owed)
	w.no(w.result("half"), domain.ErrUnknownCall)
	w.ok(w.calling([]domain.Seq{1}, "half")) // and use up no id
	w.ok(w.result("half"))
	w.ok(w.answer(1))
	require.Equal(e, domain.OwedNone, e.row(w.ref).Owed)
	require.Empty(e, e.row(w.ref).TurnInputs)

	w.ok(w.settle(domain.Success))
	e.submit(w.ref)
	w = e.begin(w.ref)
	seq := e.row(w.ref).Unanswered
	w.no(w.calling(seq, "new", "z"), domain.ErrCallIDUsed) // unique in the session, not in the turn (K11)
	w.ok(w.calling(seq, "new"))
}

// callsStart: a call is started by one attempt only, and never once a cancel was asked.
func callsStart(e *env) {
	w := e.started()
	a := w.calling([]domain.Seq{1}, "c1", "c2", "c3")
	a.Start = []string{"c1"}
	require.Equal(e, []string{"c1"}, w.ok(a).Started)
	require.Equal(e, []string{"c2"}, w.ok(w.start("c2")).Started)
	require.Equal(e, []string{"c2"}, e.unchanged(w.ref, w.start("c2")).Started)
	require.Equal(e, []string{"c1"}, e.unchanged(w.ref, w.start("c1")).Started)
	open, err := e.Runs.OpenCalls(e.ctx, w.ref)
	require.NoError(e, err)
	require.Equal(e, w.token.Epoch, *open[0].StartedEpoch)
	require.Equal(e, w.token.Epoch, *open[1].StartedEpoch)
	require.Nil(e, open[2].StartedEpoch)

	w.ok(w.handBack())
	v := e.begin(w.ref)
	_, err = e.Ledger.Do(e.ctx, v.ref, v.start("c1"))
	require.Error(e, err, "an older attempt may have run it")
	require.Equal(e, w.token.Epoch, *open[0].StartedEpoch)
	v.ok(v.start("c3"))
	for _, id := range []string{"c1", "c2", "c3"} {
		v.ok(v.result(id))
	}
	v.ok(v.calling([]domain.Seq{1}, "c4"))
	v.cancel()
	v.no(v.start("c4"), domain.ErrCancelled)
	v.ok(v.result("c4"))
	riding := v.calling([]domain.Seq{1}, "c5", "c6")
	riding.Start = []string{"c5"}
	out := v.ok(riding)
	require.Empty(e, out.Started, "the message is committed, nothing is started")
	require.NotNil(e, out.Run.CancelSeq, "and the reply says why")
	open, err = e.Runs.OpenCalls(e.ctx, v.ref)
	require.NoError(e, err)
	require.Len(e, open, 2)
	require.Nil(e, open[0].StartedEpoch)
	require.Empty(e, e.unchanged(v.ref, riding).Started)
}

// compaction: it cuts between turns and messages, never back, never through what still waits.
func compaction(e *env) {
	w := e.started()
	w.ok(w.calling([]domain.Seq{1}, "c1", "c2")) // 2
	w.ok(w.result("c1"))                         // 3
	w.ok(w.result("c2"))                         // 4
	w.no(w.compaction(2), domain.ErrInvalidPayload)
	w.ok(w.calling([]domain.Seq{1}, "c3")) // 5
	w.ok(w.result("c3"))                   // 6
	w.ok(w.answer(1))                      // 7
	w.ok(w.settle(domain.Success))         // 8
	e.submit(w.ref)                        // 9
	e.submit(w.ref)                        // 10
	w = e.begin(w.ref)
	for kept, want := range map[domain.Seq]error{
		3:  domain.ErrInvalidPayload, // between c1 and its result
		4:  domain.ErrInvalidPayload, // between c2 and its result
		6:  domain.ErrInvalidPayload, // between c3 and its result
		10: domain.ErrInvalidPayload, // drops the input 9
		11: domain.ErrInvalidPayload, // beyond the head
	} {
		w.no(w.compaction(kept), want)
	}
	c := w.compaction(5)
	out := w.ok(c)
	require.EqualValues(e, 11, out.Event.Seq)
	require.EqualValues(e, 5, e.row(w.ref).KeptSeq)
	e.unchanged(w.ref, c)
	w.no(w.compaction(2), domain.ErrInvalidPayload) // back
	w.ok(w.calling([]domain.Seq{9, 10}, "c4"))      // 12
	w.no(w.compaction(9), domain.ErrOpenCalls)
	e.unchanged(w.ref, c) // the first outcome is looked for first
	w.ok(w.result("c4"))  // 13
	w.no(w.compaction(13), domain.ErrInvalidPayload)
	w.no(w.compaction(12), domain.ErrInvalidPayload) // the turn's inputs are 9 and 10
	w.ok(w.compaction(9))
	w.ok(w.answer(9, 10)) // 15
	w.ok(w.compaction(15))
	require.EqualValues(e, 15, e.row(w.ref).KeptSeq)
}

// compactionAsked: a compaction that was asked for is work, is carried over a failure, and is over when there was
// nothing to compact.
func compactionAsked(e *env) {
	ref := e.session()
	e.do(ref, domain.EnsureRun{At: e.at(), Compact: true, NewRun: e.id("r")})
	w := e.begin(ref)
	require.True(e, w.claim.Compact)
	w.ok(w.compaction(0))
	require.Empty(e, e.events(ref))
	require.False(e, e.active(ref).Compact)
	e.unchanged(ref, w.compaction(0))
	w.ok(w.settle(domain.Success))
	require.Equal(e, domain.StatusDone, e.status(ref, w.run))

	e.submit(ref)
	w = e.begin(ref)
	e.do(ref, domain.EnsureRun{At: e.at(), Compact: true, NewRun: e.id("r")})
	w.ok(w.answer(e.row(ref).Unanswered...))
	w.ok(w.settle(domain.Success))
	require.Equal(e, domain.StatusPending, e.status(ref, w.run), "the compaction waits")
	w = e.begin(ref)
	w.cancel()
	e.submit(ref)
	w.ok(w.settle(domain.Success))
	next := e.active(ref)
	require.NotEqual(e, w.run, next.ID)
	require.True(e, next.Compact, "a successor inherits the compaction")
}
