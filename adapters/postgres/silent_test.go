package postgres_test

import (
	"testing"
	"time"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// A process that falls silent in the middle of a claim, by a connection that is half open or because it was frozen, keeps
// the locks of its transaction for seconds, not until the server's network gives it up.
func TestSilentProcessKeepsNoLock(t *testing.T) {
	u := migrated(t)
	p, through := newProxy(t, u)
	silent := open(t, postgres.Config{URL: through})
	silent.Impatient(time.Minute) // as if it were frozen: it does not even give up
	l := created(t, open(t, postgres.Config{URL: u}), domain.SessionRef{Tenant: "t", Session: "s"})
	l.must(l.input("first"))
	if err := silent.Processes().Register(t.Context(), "p", "here", time.Minute); err != nil {
		t.Fatal(err)
	}
	trap := p.Hold("FOR UPDATE SKIP LOCKED")
	defer close(trap.Release)
	go func() { _, _ = silent.Runs().Claim(t.Context(), ports.ClaimRequest{Process: "p", Max: 1}) }()
	<-trap.Done
	began := time.Now()
	l.must(l.input("second"))
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("the session was locked for %s", took)
	}
}

// A pool of one whose connection is half open works again as soon as that has shown.
func TestHalfOpenConnectionIsReplaced(t *testing.T) {
	u := migrated(t)
	p, through := newProxy(t, u)
	l := created(t, open(t, postgres.Config{URL: through, MaxConns: 1}), domain.SessionRef{Tenant: "t", Session: "s"})
	trap := p.Hold(applyText)
	defer close(trap.Release)
	began := time.Now()
	if out := l.must(l.input("first")); !out.Created {
		t.Error("the input is not its own")
	}
	if took := time.Since(began); took > 9*time.Second {
		t.Errorf("the write took %s", took)
	}
}
