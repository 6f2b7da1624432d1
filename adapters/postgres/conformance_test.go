package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports/portstest"
)

func TestConformance(t *testing.T) { testConformance(t, false) }

// The same answers when every command goes through a lane.
func TestConformanceInGroups(t *testing.T) { testConformance(t, true) }

func testConformance(t *testing.T, grouped bool) {
	modes := execModes
	if testing.Short() {
		modes = modes[:1]
	}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			b := newBench(t, mode)
			b.grouped = grouped
			t.Parallel()
			portstest.TestStore(t, b.open)
		})
	}
}

// bench is a schema that one test after the other uses.
type bench struct {
	url  string // with a query execution mode
	pool *pgxpool.Pool

	grouped bool // commands go through lanes
}

func newBench(t *testing.T, mode string) *bench {
	t.Helper()
	url := postgrestest.With(t, migrated(t), "synchronous_commit", "off") // the suites ask for no crash of the server
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &bench{url: postgrestest.With(t, url, "default_query_exec_mode", mode), pool: pool}
}

// open empties the schema and opens a store on it.
func (b *bench) open(t *testing.T) portstest.Store {
	for _, table := range []string{"sessions", "events", "runs", "processes", "tool_calls", "settings", "secrets"} {
		b.exec(t, "DELETE FROM "+table)
	}
	return b.store(t)
}

func (b *bench) store(t *testing.T) portstest.Store {
	notified := &portstest.Recorder{}
	// One connection must do: nothing may want a second while it holds the first.
	s := open(t, postgres.Config{URL: b.url, MaxConns: 1, AllowUnsafe: true, Notifier: notified})
	if b.grouped {
		s.GroupAlways()
	}
	return portstest.Store{
		Ledger: s, Sessions: s.Sessions(), Runs: s.Runs(), Processes: s.Processes(), Settings: s.Settings(), Secrets: s.Secrets(), Notified: notified,
		Advance:   func(d time.Duration) { b.advance(t, d) },
		InsertRun: b.insertRun,
		Reopen:    b.store,
	}
}

func (b *bench) exec(t *testing.T, text string, args ...any) {
	t.Helper()
	if _, err := b.pool.Exec(context.Background(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// advance lets the database's clock seem to have moved on, by moving back whatever is compared with it.
func (b *bench) advance(t *testing.T, d time.Duration) {
	ms := d.Milliseconds()
	b.exec(t, "UPDATE processes SET started_at = started_at - $1::bigint, expires_at = expires_at - $1::bigint", ms)
	b.exec(t, "UPDATE runs SET available_at = available_at - $1::bigint", ms)
}

// insertRun writes a run row and nothing else.
func (b *bench) insertRun(t *testing.T, run domain.Run) {
	fields := sqlstore.NewRunRow(&run).Fields()
	params := make([]string, len(fields))
	for i := range fields {
		params[i] = fmt.Sprint("$", i+1)
	}
	b.exec(t, "INSERT INTO runs ("+sqlstore.Names(fields)+") VALUES ("+strings.Join(params, ", ")+")", sqlstore.Values(fields)...)
}
