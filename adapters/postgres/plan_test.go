package postgres

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Plans are made once for each connection, often while the tables are still empty, or just after they were analysed
// with next to nothing in them. Every hot statement must go by the right index even then.
func TestHotStatementsGoByIndex(t *testing.T) {
	conn := emptyStore(t)
	for _, state := range []struct {
		name  string
		reach string
	}{
		{"never analysed", ""},
		{"analysed while empty", "VACUUM ANALYZE"},
		{"analysed with one session", oneSessionText + "; ANALYZE"},
	} {
		if _, err := conn.Exec(t.Context(), state.reach); err != nil {
			t.Fatal(err)
		}
		t.Run(state.name, func(t *testing.T) {
			for name, s := range hotStatements() {
				t.Run(name, func(t *testing.T) { checkPlan(t, conn, s) })
			}
		})
	}
}

const oneSessionText = `
INSERT INTO sessions (tenant_id, session_id, created_at, state, state_owner, version, epoch, head_seq, head_hash, unanswered, guides,
    turn_inputs, owed, open_calls, kept_seq, legacy_watermark) VALUES ('t', 's', 1, 'open', 'native', 1, 0, 1, '', '', '', '', 'none', 0, 0, 0);
INSERT INTO runs (run_id, tenant_id, session_id, created_at, status, epoch, attempts, available_at, parked, signals, compact, pending_input,
    read_watermark, ended_epoch) VALUES ('r', 't', 's', 1, 'pending', 0, 0, 1, false, 0, false, false, 0, 0);
INSERT INTO events (tenant_id, session_id, seq, kind, dedupe_key, payload, created_at, hash, epoch) VALUES ('t', 's', 1, 'k', 'k', '{}', 1, '', 0);
INSERT INTO tool_calls (tenant_id, session_id, call_id, assistant_seq, ordinal, name, result_seq) VALUES ('t', 's', 'c', 1, 0, 'n', 0)`

func checkPlan(t *testing.T, conn *pgx.Conn, s statement) {
	plan := explain(t, conn, s.text, s.params)
	if !strings.Contains(strings.Join(plan, "\n"), s.index) {
		t.Errorf("not by %s: %q\nin: %s", s.index, plan, s.text)
	}
	for i, line := range plan {
		for _, table := range []string{"_pkey", "sessions_by", "events_by", "tool_calls_by"} { // runs_due and such are walked along
			whole := i+1 == len(plan) || !strings.Contains(plan[i+1], "Index Cond")
			if whole && strings.Contains(line, "Scan using ") && strings.Contains(line, table) && !strings.Contains(line, "processes") {
				t.Errorf("%s\nwithout a condition in: %s", line, s.text)
			}
		}
		for _, table := range []string{"sessions", "events", "runs", "tool_calls"} {
			if strings.Contains(line, "Seq Scan on "+table) {
				t.Errorf("%s\nin: %s", line, s.text)
			}
		}
		// These read all of a session or a tenant.
		if strings.Contains(line, "dedupe_key") && strings.Contains(line, "Filter:") || strings.Contains(line, "runs_by_session") ||
			strings.Contains(line, "sessions_by_age") || strings.Contains(line, "tool_calls_by_message") && !s.ordered {
			t.Errorf("%s\nin: %s", line, s.text)
		}
	}
}

type statement struct {
	text    string
	params  int
	ordered bool   // it looks for calls by their messages
	index   string // an index that it goes by; "": any that checkPlan allows
}

func hotStatements() map[string]statement {
	all := map[string]statement{
		"propose": {text: proposeText, params: 2}, "claim views": {text: claimViewsText, params: 1}, "renew": {text: renewText, params: 2, index: "runs_cancelled"},
		"owned":   {text: ownedText, params: 1, index: "runs_by_owner"},
		"orphans": {text: orphansText, params: 0}, "quiet": {text: quietText, params: 0}, "queue": {text: queueText, params: 1}, "events": {text: eventsText, params: 5}, "group": {text: groupText, params: 4}, "lock": {text: lockText, params: 2},
		"calls of a group": {text: groupCallsText, params: 3}, "keys of a group": {text: groupKeysText, params: 3}, "heads": {text: headsText, params: 2},
	}
	for name, needs := range map[string]domain.Needs{
		"view": {}, "view of run": {Run: "r"}, "view with event": {Key: "k"}, "view with calls": {Run: "r", Key: "k", Calls: []string{"c"}},
		"view with open calls": {Run: "r", OpenCalls: true}, "view with calls before": {Run: "r", CallsBefore: 7},
		"view with owner":               {Run: "r", OwnerLive: true},
		"view with a run that was made": {Made: "r"},
	} {
		q := newViewQuery(domain.SessionRef{}, needs)
		all[name] = statement{text: q.text(), params: len(q.args), ordered: needs.OpenCalls || needs.CallsBefore > 0}
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
		all[name] = statement{text: w.text(), params: len(w.args())}
		w = wholeWrite(changes)
		all["whole "+name] = statement{text: w.text(), params: len(w.args())}
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

// asked keeps the text of the last query.
type asked struct{ text string }

func (a *asked) BeforeQuery(ctx context.Context, e *bun.QueryEvent) context.Context {
	a.text = e.Query
	return ctx
}

func (*asked) AfterQuery(context.Context, *bun.QueryEvent) {}

func TestListsGoByIndex(t *testing.T) {
	conn := emptyStore(t)
	if _, err := conn.Exec(t.Context(), oneSessionText+"; ANALYZE"); err != nil {
		t.Fatal(err)
	}
	seen := &asked{}
	db := bun.NewDB(stdlib.OpenDB(*conn.Config()), pgdialect.New()).WithQueryHook(seen)
	t.Cleanup(func() { _ = db.Close() })
	for name, q := range map[string]ports.SessionQuery{
		"all":            {Tenant: "t", Limit: 10},
		"after a cursor": {Tenant: "t", Limit: 10, Before: &ports.SessionCursor{CreatedAtMS: 5, Session: "s"}},
	} {
		if _, err := (sqlstore.Lists{DB: db}).Sessions(t.Context(), q); seen.text == "" {
			t.Fatal(err)
		}
		if plan := strings.Join(explain(t, conn, seen.text, 0), "\n"); !strings.Contains(plan, "sessions_by_age") || strings.Contains(plan, "Sort") {
			t.Errorf("%s: %s\n%s", name, seen.text, plan)
		}
	}
}
