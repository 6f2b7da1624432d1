package e2e

import (
	"database/sql"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	_ "github.com/keel-agent/keel/adapters/sqlite"
	"github.com/keel-agent/keel/app"
	"github.com/keel-agent/keel/domain"
)

// used fills a store by real use and leaves it with sessions in many states, one of them in the middle of a run of a
// process that was killed. While it is served, keel verify finds nothing.
func used(t *testing.T, store string) {
	t.Helper()
	flags := []string{"--provider", "fake", "--attempts", "1"}
	p := serve(t, store, nil, flags...)
	p.create(`{"id":"s1","tools":["sleep","calculator"]}`)
	p.input("s1", `{"text":"hello","requestId":"r1","selection":{"script":[
		{"toolCalls":[{"name":"calculator","arguments":{"expression":"6*7"}},{"name":"sleep","arguments":{"ms":400}}]},{"text":"42"}]}}`)
	p.until("s1", func(es []event) bool { return count(es, "assistant.message") == 1 })
	p.input("s1", `{"text":"be brief","requestId":"g1","delivery":"guide"}`)
	p.input("s1", `{"text":"hello again","requestId":"r2"}`)
	p.create(`{"id":"failed"}`)
	p.input("failed", `{"text":"hello","requestId":"r1","selection":{"script":[{"text":"half an ans","error":{"status":401,"message":"no"}}]}}`)
	p.create(`{"id":"empty"}`)
	p.create(`{"id":"cancelled","tools":["sleep"]}`)
	p.input("cancelled", `{"text":"go","requestId":"r1","selection":{"script":[{"toolCalls":[{"name":"sleep","arguments":{"ms":60000}}]}]}}`)
	p.until("cancelled", func(es []event) bool { return count(es, "assistant.message") == 1 })
	p.call("POST", "/v1/sessions/cancelled/cancel", `{}`)
	p.create(`{"id":"running","tools":["sleep"]}`)
	p.input("running", `{"text":"go","requestId":"r1","selection":{"script":[{"toolCalls":[{"name":"sleep","arguments":{"ms":60000}}]}]}}`)
	p.create(`{"id":"busy"}`)
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if _, err := p.try("POST", "/v1/sessions/busy/input", fmt.Sprintf(`{"text":"n%d"}`, i)); err != nil {
				stopped <- err
				return
			}
		}
	}()
	for range 3 {
		code, out, errs := command(t, "verify", "--store", store)
		require.Equal(t, 0, code, out+errs)
	}
	close(stop)
	require.NoError(t, <-stopped)
	p.finished("s1", 2)
	p.finished("failed", 1)
	p.finished("cancelled", 1)
	p.until("running", func(es []event) bool { return count(es, "assistant.message") == 1 })
	p.kill()
}

// database is a store as SQL sees it.
type database struct {
	t  *testing.T
	db *sql.DB
}

var tables = []string{"sessions", "events", "runs", "tool_calls"}

// openSQL opens a store and keeps a copy of its tables, for restore.
func openSQL(t *testing.T, store string) database {
	t.Helper()
	driver, name := "pgx", store
	if path, ok := strings.CutPrefix(store, "sqlite:"); ok {
		driver, name = "sqlite", path
	}
	db, err := sql.Open(driver, name)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	d := database{t, db}
	for _, table := range tables {
		d.exec("CREATE TABLE copy_of_" + table + " AS SELECT * FROM " + table)
	}
	return d
}

func (d database) exec(statement string) int64 {
	d.t.Helper()
	res, err := d.db.ExecContext(d.t.Context(), statement)
	require.NoError(d.t, err, statement)
	n, err := res.RowsAffected()
	require.NoError(d.t, err)
	return n
}

func (d database) restore() {
	d.t.Helper()
	for _, table := range tables {
		d.exec("DELETE FROM " + table)
		d.exec("INSERT INTO " + table + " SELECT * FROM copy_of_" + table)
	}
}

// columns returns all columns of the tables that verify reads, as table.column.
func (d database) columns(kind string) []string {
	d.t.Helper()
	var names []string
	for _, table := range tables {
		query := "SELECT group_concat(name) FROM pragma_table_info('" + table + "')"
		if kind == "postgres" {
			query = "SELECT string_agg(column_name, ',') FROM information_schema.columns" +
				" WHERE table_schema = current_schema() AND table_name = '" + table + "'"
		}
		var list string
		require.NoError(d.t, d.db.QueryRowContext(d.t.Context(), query).Scan(&list))
		for name := range strings.SplitSeq(list, ",") {
			names = append(names, table+"."+name)
		}
	}
	return names
}

// corruption is a change behind the server's back, of a column or, when that is "", of whole rows, and the fault that
// verify finds. set and where are those of an UPDATE.
type corruption struct{ column, set, where, want string }

func (c corruption) statement() string {
	if c.column == "" {
		return c.set
	}
	table, column, _ := strings.Cut(c.column, ".")
	return "UPDATE " + table + " SET " + column + " = " + c.set + " WHERE " + c.where
}

const (
	s1      = "session_id = 's1'"
	failed  = "session_id = 'failed'"
	stopped = "session_id = 'cancelled'"
	running = "session_id = 'running'"
)

// found are corruptions that verify finds, at least one of each column but those of unfound.
var found = []corruption{
	{"sessions.tenant_id", "'x'", s1, "s1: session: the row is missing"},
	{"sessions.session_id", "'x'", s1, "s1: session: the row is missing"},
	{"sessions.created_at", "created_at + 1000000000", s1, "s1: event 1: created_at: lies before "},
	{"sessions.state", "'nonsense'", s1, "s1: state: the row says \"nonsense\""},
	{"sessions.state", "'closing'", s1, "s1: state: the row says closing, but no run is being cancelled"},
	{"sessions.state", "'closed'", running, "running: state: the row says closed, but the run "},
	{"sessions.state_owner", "'nonsense'", s1, "s1: state_owner: the row says \"nonsense\""},
	{"sessions.state_owner", "'external'", s1, "s1: state_owner: the row says external, but event 1 is a user.message"},
	{"sessions.version", "10", s1, "s1: version: the row says 10, the events and claims give at least "},
	{"sessions.owner", "'nonsense'", s1, "s1: owner: the row says \"nonsense\", but no run is active"},
	{"sessions.owner", "NULL", running, "running: owner: the row says \"\", its run says "},
	{"sessions.epoch", "epoch + 1", s1, "s1: epoch: the row says "},
	{"sessions.epoch", "epoch - 1", running, "running: runs.epoch: "},
	{"sessions.head_seq", "head_seq + 1", s1, "s1: head_seq: "},
	{"sessions.head_seq", "head_seq - 1", s1, "s1: head_seq: the row says 9, but there are events up to 10"},
	{"sessions.head_at", "head_at + 1", s1, "s1: head_at: "},
	{"sessions.head_hash", "(SELECT hash FROM events WHERE session_id = 's1' AND seq = 1)", s1, "s1: head_hash: "},
	{"sessions.unanswered", "'[1]'", s1, "s1: unanswered: the row says [1], the events give []"},
	{"sessions.unanswered", "'nonsense'", s1, "s1: rows: "},
	{"sessions.guides", "'[4]'", s1, "s1: guides: "},
	{"sessions.turn_inputs", "'[1]'", s1, "s1: turn_inputs: "},
	{"sessions.owed", "'calls'", s1, "s1: owed: the row says calls, the events give none"},
	{"sessions.open_calls", "1", s1, "s1: open_calls: the row says 1, the events give 0"},
	{"sessions.kept_seq", "3", s1, "s1: kept_seq: "},
	{"sessions.legacy_watermark", "1", s1, "s1: legacy_watermark: "},
	{"sessions.active_run_id", "'nonsense'", s1, "s1: active_run_id: there is no run \"nonsense\" of this session"},
	{"sessions.active_run_id", "(SELECT max(run_id) FROM runs WHERE session_id = 's1')", s1, "s1: active_run_id: the run "},
	{"sessions.active_run_id", "NULL", running, "running: active_run_id: the row says \"\", but the run "},

	{"events.tenant_id", "'x'", s1 + " AND seq = 3", "s1: event 4: seq: follows 2"},
	{"events.session_id", "'gone'", s1 + " AND seq = 3", "gone: session: the row is missing"},
	{"events.seq", "11", s1 + " AND seq = 10", "s1: head_seq: "},
	{"events.kind", "'nonsense'", s1 + " AND seq = 1", "s1: event 1: kind: "},
	{"events.dedupe_key", "'request:r9'", s1 + " AND seq = 1", "s1: event 1: dedupe_key: "},
	{"events.dedupe_key", "NULL", s1 + " AND seq = 2", "s1: event 2: dedupe_key: "},
	{"events.payload", "replace(payload, 'hello', 'hellp')", s1 + " AND seq = 1", "s1: event 1: hash: "},
	{"events.payload", "'[]'", s1 + " AND seq = 1", "s1: event 1: payload: "},
	{"events.created_at", "created_at - 100000", s1 + " AND seq = 3", "s1: event 3: created_at: "},
	{"events.hash", "(SELECT hash FROM events WHERE session_id = 's1' AND seq = 1)", s1 + " AND seq = 3", "s1: event 3: hash: "},
	{"events.hash", "substr(hash, 1, 8)", s1 + " AND seq = 3", "s1: events: "},
	{"events.run_id", "NULL", s1 + " AND seq = 1", "s1: event 1: run_id: "},
	{"events.run_id", "(SELECT max(run_id) FROM runs WHERE session_id = 'failed')", s1 + " AND seq = 1", "s1: event 1: run_id: there is no run "},
	{"events.run_id", "'nonsense'", s1 + " AND seq = 10", "s1: event 10: run_id: is \"nonsense\", that of its epoch is "},
	{"events.epoch", "1", s1 + " AND seq = 1", "s1: event 1: epoch: is 1 for a user.message"},
	{"events.epoch", "0", s1 + " AND seq = 2", "s1: event 2: epoch: is 0 for a assistant.message"},
	{"events.epoch", "epoch + 1", s1 + " AND seq = 10", "s1: event 10: epoch: is "},

	{"runs.run_id", "'nonsense'", failed, "failed: event 1: run_id: there is no run "},
	{"runs.tenant_id", "'x'", failed, "failed: event 1: run_id: there is no run "},
	{"runs.session_id", "'empty'", failed, "empty: runs.epoch: "},
	{"runs.status", "'nonsense'", failed, "failed: runs.status: "},
	{"runs.status", "'pending'", s1, "s1: active_run_id: the row says \"\", but the run "},
	{"runs.status", "'failed'", s1, "s1: runs.reason: "},
	{"runs.status", "'done'", failed, "failed: runs.ended_outcome: "},
	{"runs.status", "'pending'", running, "running: runs.owner: "},
	{"runs.status", "'done'", running, "running: active_run_id: "},
	{"runs.reason", "'nonsense'", s1, "s1: runs.reason: "},
	{"runs.reason", "'no_work'", s1, "s1: runs.ended_outcome: "},
	{"runs.reason", "'cancelled'", failed, "failed: runs.reason: "},
	{"runs.reason", "'permanent_failure'", stopped, "cancelled: runs.reason: "},
	{"runs.error", "'why'", s1, "s1: runs.error: "},
	{"runs.owner", "NULL", running, "running: runs.owner: "},
	{"runs.owner", "'nonsense'", running, "running: owner: "},
	{"runs.owner", "'nonsense'", s1, "s1: runs.owner: "},
	{"runs.epoch", "epoch + 1", running, "running: runs.epoch: "},
	{"runs.epoch", "0", failed, "failed: event 2: epoch: "},
	{"runs.attempts", "0", running, "running: runs.attempts: "},
	{"runs.attempts", "100", s1, "s1: runs.attempts: "},
	{"runs.parked", "true", running, "running: runs.parked: "},
	{"runs.wait", "'{}'", s1, "s1: runs.wait: "},
	{"runs.signals", "-1", s1, "s1: runs.signals: "},
	{"runs.compact", "true", s1, "s1: runs.compact: "},
	{"runs.claim_seq", "1", s1, "s1: runs.claim_seq: "},
	{"runs.claim_seq", "NULL", running, "running: runs.claim_seq: "},
	{"runs.claim_seq", "claim_seq + 1", running, "running: runs.claim_seq: "},
	{"runs.claim_seq", "claim_seq - 1", running, "running: runs.claim_seq: "},
	{"runs.cancel_seq", "1", s1, "s1: runs.cancel_seq: "},
	{"runs.cancel_seq", "NULL", stopped, "cancelled: runs.cancel_seq: "},
	{"runs.cancel_seq", "100", stopped, "cancelled: runs.cancel_seq: "},
	{"runs.next_run_id", "'nonsense'", s1, "s1: runs.next_run_id: "},
	{"runs.next_run_id", "'nonsense'", stopped, "cancelled: runs.next_run_id: run "},
	{"runs.read_watermark", "read_watermark - 1", s1, "s1: runs.read_watermark: "},
	{"runs.read_watermark", "1", failed, "failed: runs.read_watermark: "},
	{"runs.ended_epoch", "0", failed, "failed: runs.ended_epoch: "},
	{"runs.ended_outcome", "'park:pending'", s1, "s1: runs.ended_outcome: "},
	{"runs.ended_outcome", "NULL", failed, "failed: runs.ended_outcome: "},
	{"runs.ended_outcome", "'nonsense'", failed, "failed: rows: "},
	{"runs.settled_at", "NULL", s1, "s1: runs.settled_at: "},
	{"runs.settled_at", "settled_at + 1", failed, "failed: runs.settled_at: "},
	{"runs.settled_at", "1", running, "running: runs.settled_at: "},

	{"tool_calls.tenant_id", "'x'", running, "running: tool_calls: the row of "},
	{"tool_calls.session_id", "'empty'", running, "empty: tool_calls: row "},
	{"tool_calls.call_id", "'nonsense'", running, "running: tool_calls: row \"nonsense\" has no call in the ledger"},
	{"tool_calls.assistant_seq", "assistant_seq + 1", s1 + " AND ordinal = 1", "s1: tool_calls "},
	{"tool_calls.ordinal", "7", s1 + " AND ordinal = 1", "s1: tool_calls "},
	{"tool_calls.name", "'nonsense'", s1 + " AND ordinal = 1", "s1: tool_calls "},
	{"tool_calls.started_epoch", "100", s1 + " AND ordinal = 1", "s1: tool_calls "},
	{"tool_calls.started_epoch", "0", s1 + " AND ordinal = 1", "s1: tool_calls "},
	{"tool_calls.result_seq", "0", s1 + " AND ordinal = 1", "s1: tool_calls "},

	{"", "DELETE FROM events WHERE session_id = 's1' AND seq = 3", "", "s1: event 4: seq: follows 2"},
	{"", "DELETE FROM events WHERE session_id = 's1' AND seq = 10", "", "s1: head_seq: the row says 10, the events give 9"},
	{"", "DELETE FROM events WHERE session_id = 's1'", "", "s1: head_seq: the row says 10, the events give 0"},
	{"", "INSERT INTO events SELECT tenant_id, session_id, seq + 10, kind, NULL, payload, created_at, hash, run_id, epoch FROM events" +
		" WHERE session_id = 's1'", "", "s1: head_seq: the row says 10, but there are events up to 20"},
	{"", "DELETE FROM runs WHERE session_id = 's1'", "", "s1: event 1: run_id: there is no run "},
	{"", "DELETE FROM runs WHERE session_id = 'running'", "", "running: active_run_id: there is no run "},
	{"", "DELETE FROM tool_calls WHERE session_id = 's1' AND ordinal = 1", "", "s1: tool_calls: the row of "},
	{"", "INSERT INTO tool_calls SELECT tenant_id, session_id, 'nonsense', assistant_seq, 7, name, started_epoch, result_seq FROM tool_calls" +
		" WHERE session_id = 's1' AND ordinal = 1", "", `s1: tool_calls: row "nonsense" has no call in the ledger`},
	{"", "DELETE FROM sessions WHERE session_id = 's1'", "", "s1: session: the row is missing"},
}

// unfound are corruptions that no ledger could tell; docs/VERIFY.md lists them.
var unfound = []corruption{
	{"sessions.created_at", "created_at - 1", s1, ""},
	{"sessions.create_request", "'{}'", s1, ""},
	{"sessions.title", "'x'", s1, ""},
	{"sessions.model", "'x'", s1, ""},
	{"sessions.system", "'x'", s1, ""},
	{"sessions.tools", "NULL", s1, ""},
	{"sessions.metadata", "'{}'", s1, ""},
	{"sessions.state", "'closed'", s1, ""},
	{"sessions.state_owner", "'external'", "session_id = 'empty'", ""},
	{"sessions.parent_session", "'x'", s1, ""},
	{"sessions.parent_run", "'x'", s1, ""},
	{"sessions.parent_call", "'x'", s1, ""},
	{"sessions.forked_from", "'x'", s1, ""},
	{"sessions.forked_seq", "1", s1, ""},
	{"sessions.version", "version + 1", s1, ""},
	{"runs.created_at", "1", s1, ""},
	{"runs.reason", "'attempts_exhausted'", failed, ""},
	{"runs.error", "'x'", failed, ""},
	{"runs.attempts", "0", s1, ""},
	{"runs.available_at", "1", running, ""},
	{"runs.signals", "7", running, ""},
	{"runs.compact", "true", running, ""},
	{"runs.pending_input", "true", running, ""},
	{"tool_calls.started_epoch", "NULL", s1 + " AND ordinal = 1", ""},
}

// verify returns what app.Verify finds in a store.
func verify(t *testing.T, store string) (faults []string) {
	t.Helper()
	count, err := app.Verify(t.Context(), app.Config{Store: store}, app.Verification{Fault: func(ref domain.SessionRef, f domain.Fault) {
		faults = append(faults, ref.Session+": "+f.String())
	}})
	require.NoError(t, err)
	require.EqualValues(t, len(faults), count.Faults)
	return faults
}

// Whatever is changed behind the server's back is found, and named, as far as the ledger tells. There is no column of
// which it is not known what can be found.
func TestVerify(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			store := newStore(t, kind)
			used(t, store)
			code, out, errs := command(t, "verify", "--store", store)
			require.Equal(t, 0, code, out+errs)
			require.Regexp(t, `^verified 6 sessions with \d+ events: 0 faults\n$`, out)
			db := openSQL(t, store)
			columns := map[string]bool{}
			for _, name := range db.columns(kind) {
				columns[name] = true
			}
			require.Len(t, columns, 71)
			for _, c := range slices.Concat(found, unfound) {
				delete(columns, c.column)
				require.NotZero(t, db.exec(c.statement()), c.statement())
				faults := verify(t, store)
				if c.want == "" {
					require.Empty(t, faults, c.statement())
				} else if !slices.ContainsFunc(faults, func(f string) bool { return strings.HasPrefix(f, c.want) }) {
					t.Errorf("%s\nnot found: %s\nin %q", c.statement(), c.want, faults)
				}
				db.restore()
			}
			require.Empty(t, slices.Collect(maps.Keys(columns)), "columns that nothing is known of")

			db.exec("UPDATE sessions SET unanswered = '[1]' WHERE session_id = 's1'")
			code, out, _ = command(t, "verify", "--store", store, "--json", "--session", "s1", "--tenant", "default")
			require.Equal(t, 1, code)
			require.Equal(t, `{"tenant":"default","session":"s1","field":"unanswered","detail":"the row says [1], the events give []"}`+"\n"+
				`{"summary":{"sessions":1,"events":10,"faults":1}}`+"\n", out)
			code, out, _ = command(t, "verify", "--store", store)
			require.Equal(t, 1, code)
			require.Contains(t, out, "default/s1: unanswered: the row says [1], the events give []\n")
			code, out, _ = command(t, "verify", "--store", store, "--session", "failed")
			require.Equal(t, 0, code, out)
			code, out, _ = command(t, "verify", "--store", store, "--tenant", "default")
			require.Equal(t, 1, code, out)
			for want, args := range map[string][]string{
				`tenant "another" has no session`: {"--tenant", "another"}, `there is no session "nowhere"`: {"--session", "nowhere"},
				`tenant "another" has no session "s1"`: {"--tenant", "another", "--session", "s1"},
			} {
				code, out, errs = command(t, append([]string{"verify", "--store", store}, args...)...)
				require.Equal(t, 2, code, "%v: %s%s", args, out, errs)
				require.Contains(t, errs, want)
				require.Empty(t, out)
			}
		})
	}
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code int
		args []string
	}{
		{2, []string{"--store", "memory:"}}, {2, []string{"--store", "nonsense"}}, {2, []string{"--nonsense"}},
		{2, []string{"--store", "sqlite:" + filepath.Join(t.TempDir(), "none.db")}},
	} {
		code, out, errs := command(t, append([]string{"verify"}, c.args...)...)
		require.Equal(t, c.code, code, "%v", c.args)
		require.Empty(t, out)
		require.NotEmpty(t, errs)
	}
}

// An empty store is in order; that what was asked for is not in it is not.
func TestVerifyOfNothing(t *testing.T) {
	t.Parallel()
	store := newStore(t, "sqlite")
	code, _, errs := command(t, "migrate", "up", "--store", store)
	require.Equal(t, 0, code, errs)
	code, out, errs := command(t, "verify", "--store", store)
	require.Equal(t, 0, code, errs)
	require.Equal(t, "verified 0 sessions with 0 events: 0 faults\n", out)
	code, out, errs = command(t, "verify", "--store", store, "--tenant", "none")
	require.Equal(t, 2, code, out)
	require.Contains(t, errs, `tenant "none" has no session`)
}
