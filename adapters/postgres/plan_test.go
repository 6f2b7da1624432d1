package postgres

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/keel-agent/keel/domain"
)

// Plans are made once for each connection, often while the tables are still empty. Every hot statement must go by an
// index even then.
func TestHotStatementsGoByIndex(t *testing.T) {
	conn := emptyStore(t)
	for name, s := range hotStatements() {
		t.Run(name, func(t *testing.T) {
			for _, line := range explain(t, conn, s.text, s.params) {
				for _, table := range []string{"sessions", "events", "runs", "tool_calls"} {
					if strings.Contains(line, "Seq Scan on "+table) {
						t.Errorf("%s\nin: %s", line, s.text)
					}
				}
				// These read all of a session or a tenant.
				if strings.Contains(line, "dedupe_key") && strings.Contains(line, "Filter:") || strings.Contains(line, "runs_by_session") {
					t.Errorf("%s\nin: %s", line, s.text)
				}
			}
		})
	}
}

type statement struct {
	text   string
	params int
}

func hotStatements() map[string]statement {
	all := map[string]statement{
		"propose": {proposeText, 2}, "claim views": {claimViewsText, 1}, "renew": {renewText, 2},
		"orphans": {orphansText, 0}, "quiet": {quietText, 0}, "queue": {queueText, 1}, "events": {eventsText, 5}, "group": {groupText, 4}, "lock": {lockText, 2},
		"calls of a group": {groupCallsText, 3}, "keys of a group": {groupKeysText, 3}, "heads": {headsText, 2},
	}
	for name, needs := range map[string]domain.Needs{
		"view": {}, "view of run": {Run: "r"}, "view with event": {Key: "k"}, "view with calls": {Run: "r", Key: "k", Calls: []string{"c"}},
		"view with open calls": {Run: "r", OpenCalls: true}, "view with calls before": {Run: "r", CallsBefore: 7},
		"view with owner": {Run: "r", OwnerLive: true},
	} {
		q := newViewQuery(domain.SessionRef{}, needs)
		all[name] = statement{q.text(), len(q.args)}
	}
	due := time.Duration(0)
	full := domain.Effects{
		Session: &domain.Session{}, InfoChanged: true, Events: make([]domain.Event, 1),
		Runs: []domain.RunChange{{}, {Insert: true, Due: &due}}, Calls: make([]domain.ToolCall, 1),
	}
	several := full
	several.Events, several.Calls = make([]domain.Event, 3), make([]domain.ToolCall, 3)
	created := full
	created.Create = true
	for name, changes := range map[string][]change{
		"write": {{effects: full}}, "write of several": {{effects: several}}, "write of many": {{effects: full}, {effects: several}},
		"create": {{effects: created}}, "write of a session": {{effects: domain.Effects{Session: &domain.Session{}}}},
	} {
		w := newWrite(changes)
		all[name] = statement{w.text(), len(w.args())}
		w = wholeWrite(changes)
		all["whole "+name] = statement{w.text(), len(w.args())}
	}
	return all
}

// emptyStore returns a connection, as the pool makes them, to an empty schema of the current version.
func emptyStore(t *testing.T) *pgx.Conn {
	u := os.Getenv("KEEL_TEST_POSTGRES_URL")
	if u == "" {
		t.Fatal("KEEL_TEST_POSTGRES_URL is not set: `make test` (or scripts/with-postgres.sh COMMAND) provides a server")
	}
	ctx := context.Background()
	name := "keel_" + strings.ToLower(rand.Text()[:12])
	pc, err := poolConfig(Config{URL: u})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(ctx, pc.ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(ctx) })
	for _, sql := range []string{"CREATE SCHEMA " + name, "SET search_path = " + name} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = conn.Exec(ctx, "DROP SCHEMA "+name+" CASCADE") })
	sep := "?"
	if strings.Contains(u, "?") {
		sep = "&"
	}
	if _, err := Migrate(ctx, u+sep+"search_path="+name); err != nil {
		t.Fatal(err)
	}
	return conn
}

// explain returns the generic plan of a statement.
func explain(t *testing.T, conn *pgx.Conn, text string, params int) []string {
	t.Helper()
	ctx := t.Context()
	if _, err := conn.Exec(ctx, "PREPARE hot AS "+text); err != nil {
		t.Fatalf("%v\nin: %s", err, text)
	}
	defer func() { _, _ = conn.Exec(context.Background(), "DEALLOCATE hot") }()
	call := "EXPLAIN EXECUTE hot"
	if params > 0 {
		call += "(NULL" + strings.Repeat(", NULL", params-1) + ")"
	}
	rows, err := conn.Query(ctx, call, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return plan
}
