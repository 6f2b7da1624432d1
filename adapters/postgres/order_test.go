package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// The session row comes first (commands.md, rule 2): a claim passes over a session that somebody else holds, without
// waiting and without a hold on its run, which that somebody is about to write.
func TestClaimsHoldNoRunBeforeItsSession(t *testing.T) {
	u := migrated(t)
	store := open(t, postgres.Config{URL: u, MaxConns: 4})
	l := created(t, store, domain.SessionRef{Tenant: "t", Session: "s"})
	l.must(l.input("q"))
	if err := store.Processes().Register(t.Context(), "p", "", time.Hour); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, u)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "SELECT 1 FROM sessions FOR NO KEY UPDATE"); err != nil {
		t.Fatal(err)
	}
	request := ports.ClaimRequest{Process: "p", Max: 1}
	claims := make(chan []ports.Claim, 1)
	go func() {
		got, err := store.Runs().Claim(ctx, request)
		if err != nil {
			t.Error(err)
		}
		claims <- got
	}()
	select {
	case got := <-claims:
		if len(got) > 0 {
			t.Fatalf("claimed %v under somebody's hold", got)
		}
	case <-time.After(5 * time.Second):
		t.Error("the claim waits for a session")
	}
	if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '3s'"); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "UPDATE runs SET pending_input = true"); err != nil {
		t.Fatalf("the claim holds a run whose session it has not: %v", err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Runs().Claim(ctx, request); err != nil || len(got) != 1 {
		t.Fatalf("claims %v, error %v", got, err)
	}
}
