package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// recorder keeps what a store told its Notifier.
type recorder struct{ commits chan ports.Commit }

func newRecorder() recorder { return recorder{make(chan ports.Commit, 1000)} }

func (r recorder) Committed(c ports.Commit) { r.commits <- c }

func (r recorder) drain() (all []ports.Commit) {
	for {
		select {
		case c := <-r.commits:
			all = append(all, c)
		default:
			return all
		}
	}
}

// applyText begins what Do writes with.
const applyText = "UPDATE sessions AS s SET"

// K17: the commit went through, its reply did not.
func TestLostReply(t *testing.T) {
	cases := map[string]struct {
		text  string // of the statement whose reply is lost
		bring func(l *ledger) domain.Command
		wrote int // events that the command appends
	}{
		"edge input": {applyText, func(l *ledger) domain.Command { return l.input("second") }, 1},
		"answer": {applyText, func(l *ledger) domain.Command {
			return l.answer([]domain.Seq{1}, domaintest.Call{ID: "c", Name: "tool"})
		}, 1},
		"tool result": {applyText, func(l *ledger) domain.Command {
			l.must(l.answer([]domain.Seq{1}, domaintest.Call{ID: "c", Name: "tool"}))
			return l.result("c")
		}, 1},
		"compaction": {applyText, func(l *ledger) domain.Command {
			l.must(l.answer([]domain.Seq{1}))
			return l.compaction(2)
		}, 1},
		"settle": {applyText, func(l *ledger) domain.Command {
			l.must(l.answer([]domain.Seq{1}))
			return l.settle()
		}, 1},
		"hand back": {applyText, func(l *ledger) domain.Command { return domain.HandBack{Run: l.run, Token: l.token} }, 0},
		"cancel":    {applyText, func(*ledger) domain.Command { return domain.RequestCancel{} }, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			u := migrated(t)
			p, through := newProxy(t, u)
			told := newRecorder()
			store := open(t, postgres.Config{URL: through, Notifier: told})
			l := claimed(t, store, domain.SessionRef{Tenant: "t", Session: "s"})
			cmd := c.bring(l)
			before := len(l.events())
			told.drain()

			trap := p.Lose(c.text)
			first := l.must(cmd)
			<-trap.Done
			if commits := told.drain(); len(commits) != 1 || commits[0].Wake == (domain.Wake{}) {
				t.Errorf("told %+v", commits)
			}
			if c.wrote > 0 && !first.Created {
				t.Error("the command does not own up to what it wrote")
			}
			if n := len(l.events()) - before; n != c.wrote {
				t.Errorf("%d events were appended instead of %d", n, c.wrote)
			}
			again := l.must(cmd)
			if again.Created && c.wrote > 0 || len(l.events())-before != c.wrote {
				t.Errorf("a repeated command wrote again: %+v", again)
			}
			if first.Session.HeadSeq != again.Session.HeadSeq || first.Session.Version != again.Session.Version && c.wrote > 0 {
				t.Errorf("first %+v, repeated %+v", first.Session, again.Session)
			}
		})
	}
}

// Others write before the fate of a commit is looked up.
func TestLostReplyOvertaken(t *testing.T) {
	u := migrated(t)
	p, through := newProxy(t, u)
	l := claimed(t, open(t, postgres.Config{URL: through}), domain.SessionRef{Tenant: "t", Session: "s"})
	direct := &ledger{t: t, store: open(t, postgres.Config{URL: u}), ref: l.ref}
	trap := p.Hold(applyText)
	overtaken := make(chan struct{})
	go func() {
		defer close(overtaken)
		<-trap.Done
		if _, err := direct.store.Do(t.Context(), l.ref, direct.input("third")); err != nil {
			t.Error(err)
		}
		close(trap.Release)
	}()
	out := l.must(l.input("second"))
	<-overtaken
	if !out.Created || out.Event.Seq != 2 || out.Session.HeadSeq != 3 || len(l.events()) != 3 {
		t.Errorf("outcome %+v", out)
	}
}

func TestLostReplyToCreate(t *testing.T) {
	p, through := newProxy(t, migrated(t))
	store := open(t, postgres.Config{URL: through})
	p.Lose("INSERT INTO sessions")
	l := created(t, store, domain.SessionRef{Tenant: "t", Session: "s"})
	if out := l.must(domain.CreateSession{At: at, Request: domaintest.Payload(`{ }`)}); out.Created {
		t.Errorf("created twice: %+v", out)
	}
	_, err := store.Do(t.Context(), l.ref, domain.CreateSession{At: at, Request: domaintest.Payload(`{"title":"x"}`)})
	if !errors.Is(err, domain.ErrIdempotencyConflict) {
		t.Errorf("error %v", err)
	}
}

func TestLostReplyToRenewAndRegister(t *testing.T) {
	p, through := newProxy(t, migrated(t))
	store := open(t, postgres.Config{URL: through})
	p.Lose("INSERT INTO processes")
	l := claimed(t, store, domain.SessionRef{Tenant: "t", Session: "s"})
	l.must(domain.RequestCancel{})
	trap := p.Lose("UPDATE processes SET expires_at")
	cancelled, err := store.Processes().Renew(t.Context(), l.token.Process, time.Minute)
	<-trap.Done
	if err != nil || len(cancelled) != 1 || cancelled[0].Run != l.run || cancelled[0].Epoch != l.token.Epoch {
		t.Fatalf("cancelled %+v, error %v", cancelled, err)
	}
}

// A claim whose reply is lost is not begun; the run is owned, and is handed back.
func TestLostReplyToClaim(t *testing.T) {
	p, through := newProxy(t, migrated(t))
	store := open(t, postgres.Config{URL: through})
	l := created(t, store, domain.SessionRef{Tenant: "t", Session: "s"})
	l.must(l.input("first"))
	if err := store.Processes().Register(t.Context(), "p", "here", time.Minute); err != nil {
		t.Fatal(err)
	}
	p.Lose("commit")
	claims, err := store.Runs().Claim(t.Context(), ports.ClaimRequest{Process: "p", Max: 8})
	if !errors.Is(err, ports.ErrUnavailable) || len(claims) != 0 {
		t.Fatalf("claims %v, error %v", claims, err)
	}
	owned, err := store.Processes().Owned(t.Context(), "p")
	if err != nil || len(owned) != 1 {
		t.Fatalf("owned %+v, error %v", owned, err)
	}
	l.must(domain.HandBack{Run: owned[0].Run, Token: domain.Token{Process: "p", Epoch: owned[0].Epoch}})
	claims, err = store.Runs().Claim(t.Context(), ports.ClaimRequest{Process: "p", Max: 8})
	if err != nil || len(claims) != 1 || claims[0].Run.Attempts != 1 {
		t.Fatalf("claims %+v, error %v", claims, err)
	}
}

// A request that ends between the commit and its reply does not undo the commit, and the caller hears of it.
func TestEndedRequestDoesNotUndoACommit(t *testing.T) {
	for name, lose := range map[string]bool{"reply arrives": false, "reply is lost": true} {
		t.Run(name, func(t *testing.T) {
			u := migrated(t)
			p, through := newProxy(t, u)
			l := created(t, open(t, postgres.Config{URL: through}), domain.SessionRef{Tenant: "t", Session: "s"})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if lose {
				trap := p.Hold(applyText)
				go func() {
					<-trap.Done
					cancel()
					close(trap.Release)
				}()
			} else {
				l.store = open(t, postgres.Config{URL: u, Notifier: notifierFunc(func(ports.Commit) { cancel() })})
			}
			out, err := l.store.Do(ctx, l.ref, l.input("first"))
			if err != nil || !out.Created || out.Event.Seq != 1 {
				t.Fatalf("outcome %+v, error %v", out, err)
			}
			if events := l.events(); len(events) != 1 {
				t.Fatalf("%d events", len(events))
			}
		})
	}
}

type notifierFunc func(ports.Commit)

func (f notifierFunc) Committed(c ports.Commit) { f(c) }

func TestEndedRequestWritesNothing(t *testing.T) {
	l := created(t, open(t, postgres.Config{URL: migrated(t)}), domain.SessionRef{Tenant: "t", Session: "s"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.store.Do(ctx, l.ref, l.input("first")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if events := l.events(); len(events) != 0 {
		t.Errorf("%d events", len(events))
	}
}
