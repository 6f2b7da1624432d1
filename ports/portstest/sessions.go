package portstest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// TestSessions checks ports.Sessions.
func TestSessions(t *testing.T, open Open) {
	suite{
		{"get", getSession},
		{"list order and pages", listSessions},
		{"list filters", filterSessions},
		{"heads", heads},
	}.run(t, open)
}

// getSession: the row and its active run are of one moment.
func getSession(e *env) {
	ref := e.session()
	row, run, err := e.Sessions.Get(e.ctx, ref)
	require.NoError(e, err)
	require.Nil(e, run)
	require.Equal(e, ref, row.Ref)
	e.submit(ref)
	row, run, err = e.Sessions.Get(e.ctx, ref)
	require.NoError(e, err)
	require.Equal(e, row.ActiveRun, run.ID)
	require.Equal(e, e.run(ref, run.ID), *run)

	stop := make(chan struct{})
	done := make(chan error)
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			row, run, err := e.Sessions.Get(e.ctx, ref)
			switch {
			case err != nil:
				done <- err
				return
			case (row.ActiveRun == "") != (run == nil),
				run != nil && (run.ID != row.ActiveRun || (run.Status == domain.StatusRunning) != (row.Owner != "") || run.Owner != row.Owner):
				done <- fmt.Errorf("torn: session %+v, run %+v", row, run)
				return
			}
		}
	}()
	for range 10 {
		w := e.begin(ref)
		w.ok(w.answer(e.row(ref).Unanswered...))
		w.ok(w.settle(domain.Success))
		e.submit(ref)
	}
	close(stop)
	require.NoError(e, <-done)
}

// listed makes sessions of one tenant and returns their ids in list order.
func (e *env) listed(tenant string, ids []string, at func(i int) time.Time) []string {
	e.Helper()
	for i, id := range ids {
		e.do(domain.SessionRef{Tenant: tenant, Session: id}, domain.CreateSession{At: at(i), Request: domaintest.Payload(`{}`)})
	}
	order := slices.Clone(ids)
	slices.SortFunc(order, func(a, b string) int {
		i, j := slices.Index(ids, a), slices.Index(ids, b)
		if c := at(j).Compare(at(i)); c != 0 {
			return c
		}
		return compareDescending(a, b)
	})
	return order
}

func compareDescending(a, b string) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	}
	return 0
}

func (e *env) list(q ports.SessionQuery) []string {
	e.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	rows, err := e.Sessions.List(e.ctx, q)
	require.NoError(e, err)
	ids := []string{}
	for _, r := range rows {
		require.Equal(e, q.Tenant, r.Ref.Tenant)
		ids = append(ids, r.Ref.Session)
	}
	return ids
}

// listSessions: newest first, ties by the bytes of the id, and pages that neither repeat nor leave out.
func listSessions(e *env) {
	ids := []string{"b", "a", "B", "_", "é", "e", "ab", "a-b", "Z", "0"}
	want := e.listed("t1", ids, func(i int) time.Time { return domaintest.Epoch.Add(time.Duration(i/6) * time.Millisecond) })
	e.listed("t2", ids, func(i int) time.Time { return domaintest.Epoch.Add(time.Duration(i) * time.Hour) })
	require.Equal(e, want, e.list(ports.SessionQuery{Tenant: "t1"}))
	require.Empty(e, e.list(ports.SessionQuery{Tenant: "t3"}))
	for _, limit := range []int{1, 3, 10, 11} {
		var got []string
		var before *ports.SessionCursor
		for {
			rows, err := e.Sessions.List(e.ctx, ports.SessionQuery{Tenant: "t1", Before: before, Limit: limit})
			require.NoError(e, err)
			require.LessOrEqual(e, len(rows), limit)
			if len(rows) == 0 {
				break
			}
			require.LessOrEqual(e, len(got), 2*len(ids), "the pages do not end")
			for _, r := range rows {
				got = append(got, r.Ref.Session)
			}
			last := rows[len(rows)-1]
			before = &ports.SessionCursor{CreatedAtMS: last.CreatedAt.UnixMilli(), Session: last.Ref.Session}
			if len(got) == limit { // what comes new is first, and no business of later pages
				e.do(domain.SessionRef{Tenant: "t1", Session: fmt.Sprint("new", limit)},
					domain.CreateSession{At: domaintest.Epoch.Add(time.Hour), Request: domaintest.Payload(`{}`)})
			}
		}
		got = slices.DeleteFunc(got, func(id string) bool { return !slices.Contains(ids, id) })
		require.Equal(e, want, got, "pages of %d", limit)
	}
}

func filterSessions(e *env) {
	meta := map[string]string{
		"red":    `{"color":"red","n":"1","odd ' \" ? $1 . key":"x"}`,
		"blue":   `{"color":"blue","n":"1"}`,
		"number": `{"color":"red","n":1}`,
		"nested": `{"in":{"color":"red"}}`,
		"null":   `{"color":null}`,
		"case":   `{"Color":"red"}`,
		"nul":    `{"color":"r\u0000d"}`,
		"spell":  `{"color":"\\u0000"}`,
		"none":   ``,
	}
	for id, m := range meta {
		c := domain.CreateSession{At: domaintest.Epoch, Request: domaintest.Payload(`{}`)}
		if m != "" {
			c.Info.Metadata = domaintest.Payload(m)
		}
		if id == "blue" {
			c.Parent = &domain.Parent{Session: "red", Run: "r", Call: "c"}
		}
		e.do(domain.SessionRef{Tenant: "t1", Session: id}, c)
	}
	e.do(domain.SessionRef{Tenant: "t2", Session: "red"}, domain.CreateSession{At: domaintest.Epoch, Request: domaintest.Payload(`{}`),
		Info: domain.SessionInfo{Metadata: domaintest.Payload(`{"color":"red"}`)}, Parent: &domain.Parent{Session: "red"}})
	e.do(domain.SessionRef{Tenant: "t1", Session: "number"}, domain.CloseSession{})

	with := func(q ports.SessionQuery, members ...string) []string {
		q.Tenant = "t1"
		for i := 0; i < len(members); i += 2 {
			if q.Metadata == nil {
				q.Metadata = map[string]string{}
			}
			q.Metadata[members[i]] = members[i+1]
		}
		return e.list(q)
	}
	require.Equal(e, []string{"red", "number"}, with(ports.SessionQuery{}, "color", "red"))
	require.Equal(e, []string{"red"}, with(ports.SessionQuery{}, "color", "red", "n", "1"))
	require.Equal(e, []string{"red", "blue"}, with(ports.SessionQuery{}, "n", "1"))
	require.Equal(e, []string{"case"}, with(ports.SessionQuery{}, "Color", "red"))
	require.Equal(e, []string{"red"}, with(ports.SessionQuery{}, "odd ' \" ? $1 . key", "x"))
	require.Equal(e, []string{"nul"}, with(ports.SessionQuery{}, "color", "r\x00d"))
	require.Equal(e, []string{"spell"}, with(ports.SessionQuery{}, "color", `\u0000`))
	require.Empty(e, with(ports.SessionQuery{}, "color", "null"))
	require.Empty(e, with(ports.SessionQuery{}, "color", ""))
	require.Empty(e, with(ports.SessionQuery{}, "%", "x"))
	require.Equal(e, []string{"number"}, with(ports.SessionQuery{State: domain.SessionClosed}))
	require.Equal(e, []string{"red"}, with(ports.SessionQuery{State: domain.SessionOpen}, "color", "red"))
	require.Equal(e, []string{"blue"}, with(ports.SessionQuery{Parent: "red"}))
	require.Empty(e, with(ports.SessionQuery{Parent: "blue"}))
	require.Len(e, with(ports.SessionQuery{}), len(meta))
	require.Equal(e, []string{"number"}, with(ports.SessionQuery{Before: &ports.SessionCursor{CreatedAtMS: domaintest.Epoch.UnixMilli(), Session: "red"}}, "color", "red"))
}

func heads(e *env) {
	long, empty, other := e.session(), e.session(), e.session()
	for range 3 {
		e.submit(long)
	}
	e.submit(other)
	foreign := domain.SessionRef{Tenant: "t2", Session: long.Session}
	refs := []domain.SessionRef{other, foreign, long, empty, {Tenant: "t1", Session: "missing"}, long}
	got, err := e.Sessions.Heads(e.ctx, refs)
	require.NoError(e, err)
	require.Equal(e, []domain.Seq{1, 0, 3, 0, 0, 3}, got)
	got, err = e.Sessions.Heads(e.ctx, nil)
	require.NoError(e, err)
	require.Empty(e, got)
}
