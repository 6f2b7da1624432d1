package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// grouped opens a store whose commands all go through lanes.
func grouped(t testing.TB, cfg postgres.Config) *postgres.Store {
	t.Helper()
	s := open(t, cfg)
	s.GroupAlways()
	return s
}

// One session with eight edge writers and its owner at full speed: nobody waits for ever, and the order is that of seq.
func TestOneBusySession(t *testing.T) {
	for name, conns := range map[string]int{"one connection": 1, "several connections": 4} {
		t.Run(name, func(t *testing.T) {
			u := migrated(t)
			store, other := grouped(t, postgres.Config{URL: u, MaxConns: conns}), open(t, postgres.Config{URL: u, MaxConns: conns})
			l := claimed(t, store, domain.SessionRef{Tenant: "t", Session: "s"})
			const writers, each, turns = 8, 20, 60
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var group sync.WaitGroup
			for w := range writers {
				s := store
				if w == 0 {
					s = other // the direct way, from another process
				}
				group.Go(func() {
					last := domain.Seq(0)
					for i := range each {
						id := fmt.Sprint("w", w, "-", i)
						out, err := s.Do(ctx, l.ref, domain.SubmitInput{At: at, RequestID: id, Payload: domaintest.User(id, id), NewRun: id})
						if err != nil || !out.Created || out.Event.Seq <= last {
							t.Errorf("input %s after seq %d: %+v, error %v", id, last, out.Event, err)
							return
						}
						last = out.Event.Seq
					}
				})
			}
			group.Go(func() {
				for n := range turns {
					call := fmt.Sprint("call", n)
					answer := l.answer([]domain.Seq{1}, domaintest.Call{ID: call, Name: "tool"})
					for _, cmd := range []domain.Command{answer, l.result(call)} {
						if out, err := store.Do(ctx, l.ref, cmd); err != nil || !out.Created {
							t.Errorf("turn %d: %T: %+v, error %v", n, cmd, out, err)
							return
						}
					}
				}
			})
			group.Wait()
			if n := len(l.events()); n != 1+writers*each+2*turns {
				t.Errorf("%d events", n)
			}
			if calls, err := store.Runs().OpenCalls(t.Context(), l.ref); err != nil || len(calls) != 0 {
				t.Errorf("open calls %v, error %v", calls, err)
			}
		})
	}
}

// crowded lets all of work run at once and begin only when the first groups are held up, so that the others gather.
func crowded(t *testing.T, u string, work ...func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, sql := range []string{"BEGIN", "LOCK TABLE events IN EXCLUSIVE MODE"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	var group sync.WaitGroup
	for _, f := range work {
		group.Go(f)
	}
	time.Sleep(300 * time.Millisecond)
	if _, err := conn.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	group.Wait()
}

// Commands that domain refuses, or that the database does, harm no other in their group.
func TestPoisonedGroup(t *testing.T) {
	u := migrated(t)
	store := grouped(t, postgres.Config{URL: u, MaxConns: 2})
	const sessions, each = 12, 4
	var ledgers []*ledger
	var work []func()
	for i := range sessions {
		l := created(t, store, domain.SessionRef{Tenant: "t", Session: fmt.Sprint("s", i)})
		ledgers = append(ledgers, l)
		for n := range each {
			work = append(work, func() {
				if out, err := store.Do(t.Context(), l.ref, l.input(fmt.Sprint("r", n))); err != nil || !out.Created {
					t.Errorf("outcome %+v, error %v", out, err)
				}
			})
		}
		work = append(work, func() {
			_, err := store.Do(t.Context(), l.ref, domain.AppendExternal{At: at, RequestID: "x", Payload: domaintest.Payload(`{}`)})
			if err == nil {
				t.Error("an external event passed in a native session")
			}
		})
	}
	bad := created(t, store, domain.SessionRef{Tenant: "t", Session: "bad"})
	work = append(work, func() {
		cmd := bad.input("r")
		cmd.NewRun = "\xff"
		if _, err := store.Do(t.Context(), bad.ref, cmd); err == nil || errors.Is(err, ports.ErrUnavailable) {
			t.Errorf("error %v", err)
		}
	}, func() {
		ref := domain.SessionRef{Tenant: "t", Session: "missing"}
		_, err := store.Do(t.Context(), ref, bad.input("r"))
		wantRefusal(t, err, domain.ErrNotFound)
	})
	crowded(t, u, work...)
	for _, l := range ledgers {
		if n := len(l.events()); n != each {
			t.Errorf("%d events", n)
		}
	}
	if n := len(bad.events()); n != 0 {
		t.Errorf("%d events of the bad command", n)
	}
}

// The same input given by many in one group is one event, and all hear the same of it.
func TestOneKeyInAGroup(t *testing.T) {
	u := migrated(t)
	store := grouped(t, postgres.Config{URL: u, MaxConns: 2})
	l := created(t, store, domain.SessionRef{Tenant: "t", Session: "s"})
	created := make(chan bool, 16)
	work := make([]func(), cap(created))
	for i := range work {
		work[i] = func() {
			out, err := store.Do(t.Context(), l.ref, l.input("r"))
			if err != nil || out.Event.Seq != 1 || out.Run == nil || out.Run.AvailableAt.IsZero() {
				t.Errorf("outcome %+v, error %v", out, err)
			}
			created <- out.Created
		}
	}
	crowded(t, u, work...)
	n := 0
	for range work {
		if <-created {
			n++
		}
	}
	if n != 1 || len(l.events()) != 1 {
		t.Errorf("%d say that they wrote the event", n)
	}
}

// The commit of a group went through, its reply did not: each command finds out by itself.
func TestLostReplyToAGroup(t *testing.T) {
	u := migrated(t)
	p, through := newProxy(t, u)
	told := newRecorder()
	store := grouped(t, postgres.Config{URL: through, MaxConns: 2, Notifier: told})
	const sessions, each = 6, 5
	var ledgers []*ledger
	var work []func()
	for i := range sessions {
		l := created(t, store, domain.SessionRef{Tenant: "t", Session: fmt.Sprint("s", i)})
		ledgers = append(ledgers, l)
		for n := range each {
			work = append(work, func() {
				if out, err := store.Do(t.Context(), l.ref, l.input(fmt.Sprint("r", n))); err != nil || !out.Created {
					t.Errorf("outcome %+v, error %v", out, err)
				}
			})
		}
	}
	told.drain()
	trap := p.Lose(applyText)
	crowded(t, u, work...)
	<-trap.Done
	for _, l := range ledgers {
		if n := len(l.events()); n != each {
			t.Errorf("%d events", n)
		}
	}
	seen := map[domain.SessionRef]int{}
	for _, c := range told.drain() {
		seen[c.Ref] += len(c.Events)
	}
	for _, l := range ledgers {
		if seen[l.ref] != each {
			t.Errorf("%d events were told", seen[l.ref])
		}
	}
}

// A caller that goes away before its turn writes nothing.
func TestEndedRequestLeavesTheLane(t *testing.T) {
	u := migrated(t)
	store := grouped(t, postgres.Config{URL: u, MaxConns: 1})
	l := created(t, store, domain.SessionRef{Tenant: "t", Session: "s"})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	first := func() { l.must(l.input("first")) }
	late := func() {
		time.Sleep(50 * time.Millisecond)
		if _, err := store.Do(ctx, l.ref, l.input("late")); !errors.Is(err, ports.ErrUnavailable) && !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	}
	crowded(t, u, first, late)
	if n := len(l.events()); n != 1 {
		t.Errorf("%d events", n)
	}
}

// What a store knows of a session it runs never stands against what others wrote.
func TestKnownSessionsAreVerified(t *testing.T) {
	u := migrated(t)
	l := claimed(t, open(t, postgres.Config{URL: u}), domain.SessionRef{Tenant: "t", Session: "s"})
	other := &ledger{t: t, store: open(t, postgres.Config{URL: u}), ref: l.ref, run: l.run, token: l.token}
	answer := l.answer([]domain.Seq{1}, domaintest.Call{ID: "c", Name: "tool"})
	l.must(answer)
	l.must(l.result("c"))
	if out := l.must(answer); out.Created || out.Event.Seq != 2 {
		t.Errorf("a repeated answer: %+v", out)
	}
	if out := l.must(l.result("c")); out.Created || out.Event.Seq != 3 {
		t.Errorf("a repeated result: %+v", out)
	}
	wantRefusal(t, second(l.store.Do(t.Context(), l.ref, l.answer(nil, domaintest.Call{ID: "c", Name: "tool"}))), domain.ErrCallIDUsed)
	other.must(other.input("elsewhere"))
	if out := l.must(l.answer([]domain.Seq{1})); out.Event.Seq != 5 {
		t.Errorf("after another process wrote: %+v", out.Event)
	}
	other.must(domain.RequestCancel{})
	if out := l.must(l.answer(nil)); out.Run.CancelSeq == nil {
		t.Errorf("the cancel went unseen: %+v", out.Run)
	}
	other.must(domain.HandBack{Run: l.run, Token: l.token})
	wantRefusal(t, second(l.store.Do(t.Context(), l.ref, l.answer(nil))), domain.ErrFenced)
}

// The same in groups: owners at full speed, while another process writes to their sessions, and repeated commands.
func TestKnownSessionsAreVerifiedInGroups(t *testing.T) {
	u := migrated(t)
	store, other := grouped(t, postgres.Config{URL: u, MaxConns: 3}), open(t, postgres.Config{URL: u, MaxConns: 2})
	const turns = 15
	ledgers := claimedBy(t, store, 12)
	var group sync.WaitGroup
	for i, l := range ledgers {
		group.Go(func() {
			for n := range turns {
				call := domaintest.Call{ID: fmt.Sprint("call", n), Name: "tool"}
				answer := l.answer([]domain.Seq{1}, call)
				for _, cmd := range []domain.Command{answer, l.result(call.ID)} {
					if out, err := store.Do(t.Context(), l.ref, cmd); err != nil || !out.Created {
						t.Errorf("%T: %+v, error %v", cmd, out, err)
					}
				}
				if out, err := store.Do(t.Context(), l.ref, answer); err != nil || out.Created {
					t.Errorf("a repeated answer: %+v, error %v", out, err)
				}
				again := l.answer([]domain.Seq{1}, call)
				if _, err := store.Do(t.Context(), l.ref, again); !errors.Is(err, domain.ErrCallIDUsed) {
					t.Errorf("a call id was used again: error %v", err)
				}
				if i%3 == 0 {
					if _, err := other.Do(t.Context(), l.ref, l.input(fmt.Sprint("other", n))); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Wait()
	for i, l := range ledgers {
		want := 1 + 2*turns
		if i%3 == 0 {
			want += turns
		}
		if n := len(l.events()); n != want {
			t.Errorf("%d events instead of %d", n, want)
		}
	}
}

// A page ends with the payload that exceeds its bytes.
func TestPagesAreBoundedByBytes(t *testing.T) {
	store := open(t, postgres.Config{URL: migrated(t)})
	l := created(t, store, domain.SessionRef{Tenant: "t", Session: "s"})
	for i := range 4 {
		cmd := l.input(fmt.Sprint("r", i))
		cmd.Payload = domaintest.User(cmd.RequestID, strings.Repeat("x", ports.PageBytes*6/10))
		l.must(cmd)
	}
	for after, want := range map[domain.Seq]int{0: 2, 1: 2, 3: 1, 4: 0} {
		if page, err := store.Events(t.Context(), l.ref, after, 100); err != nil || len(page) != want {
			t.Errorf("%d events after %d, error %v", len(page), after, err)
		}
	}
	if page, err := store.Events(t.Context(), l.ref, 0, 1); err != nil || len(page) != 1 {
		t.Errorf("%d events, error %v", len(page), err)
	}
}

// A server that stands still makes nobody wait for ever.
func TestFrozenServer(t *testing.T) {
	for _, group := range []bool{false, true} {
		t.Run(fmt.Sprint("grouped ", group), func(t *testing.T) {
			p, through := newProxy(t, migrated(t))
			store := open(t, postgres.Config{URL: through, MaxConns: 1})
			l := created(t, store, domain.SessionRef{Tenant: "t", Session: "s"})
			l.must(l.input("first"))
			store.Impatient(100 * time.Millisecond)
			if group {
				store.GroupAlways()
			}
			p.Freeze(true)
			began := time.Now()
			_, read := store.Events(t.Context(), l.ref, 0, 10)
			_, listed := store.Sessions().List(t.Context(), ports.SessionQuery{Tenant: "t", Limit: 1})
			_, done := store.Do(t.Context(), l.ref, l.input("second"))
			if d := time.Since(began); d > 5*time.Second {
				t.Errorf("it took %v", d)
			}
			for _, err := range []error{read, listed, done} {
				wantRefusal(t, err, ports.ErrUnavailable)
			}
			p.Freeze(false)
			insist(t, func() error { return second(store.Do(t.Context(), l.ref, l.input("third"))) })
			if n := len(l.events()); n != 2 {
				t.Errorf("%d events", n)
			}
		})
	}
}
