package portstest

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// TestAudit checks ports.Audit. open opens a store as for TestStore, and an audit of it.
func TestAudit(t *testing.T, open func(t *testing.T) (Store, ports.Audit)) {
	for name, test := range map[string]func(*env, ports.Audit){
		"order and pages": auditRefs,
		"rows":            auditRows,
		"one moment":      auditMoment,
	} {
		t.Run(name, func(t *testing.T) {
			s, a := open(t)
			test(newEnv(t, s), a)
		})
	}
}

// CheckStrays wants the audit to find one stray session, and none when a row of its tenant t is made.
func CheckStrays(t *testing.T, l ports.Ledger, a ports.Audit, stray string) {
	t.Helper()
	ref := domain.SessionRef{Tenant: "t", Session: stray}
	other := domain.SessionRef{Tenant: "t", Session: stray + "-not"}
	for _, want := range []struct {
		create domain.SessionRef
		strays []domain.SessionRef
	}{{other, []domain.SessionRef{ref}}, {ref, nil}} {
		_, err := l.Do(t.Context(), want.create, domain.CreateSession{At: domaintest.Epoch, Request: domaintest.Payload(`{}`)})
		require.NoError(t, err)
		strays, err := a.Strays(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, want.strays, strays)
	}
}

func auditRefs(e *env, a ports.Audit) {
	var want []domain.SessionRef // in the order of bytes
	for _, tenant := range []string{"B", "a", "b"} {
		for _, id := range []string{"0", "Z", "_", "a", "a-b", "ab", "é"} {
			want = append(want, domain.SessionRef{Tenant: tenant, Session: id})
		}
	}
	for i := range want {
		ref := want[(i*5+3)%len(want)]
		e.do(ref, domain.CreateSession{At: domaintest.Epoch, Request: domaintest.Payload(`{}`)})
	}
	for _, limit := range []int{1, 7, 100} {
		var got []domain.SessionRef
		for after := (domain.SessionRef{}); ; after = got[len(got)-1] {
			page, err := a.Refs(e.ctx, after, limit)
			require.NoError(e, err)
			require.LessOrEqual(e, len(page), limit)
			if got = append(got, page...); len(page) == 0 {
				break
			}
			require.LessOrEqual(e, len(got), len(want), "the pages do not end")
		}
		require.Equal(e, want, got, "pages of %d", limit)
	}
	tenant, err := a.Refs(e.ctx, domain.SessionRef{Tenant: "b"}, 2)
	require.NoError(e, err)
	require.Equal(e, want[14:16], tenant)
	strays, err := a.Strays(e.ctx, 10)
	require.NoError(e, err)
	require.Empty(e, strays)
}

func auditRows(e *env, a ports.Audit) {
	_, err := a.Rows(e.ctx, domain.SessionRef{Tenant: "t1", Session: "missing"})
	require.ErrorIs(e, err, domain.ErrNotFound)

	ref := e.session()
	rows := e.audit(a, ref)
	require.Equal(e, e.row(ref), rows.Session)
	require.Zero(e, rows.LastSeq)
	require.Empty(e, rows.Runs)
	require.Empty(e, rows.Calls)
	_, err = a.Rows(e.ctx, domain.SessionRef{Tenant: "t2", Session: ref.Session})
	require.ErrorIs(e, err, domain.ErrNotFound)

	e.submit(ref)
	w := e.begin(ref)
	w.ok(w.calling(e.row(ref).Unanswered, "b", "a"))
	w.ok(w.start("b"))
	w.ok(w.result("b"))
	rows = e.audit(a, ref)
	require.Equal(e, e.row(ref), rows.Session)
	require.Equal(e, rows.Session.HeadSeq, rows.LastSeq)
	require.Equal(e, []domain.Run{e.active(ref)}, rows.Runs)
	epoch := w.token.Epoch
	require.Equal(e, []domain.ToolCall{
		{ID: "b", AssistantSeq: 2, Ordinal: 0, Name: "tool", StartedEpoch: &epoch, ResultSeq: 3},
		{ID: "a", AssistantSeq: 2, Ordinal: 1, Name: "tool"},
	}, rows.Calls)

	w.ok(w.result("a"))
	w.ok(w.answer())
	w.ok(w.settle(domain.Success))
	rows = e.audit(a, ref)
	require.Empty(e, rows.Runs, "a run that is done belongs to no check")
	require.Len(e, rows.Calls, 2)

	other := e.session() // what is not its own is not among its rows
	e.submit(other)
	require.Len(e, e.audit(a, other).Runs, 1)
	require.Empty(e, e.audit(a, other).Calls)
}

// audit returns the rows of a session, which must agree with its ledger.
func (e *env) audit(a ports.Audit, ref domain.SessionRef) ports.AuditRows {
	e.Helper()
	rows, err := verified(e.ctx, e.Ledger, a, ref)
	require.NoError(e, err)
	return rows
}

// verified reads rows, then the ledger up to their head, and returns what does not agree as an error.
func verified(ctx context.Context, l ports.Ledger, a ports.Audit, ref domain.SessionRef) (ports.AuditRows, error) {
	rows, err := a.Rows(ctx, ref)
	if err != nil {
		return rows, err
	}
	events, err := l.Events(ctx, ref, 0, math.MaxInt32)
	if err != nil {
		return rows, err
	}
	v := domain.NewVerifier(rows.Session.LegacyWatermark)
	for _, ev := range events[:min(len(events), int(rows.Session.HeadSeq))] {
		v.Apply(ev)
	}
	if faults := v.Finish(rows.Session, rows.Calls); len(faults) > 0 {
		return rows, fmt.Errorf("torn: %v", faults)
	}
	if rows.LastSeq != rows.Session.HeadSeq {
		return rows, fmt.Errorf("torn: events up to %d, head %d", rows.LastSeq, rows.Session.HeadSeq)
	}
	active := 0
	for _, run := range rows.Runs {
		if run.ID != rows.Session.ActiveRun || run.Owner != rows.Session.Owner {
			return rows, fmt.Errorf("torn: session %+v, run %+v", rows.Session, run)
		}
		active++
	}
	if (active == 1) != (rows.Session.ActiveRun != "") {
		return rows, fmt.Errorf("torn: session %+v, %d active runs", rows.Session, active)
	}
	return rows, nil
}

// auditMoment: rows that are read while a worker writes are of one moment.
func auditMoment(e *env, a ports.Audit) {
	ref := e.session()
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if _, err := verified(e.ctx, e.Ledger, a, ref); err != nil {
				done <- err
				return
			}
		}
	}()
	for i := range 10 {
		e.submit(ref)
		w := e.begin(ref)
		call := fmt.Sprint("call", i)
		w.ok(w.calling(e.row(ref).Unanswered, call))
		w.ok(w.result(call))
		w.ok(w.answer())
		w.ok(w.settle(domain.Success))
	}
	close(stop)
	require.NoError(e, <-done)
	e.audit(a, ref)
}
