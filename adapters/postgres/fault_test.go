package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// failing makes every write to table fail with the SQLSTATE as many times as asked, then succeed: at once, or when its
// transaction commits. 57P01 ends the connection, as the end of the server does. It returns how often a write was tried.
func failing(t *testing.T, u, table, code string, times int, atCommit bool) (tried func() int) {
	t.Helper()
	fault := fmt.Sprintf("RAISE EXCEPTION 'made to fail' USING ERRCODE = '%s'", code)
	if code == "57P01" {
		fault = "PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(60)"
	}
	trigger := "CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION fail()"
	if atCommit {
		trigger = "CREATE CONSTRAINT TRIGGER fail AFTER INSERT OR UPDATE ON %s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail()"
	}
	postgrestest.Exec(t, u,
		"CREATE SEQUENCE IF NOT EXISTS failures",
		"SELECT setval('failures', 1, false)",
		fmt.Sprintf(`CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN
				IF nextval('failures') <= %d THEN %s; END IF;
				RETURN NEW;
			END $$`, times, fault),
		"DROP TRIGGER IF EXISTS fail ON "+table,
		fmt.Sprintf(trigger, table),
	)
	return func() (n int) {
		conn, err := pgx.Connect(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(t.Context()) }()
		if err := conn.QueryRow(t.Context(), "SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END FROM failures").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// K40: what certainly or perhaps was not applied is given again under the same key and lease, whatever the command. A
// claim whose fate is unknown is left to the next look.
func TestPassingFaultsAreRetried(t *testing.T) {
	for _, code := range []string{"40001", "40P01", "57P01"} {
		for _, atCommit := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/at commit %t", code, atCommit), func(t *testing.T) {
				u := migrated(t)
				l := created(t, open(t, postgres.Config{URL: u, MaxConns: 2}), domain.SessionRef{Tenant: "t", Session: "s"})
				const times = 2
				fails := func(table string, f func()) {
					t.Helper()
					tried := failing(t, u, table, code, times, atCommit)
					f()
					if n := tried(); n < times {
						t.Errorf("%d writes to %s failed instead of %d", n, table, times)
					}
					postgrestest.Exec(t, u, "DROP TRIGGER fail ON "+table)
				}
				writes := func(cmd domain.Command) func() {
					return func() {
						t.Helper()
						if out := l.must(cmd); !out.Created || out.Event == nil {
							t.Errorf("%T: %+v", cmd, out)
						}
					}
				}
				fails("events", writes(l.input("first")))
				fails("runs", func() { l.claim("p") })
				fails("processes", func() {
					insist(t, func() error { return second(l.store.Processes().Renew(t.Context(), "p", time.Minute)) })
				})
				fails("events", writes(l.answer([]domain.Seq{1}, domaintest.Call{ID: "c", Name: "tool"})))
				fails("events", writes(l.result("c")))
				fails("events", writes(l.answer([]domain.Seq{1})))
				fails("events", writes(l.compaction(4)))
				fails("runs", func() {
					if out := l.must(l.settle()); out.Run.Status != domain.StatusDone {
						t.Errorf("run %+v", out.Run)
					}
				})
				if n := len(l.events()); n != 6 {
					t.Errorf("%d events", n)
				}
			})
		}
	}
}

// K40: a fault that passes, but not within the store's own tries, leaves nothing behind and is the store's absence to
// those who asked; the same command is taken once it has passed.
func TestPassingFaultThatStays(t *testing.T) {
	for _, code := range []string{"40001", "40P01", "55P03"} {
		for _, atCommit := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/at commit %t", code, atCommit), func(t *testing.T) {
				u := migrated(t)
				l := created(t, open(t, postgres.Config{URL: u}), domain.SessionRef{Tenant: "t", Session: "s"})
				stays := func(table string, f func() error) {
					t.Helper()
					tried := failing(t, u, table, code, 1_000, atCommit)
					if err := f(); !errors.Is(err, ports.ErrUnavailable) {
						t.Errorf("%s: error %v", table, err)
					}
					if n := tried(); n < 2 || n > 20 {
						t.Errorf("%s was tried %d times", table, n)
					}
					postgrestest.Exec(t, u, "DROP TRIGGER fail ON "+table)
				}
				stays("events", func() error { return second(l.store.Do(t.Context(), l.ref, l.input("first"))) })
				if n := len(l.events()); n != 0 {
					t.Fatalf("%d events were left behind", n)
				}
				l.must(l.input("first"))
				if err := l.store.Processes().Register(t.Context(), "q", "here", time.Minute); err != nil {
					t.Fatal(err)
				}
				stays("runs", func() error {
					return second(l.store.Runs().Claim(t.Context(), ports.ClaimRequest{Process: "q", Max: 1}))
				})
				l.claim("p")
				stays("events", func() error { return second(l.store.Do(t.Context(), l.ref, l.answer([]domain.Seq{1}))) })
				l.must(l.answer([]domain.Seq{1}))
				stays("runs", func() error { return second(l.store.Do(t.Context(), l.ref, l.settle())) })
				l.must(l.settle())
				if n := len(l.events()); n != 3 {
					t.Errorf("%d events", n)
				}
			})
		}
	}
}

func TestLastingFaultIsReported(t *testing.T) {
	u := migrated(t)
	l := created(t, open(t, postgres.Config{URL: u}), domain.SessionRef{Tenant: "t", Session: "s"})
	for _, code := range []string{"23514", "23505"} {
		failing(t, u, "events", code, 1_000, false)
		if _, err := l.store.Do(t.Context(), l.ref, l.input("first")); err == nil || errors.Is(err, ports.ErrUnavailable) {
			t.Fatalf("%s: error %v", code, err)
		}
	}
	failing(t, u, "events", "53100", 1000, false)
	if _, err := l.store.Do(t.Context(), l.ref, l.input("first")); !errors.Is(err, ports.ErrUnavailable) {
		t.Fatalf("error %v", err)
	}
}

// K40: fifty sessions on two connections whose server ends them at random.
func TestTerminatedConnections(t *testing.T) {
	u := postgrestest.With(t, migrated(t), "application_name", "victim")
	store := open(t, postgres.Config{URL: u, MaxConns: 2})
	killer, err := pgxpool.New(t.Context(), postgrestest.Server(t))
	if err != nil {
		t.Fatal(err)
	}
	defer killer.Close()

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var kills sync.WaitGroup
	kills.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for range 20 {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			const text = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'victim' ORDER BY random() LIMIT 1"
			if _, err := killer.Exec(ctx, text); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	var sessions sync.WaitGroup
	for i := range 50 {
		sessions.Go(func() {
			ref := domain.SessionRef{Tenant: "t", Session: fmt.Sprint("s", i)}
			insist(t, func() error {
				_, err := store.Do(t.Context(), ref, domain.CreateSession{At: at, Request: domaintest.Payload(`{}`)})
				return err
			})
			for n := range 5 {
				id := fmt.Sprint("r", n)
				cmd := domain.SubmitInput{At: at, RequestID: id, Payload: domaintest.User(id, id), NewRun: fmt.Sprint("run", i, "-", n)}
				insist(t, func() error {
					_, err := store.Do(t.Context(), ref, cmd)
					return err
				})
			}
		})
	}
	sessions.Wait()
	stop()
	kills.Wait()
	for i := range 50 {
		l := &ledger{t: t, store: store, ref: domain.SessionRef{Tenant: "t", Session: fmt.Sprint("s", i)}}
		if n := len(l.events()); n != 5 {
			t.Errorf("session %d has %d events instead of 5", i, n)
		}
		runs, err := store.Runs().List(t.Context(), l.ref, nil, 10)
		if err != nil || len(runs) != 1 {
			t.Errorf("session %d has the runs %v, error %v", i, runs, err)
		}
	}
}

// insist repeats f, as a client does, until the store is available. It fails on any other error.
func insist(t *testing.T, f func() error) {
	t.Helper()
	for range 50 {
		err := f()
		if err == nil {
			return
		}
		if !errors.Is(err, ports.ErrUnavailable) {
			t.Error(err)
			return
		}
	}
	t.Error("the store stays unavailable")
}

// K40: another process migrates while this one works.
func TestSchemaChangesUnderneath(t *testing.T) {
	for _, mode := range execModes {
		t.Run(mode, func(t *testing.T) {
			u := migrated(t)
			store := open(t, postgres.Config{URL: postgrestest.With(t, u, "default_query_exec_mode", mode), MaxConns: 3})
			l := claimed(t, store, domain.SessionRef{Tenant: "t", Session: "s"})
			l.must(l.answer([]domain.Seq{1}, domaintest.Call{ID: "a", Name: "tool"}, domaintest.Call{ID: "b", Name: "tool"}))
			if _, _, err := store.Sessions().Get(t.Context(), l.ref); err != nil {
				t.Fatal(err)
			}
			l.events()
			postgrestest.Exec(t, u,
				"ALTER TABLE events ADD COLUMN more text", "ALTER TABLE sessions ADD COLUMN more bigint NOT NULL DEFAULT 7",
				"ALTER TABLE runs ADD COLUMN more text", "ALTER TABLE tool_calls ADD COLUMN more text",
				"ALTER TABLE processes ADD COLUMN more text",
				"ALTER TABLE events ALTER COLUMN payload TYPE varchar", "ALTER TABLE sessions ALTER COLUMN title TYPE varchar",
				"ALTER TABLE runs ALTER COLUMN error TYPE varchar", "ALTER TABLE tool_calls ALTER COLUMN name TYPE varchar(4000)",
			)
			l.must(l.result("a"))
			l.events()
			if _, err := store.Processes().Renew(t.Context(), l.token.Process, time.Minute); err != nil {
				t.Fatal(err)
			}
			l.must(l.result("b"))
			l.must(l.input("second"))
			if out := l.must(l.answer([]domain.Seq{1})); !out.Created {
				t.Fatal("not written")
			}
			l.must(l.settle())
			claims, err := store.Runs().Claim(t.Context(), ports.ClaimRequest{Process: l.token.Process, Max: 1})
			if err != nil || len(claims) != 1 {
				t.Fatalf("claims %v, error %v", claims, err)
			}
			if _, err := store.Sessions().List(t.Context(), ports.SessionQuery{Tenant: "t", Limit: 10}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A connection that began while the database took no writes is given up, so that writes go on once it takes them again.
func TestReadOnlyConnectionsAreReplaced(t *testing.T) {
	u := postgrestest.Database(t, "")
	if _, err := postgres.Migrate(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	postgrestest.Exec(t, u, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$")
	store := open(t, postgres.Config{URL: u, MaxConns: 4})
	ref := domain.SessionRef{Tenant: "t", Session: "s"}
	create := domain.CreateSession{At: at, Request: domaintest.Payload(`{}`)}
	if _, err := store.Do(t.Context(), ref, create); !errors.Is(err, ports.ErrUnavailable) {
		t.Fatalf("error %v", err)
	}
	postgrestest.Exec(t, u, "SET default_transaction_read_only = off", "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET default_transaction_read_only', current_database()); END $$")
	for range 8 {
		if _, err := store.Do(t.Context(), ref, create); err != nil {
			t.Fatal(err)
		}
	}
}
