package postgres_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// A process that freezes in the middle of a claim keeps its row locked. The others bury whoever else is dead meanwhile,
// and the frozen one when the server has ended its transaction.
func TestBurialDoesNotWaitForAClaim(t *testing.T) {
	u := migrated(t)
	frozen, other := open(t, postgres.Config{URL: u, MaxConns: 2}), open(t, postgres.Config{URL: u, MaxConns: 2})
	claimed(t, other, domain.SessionRef{Tenant: "t", Session: "orphaned"})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	const ttl = 2 * time.Second
	if err := other.Processes().Register(ctx, "frozen", "", ttl); err != nil {
		t.Fatal(err)
	}
	thaw, err := frozen.Freeze(ctx, "frozen")
	if thaw != nil {
		t.Cleanup(thaw)
	}
	if err != nil {
		t.Fatal(err)
	}
	postgrestest.Exec(t, u, "UPDATE processes SET expires_at = 0 WHERE process_id = 'process-of-orphaned'", "SELECT pg_sleep(2.1)")
	began := time.Now()
	orphans, _, err := other.Processes().Bury(ctx)
	if took := time.Since(began); err != nil || len(orphans) != 1 || took > 2*time.Second {
		t.Fatalf("orphans %v, error %v after %v", orphans, err, took)
	}
	buried(ctx, t, other, "frozen")
}

// buried buries until the process is gone, which is to be looked for at once again until then.
func buried(ctx context.Context, t *testing.T, s *postgres.Store, process string) {
	t.Helper()
	for {
		if _, next, err := s.Processes().Bury(ctx); err != nil || next != 0 {
			t.Fatalf("the next lease ends in %v, error %v", next, err)
		}
		rows, err := s.Processes().List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(rows, func(p ports.Process) bool { return p.ID == process }) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}
