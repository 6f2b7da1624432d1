package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// K39, 1: events around and beyond what a notification holds, in sessions with long ids, are stored whole,
// and another process hears of each.
func TestK39LargeEventsAndLongIDs(t *testing.T) {
	here, there := openBus(t), openBus(t)
	connected(t, there)
	s := open(t, postgres.Config{URL: migrated(t), Notifier: here})
	ref := domain.SessionRef{Tenant: strings.Repeat("t", 4_000), Session: strings.Repeat("s", 4_000)}
	l := created(t, s, ref)
	wake, cancel := there.Subscribe(ports.Topic{Session: ref})
	defer cancel()
	drained := func() {
		for quiet := time.After(50 * time.Millisecond); ; {
			select {
			case <-wake:
			case <-quiet:
				return
			}
		}
	}
	frame := len(domaintest.User("k0", "").String())
	for i, size := range []int{7_990, 7_999, 8_000, 8_001, 100_000} {
		drained()
		id := fmt.Sprint("k", i)
		p := domaintest.User(id, strings.Repeat("x", size-frame))
		if len(p.String()) != size {
			t.Fatalf("a payload of %d bytes, not %d", len(p.String()), size)
		}
		l.must(domain.SubmitInput{At: at, RequestID: id, Payload: p, NewRun: "run-" + id})
		awaits(t, wake)
		events := l.events()
		if len(events) != i+1 || events[i].Payload.String() != p.String() {
			t.Fatalf("an event of %d bytes did not come back", size)
		}
	}
}

// K39, 4: a connection that listens and stays in a transaction keeps the server's queue from being emptied.
// Commits go on, and the others are told of each.
func TestK39ListenerInATransaction(t *testing.T) {
	here, there := openBus(t), openBus(t)
	connected(t, there)
	u := migrated(t)
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, u)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, sql := range []string{"LISTEN keel", "BEGIN", "SELECT 1"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, postgres.Config{URL: u, Notifier: here})
	const sessions, commits = 8, 3_000
	var ledgers []*ledger
	for i := range sessions {
		ledgers = append(ledgers, claimed(t, s, domain.SessionRef{Tenant: "t", Session: fmt.Sprint("s", i)}))
	}
	said := func(l *ledger, generation string) domain.Command {
		return domain.AppendAssistant{At: at, Run: l.run, Token: l.token, GenerationID: generation, Payload: domaintest.AssistantText(nil, "x")}
	}
	done := make(chan error, sessions)
	for _, l := range ledgers {
		go func() {
			for i := range commits / sessions {
				began := time.Now()
				if _, err := s.Do(ctx, l.ref, said(l, fmt.Sprint("g", i))); err != nil {
					done <- err
					return
				}
				if took := time.Since(began); took > 5*time.Second {
					done <- fmt.Errorf("a commit took %s", took)
					return
				}
			}
			done <- nil
		}()
	}
	// What a stranger says on the channel wakes nobody and harms nothing.
	say := func(payload string) string { return "SELECT pg_notify(" + postgres.ChannelName + ", " + payload + ")" }
	postgrestest.Exec(t, postgrestest.Server(t), say("repeat('x', 7900) || g")+" FROM generate_series(1, 500) AS g", say("''"), say("'a:b'"),
		say("'stranger>'"), say("'stranger>short'"), say("'stranger>' || repeat('x', 22) || '{'"), say("'stranger+x'"), say("'stranger!'"))
	for range sessions {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	var used float64
	if err := conn.QueryRow(ctx, "SELECT pg_notification_queue_usage()").Scan(&used); err != nil || used == 0 {
		t.Fatalf("the queue is empty (%v): nothing holds it", err)
	}
	for _, l := range ledgers {
		wake, cancel := there.Subscribe(ports.Topic{Session: l.ref})
		awaits(t, wake)
		for quiet := time.After(50 * time.Millisecond); quiet != nil; {
			select {
			case <-wake:
			case <-quiet:
				quiet = nil
			}
		}
		l.must(said(l, "last"))
		awaits(t, wake)
		if n := len(l.events()); n != commits/sessions+2 {
			t.Fatalf("%d events", n)
		}
		cancel()
	}
}
