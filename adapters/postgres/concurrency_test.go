package postgres_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// K38: many writers of one session, and readers that resume anywhere, never see a gap or a late event.
func TestReadersSeeCompletePrefixes(t *testing.T) {
	u := migrated(t)
	store, other := open(t, postgres.Config{URL: u, MaxConns: 4}), open(t, postgres.Config{URL: u, MaxConns: 2})
	l := created(t, store, domain.SessionRef{Tenant: "t", Session: "s"})
	const writers, each = 8, 25
	const total = writers * each

	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				id := fmt.Sprint("w", w, "-", i)
				cmd := domain.SubmitInput{At: at, RequestID: id, Payload: domaintest.User(id, id), NewRun: "run-" + id}
				s := store
				if w%2 == 1 {
					s = other
				}
				if _, err := s.Do(t.Context(), l.ref, cmd); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var done atomic.Bool
	for r := range 4 {
		reading.Go(func() {
			var seen []domain.Event
			for len(seen) < total {
				finished := done.Load()
				page, err := other.Events(t.Context(), l.ref, domain.Seq(len(seen)), 1+r*7)
				if err != nil {
					t.Error(err)
					return
				}
				seen = append(seen, page...)
				for i, e := range seen {
					if e.Seq != domain.Seq(i+1) {
						t.Errorf("seq %d at position %d", e.Seq, i)
						return
					}
				}
				if finished && len(page) == 0 {
					break
				}
			}
			if len(seen) != total {
				t.Errorf("a reader saw %d of %d events", len(seen), total)
			}
			checkChain(t, seen)
		})
	}
	writing.Wait()
	done.Store(true)
	reading.Wait()
	if runs, err := store.Runs().List(t.Context(), l.ref, nil, 10); err != nil || len(runs) != 1 {
		t.Errorf("%d runs were made, error %v", len(runs), err)
	}
}

// The same input given by many at once is one event, and all hear the same of it.
func TestOneKeyGivenByManyAtOnce(t *testing.T) {
	store := open(t, postgres.Config{URL: migrated(t), MaxConns: 8})
	l := created(t, store, domain.SessionRef{Tenant: "t", Session: "s"})
	var created atomic.Int32
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			cmd := l.input("r")
			cmd.NewRun = fmt.Sprint("run", i)
			out, err := store.Do(t.Context(), l.ref, cmd)
			if err != nil || out.Event.Seq != 1 {
				t.Errorf("outcome %+v, error %v", out, err)
			}
			if out.Created {
				created.Add(1)
			}
		})
	}
	group.Wait()
	if n := created.Load(); n != 1 || len(l.events()) != 1 {
		t.Errorf("%d say that they wrote the event", n)
	}
}

// The same session created by many at once exists once.
func TestOneSessionCreatedByManyAtOnce(t *testing.T) {
	store := open(t, postgres.Config{URL: migrated(t), MaxConns: 8})
	ref := domain.SessionRef{Tenant: "t", Session: "s"}
	var conflicts atomic.Int32
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			request := domaintest.Payload(fmt.Sprintf(`{"title":"%d"}`, i%2))
			_, err := store.Do(t.Context(), ref, domain.CreateSession{At: at, Request: request})
			switch {
			case errors.Is(err, domain.ErrIdempotencyConflict):
				conflicts.Add(1)
			case err != nil:
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := conflicts.Load(); n != 8 {
		t.Errorf("%d conflicts instead of 8", n)
	}
}

// Several processes claim at once: each run is claimed once, none is passed over for good.
func TestRunsAreClaimedOnce(t *testing.T) {
	u := migrated(t)
	store := open(t, postgres.Config{URL: u, MaxConns: 8})
	const sessions = 120
	var group sync.WaitGroup
	for i := range sessions {
		group.Go(func() {
			l := created(t, store, domain.SessionRef{Tenant: fmt.Sprint("t", i%3), Session: fmt.Sprint("s", i)})
			l.must(l.input("r"))
		})
	}
	group.Wait()
	var mu sync.Mutex
	owners := map[string]string{}
	for p := range 4 {
		group.Go(func() {
			id := fmt.Sprint("p", p)
			mine := open(t, postgres.Config{URL: u, MaxConns: 1})
			if err := mine.Processes().Register(t.Context(), id, "here", time.Minute); err != nil {
				t.Error(err)
			}
			for {
				claims, err := mine.Runs().Claim(t.Context(), ports.ClaimRequest{Process: id, Max: 7})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				for _, c := range claims {
					if was, taken := owners[c.Run.ID]; taken {
						t.Errorf("run %s was claimed by %s and by %s", c.Run.ID, was, id)
					}
					owners[c.Run.ID] = id
				}
				all := len(owners) >= sessions
				mu.Unlock()
				if all || err != nil {
					return
				}
			}
		})
	}
	group.Wait()
	if len(owners) != sessions {
		t.Errorf("%d of %d runs were claimed", len(owners), sessions)
	}
}

// What is committed while a claim chooses its runs is not overwritten by it.
func TestCancelsDuringAClaimStand(t *testing.T) {
	u := migrated(t)
	store := open(t, postgres.Config{URL: u, MaxConns: 8})
	const sessions = 200
	ledgers := make([]*ledger, sessions)
	var group sync.WaitGroup
	for i := range ledgers {
		ledgers[i] = &ledger{t: t, store: store, ref: domain.SessionRef{Tenant: "t", Session: fmt.Sprint("s", i)}}
		group.Go(func() {
			ledgers[i].must(domain.CreateSession{At: at, Request: domaintest.Payload(`{}`)})
			ledgers[i].must(ledgers[i].input("r"))
		})
	}
	group.Wait()
	if err := store.Processes().Register(t.Context(), "p", "here", time.Minute); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		group.Go(func() {
			mine := open(t, postgres.Config{URL: u, MaxConns: 1})
			for n := i; n < sessions; n += 4 {
				if _, err := mine.Do(t.Context(), ledgers[n].ref, domain.RequestCancel{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for claimed := 0; claimed < sessions && !t.Failed(); {
		claims, err := store.Runs().Claim(t.Context(), ports.ClaimRequest{Process: "p", Max: 50})
		if err != nil {
			t.Fatal(err)
		}
		claimed += len(claims)
	}
	group.Wait()
	for _, l := range ledgers {
		if _, run, err := store.Sessions().Get(t.Context(), l.ref); err != nil || run == nil || run.CancelSeq == nil {
			t.Errorf("session %s: run %+v, error %v", l.ref.Session, run, err)
		}
	}
}

// A claim and the burial of its process are ordered: whatever a process claimed before it was buried is found.
func TestClaimsOfABuriedProcessAreFound(t *testing.T) {
	u := migrated(t)
	store := open(t, postgres.Config{URL: u, MaxConns: 6})
	for i := range 40 {
		l := created(t, store, domain.SessionRef{Tenant: "t", Session: fmt.Sprint("s", i)})
		l.must(l.input("r"))
	}
	claimed := map[string]bool{}
	found := map[string]bool{}
	for round := range 8 {
		id := fmt.Sprint("p", round)
		if err := store.Processes().Register(t.Context(), id, "here", time.Minute); err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		group.Go(func() {
			claims, err := store.Runs().Claim(t.Context(), ports.ClaimRequest{Process: id, Max: 5})
			if err != nil && !errors.Is(err, ports.ErrProcessDead) {
				t.Error(err)
			}
			for _, c := range claims {
				claimed[c.Run.ID] = true
			}
		})
		group.Go(func() {
			if err := store.Processes().Deregister(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
		group.Wait()
		orphans, _, err := store.Processes().Bury(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range orphans {
			found[o.Run] = true
		}
	}
	for run := range claimed {
		if !found[run] {
			t.Errorf("run %s of a dead process was not found", run)
		}
	}
	if left, err := store.Processes().List(t.Context()); err != nil || len(claimed) == 0 && len(left) != 0 {
		t.Errorf("processes %v, error %v", left, err)
	}
}
