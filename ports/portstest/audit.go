package portstest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
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

// auditRows: all rows of a session, and no others.
func auditRows(e *env, a ports.Audit) {
	none := func(ports.AuditRows) error { panic("there are no rows to read") }
	require.ErrorIs(e, a.Rows(e.ctx, domain.SessionRef{Tenant: "t1", Session: "missing"}, none), domain.ErrNotFound)

	ref := e.session()
	rows := e.audit(a, ref)
	require.Equal(e, e.row(ref), rows.Session)
	require.Zero(e, rows.LastSeq)
	require.Empty(e, rows.runs)
	require.Empty(e, rows.Calls)
	require.ErrorIs(e, a.Rows(e.ctx, domain.SessionRef{Tenant: "t2", Session: ref.Session}, none), domain.ErrNotFound)

	e.submit(ref)
	w := e.begin(ref)
	w.ok(w.calling(e.row(ref).Unanswered, "b", "a"))
	w.ok(w.start("b"))
	w.ok(w.result("b"))
	rows = e.audit(a, ref)
	require.Equal(e, e.row(ref), rows.Session)
	require.Equal(e, rows.Session.HeadSeq, rows.LastSeq)
	require.Equal(e, []domain.Run{e.active(ref)}, rows.runs)
	epoch := w.token.Epoch
	require.Equal(e, []domain.ToolCall{
		{ID: "b", AssistantSeq: 2, Ordinal: 0, Name: "tool", StartedEpoch: &epoch, ResultSeq: 3},
		{ID: "a", AssistantSeq: 2, Ordinal: 1, Name: "tool"},
	}, rows.Calls)

	w.ok(w.result("a"))
	w.ok(w.answer())
	w.ok(w.settle(domain.Success))
	require.Len(e, e.audit(a, ref).Calls, 2)
	for range 3 {
		e.submit(ref)
		w = e.begin(ref)
		w.ok(w.answer(e.row(ref).Unanswered...))
		w.ok(w.settle(domain.Success))
	}
	rows = e.audit(a, ref)
	list, err := e.Runs.List(e.ctx, ref, nil, 10)
	require.NoError(e, err)
	slices.Reverse(list)
	require.Len(e, list, 4)
	require.Equal(e, list, rows.runs, "those that are done as well, the oldest first")

	other := e.session() // what is not its own is not among its rows
	e.submit(other)
	require.Len(e, e.audit(a, other).runs, 1)
	require.Empty(e, e.audit(a, other).Calls)

	stop, read := errors.New("stop"), 0
	err = a.Rows(e.ctx, ref, func(r ports.AuditRows) error {
		for run, err := range r.Runs {
			require.NoError(e, err)
			require.Equal(e, list[0], run)
			if read++; read > 0 {
				break
			}
		}
		return stop
	})
	require.ErrorIs(e, err, stop)
	require.Equal(e, 1, read)
	require.Len(e, e.audit(a, ref).runs, 4, "the store is as good as before")
}

// auditedRows are rows with all runs in memory.
type auditedRows struct {
	ports.AuditRows
	runs []domain.Run
}

// audit returns the rows of a session, which must agree with its ledger.
func (e *env) audit(a ports.Audit, ref domain.SessionRef) auditedRows {
	e.Helper()
	rows, err := verified(e.ctx, e.Ledger, a, ref)
	require.NoError(e, err)
	return rows
}

// verified reads rows, then the ledger up to their head, and returns what does not agree as an error.
func verified(ctx context.Context, l ports.Ledger, a ports.Audit, ref domain.SessionRef) (rows auditedRows, err error) {
	var v *domain.Verifier
	err = a.Rows(ctx, ref, func(r ports.AuditRows) error {
		rows, v = auditedRows{AuditRows: r}, domain.NewVerifier(r.Session)
		for run, err := range r.Runs {
			if err != nil {
				return err
			}
			rows.runs = append(rows.runs, run)
			v.Run(run)
		}
		return nil
	})
	if err != nil {
		return rows, err
	}
	events, err := l.Events(ctx, ref, 0, math.MaxInt32)
	if err != nil {
		return rows, err
	}
	for _, ev := range events[:min(len(events), int(rows.Session.HeadSeq))] {
		v.Apply(ev)
	}
	if faults := v.Finish(rows.LastSeq, rows.Calls); len(faults) > 0 {
		return rows, fmt.Errorf("torn: %v", faults)
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
