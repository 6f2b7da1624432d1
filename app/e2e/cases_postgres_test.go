package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
)

// K17: every second commit of a whole server goes through without a reply, and nothing doubles.
func TestK17LostCommitReplies(t *testing.T) {
	t.Parallel()
	proxy, through := postgrestest.NewProxy(t, newStore(t, "postgres"))
	through = postgrestest.With(t, through, "default_query_exec_mode", "exec")
	lost := proxy.LoseEverySecond("UPDATE sessions AS s SET", "UPDATE processes SET expires_at")
	p := serve(t, through, nil, "--provider", "fake", "--heartbeat", "200ms", "--lease-ttl", "3s")
	p.create(`{"id":"s1","tools":["calculator"]}`)
	for i := range 3 {
		before := len(p.events("s1"))
		p.input("s1", fmt.Sprintf(`{"text":"go","requestId":"r%d","selection":{"script":[{"toolCalls":[
			{"name":"calculator","arguments":{"expression":"1"}},{"name":"calculator","arguments":{"expression":"2"}}]},{"text":"done"}]}}`, i))
		events := p.rested("s1")
		story(t, events)
		want := []string{"user.message", "assistant.message", "tool.result", "tool.result", "assistant.message", "run.finished"}
		require.Equal(t, want, kinds(events[before:]))
		require.Equal(t, "done", p.newest("s1")["status"])
		require.Equal(t, http.StatusAccepted, p.call("POST", "/v1/sessions/s1/compact", "").status)
		compacted := kinds(p.rested("s1"))[len(events):]
		if i > 0 { // a first turn has nothing before it
			require.Equal(t, []string{"compaction", "run.finished"}, compacted)
		}
	}
	require.Greater(t, lost(), 6, "replies were lost")
	p.stop()
}

func admin(t *testing.T, store string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), store)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	for _, s := range statements {
		_, err := conn.Exec(t.Context(), s)
		require.NoError(t, err, s)
	}
}

// K38: a commit is held back behind its seq; nobody sees, and no request presents, a later one before it.
func TestK38HeldCommit(t *testing.T) {
	t.Parallel()
	store := newStore(t, "postgres")
	p := serve(t, store, nil, "--provider", "fake")
	p.create(`{"id":"s1"}`)
	p.input("s1", `{"text":"first","requestId":"r1"}`)
	p.rested("s1")
	admin(t, store, "CREATE SEQUENCE tries", `CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF NEW.kind <> 'user.message' THEN RETURN NEW; END IF;
			IF NEW.payload LIKE '%held back%' THEN PERFORM pg_sleep(0.7); END IF;
			IF NEW.payload LIKE '%rolled back%' AND nextval('tries') <= 3 THEN RAISE EXCEPTION 'once more' USING ERRCODE = '40001'; END IF;
			RETURN NEW;
		END $$`, "CREATE TRIGGER hold AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION hold()")
	frames := p.stream(t.Context(), "s1", "after=3")
	var group sync.WaitGroup
	for i, text := range []string{"held back", "quick", "rolled back", "quick"} {
		group.Go(func() {
			a, err := p.try("POST", "/v1/sessions/s1/input", fmt.Sprintf(`{"text":%q,"requestId":"k%d"}`, text, i))
			if err != nil || a.status != http.StatusCreated {
				t.Error(a.body, err)
			}
		})
		if i == 0 {
			time.Sleep(150 * time.Millisecond) // it has its seq by now
		}
	}
	for before := time.Now(); time.Since(before) < 400*time.Millisecond; time.Sleep(20 * time.Millisecond) {
		story(t, p.events("s1")) // no gaps
	}
	group.Wait()
	events := p.rested("s1")
	require.Equal(t, "held back", events[3].told(t).Text)
	admin(t, store, "DO $$ BEGIN IF nextval('tries') < 5 THEN RAISE EXCEPTION 'nothing was rolled back'; END IF; END $$")
	for _, e := range events[3:] {
		require.Equal(t, fmt.Sprint(e.Seq), (<-frames).LastEventID)
	}
	presentsAll(t, events)
	p.stop()
}

// presentsAll checks that each answer lists every input below the last one that it lists, if no earlier answer does.
func presentsAll(t *testing.T, events []event) {
	t.Helper()
	open := map[int64]bool{}
	for _, e := range events {
		p := e.told(t)
		if e.Kind == "user.message" {
			open[e.Seq] = true
		}
		if e.Kind != "assistant.message" {
			continue
		}
		for _, seq := range p.InputSeqs {
			delete(open, seq)
		}
		for seq := range open {
			require.Greater(t, seq, p.InputSeqs[len(p.InputSeqs)-1], "answer %d passes over an input", e.Seq)
		}
	}
	require.Empty(t, open, "inputs are unanswered")
}

// K40, 2: the schema grows under a server with open streams and a live lease; it goes on and drains.
func TestK40SchemaGrowsUnderneath(t *testing.T) {
	t.Parallel()
	store := newStore(t, "postgres")
	p := serve(t, store, nil, "--provider", "fake", "--heartbeat", "100ms", "--lease-ttl", "1s")
	p.create(`{"id":"warm"}`)
	p.input("warm", `{"text":"x","requestId":"r"}`)
	p.rested("warm")
	p.create(`{"id":"s1","tools":["sleep"]}`)
	frames := p.stream(t.Context(), "s1", "after=0")
	p.input("s1", `{"text":"go","requestId":"r","selection":{"script":[{"toolCalls":[{"name":"sleep","arguments":{"ms":900}}]},{"text":"done"}]}}`)
	p.until("s1", func(es []event) bool { return count(es, "assistant.message") == 1 })
	var alter []string
	for _, table := range []string{"sessions", "events", "runs", "tool_calls", "processes"} {
		alter = append(alter, "ALTER TABLE "+table+" ADD COLUMN more text NOT NULL DEFAULT 'x'")
	}
	admin(t, store, append(alter, "ALTER TABLE sessions ALTER COLUMN title TYPE varchar", "ALTER TABLE events ALTER COLUMN payload TYPE varchar",
		"ALTER TABLE runs ALTER COLUMN error TYPE varchar")...)
	events := p.rested("s1")
	tells(t, events, "input go", `[1] tool_use: sleep{"ms":900}`, "result 1: waited 900 ms", "[1] end_turn: done", "done end_turn")
	for _, e := range events {
		require.Equal(t, fmt.Sprint(e.Seq), (<-frames).LastEventID)
	}
	p.input("warm", `{"text":"y","requestId":"r2"}`)
	require.Equal(t, 2, count(p.rested("warm"), "run.finished"))
	p.stop()
	drain := <-frames
	require.Equal(t, "drain", drain.Type)
}

// K40, 3: a server of two connections that the database ends at random answers fifty sessions.
func TestK40TerminatedConnections(t *testing.T) {
	t.Parallel()
	store := newStore(t, "postgres")
	u, err := url.Parse(store)
	require.NoError(t, err)
	name := strings.TrimPrefix(u.Path, "/")
	p := serve(t, store, nil, "--provider", "fake", "--max-conns", "2", "--lease-ttl", "5s", "--heartbeat", "1s", "--log-level", "error")
	stop := make(chan struct{})
	var killing, writing sync.WaitGroup
	killing.Go(func() {
		conn, err := pgx.Connect(t.Context(), store)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
		for {
			select {
			case <-stop:
				return
			case <-time.After(15 * time.Millisecond):
			}
			if _, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1", name); err != nil {
				t.Error(err)
				return
			}
		}
	})
	insist := func(path, body string) {
		for range 200 {
			a, err := p.try("POST", path, body)
			if err == nil && a.status < 300 {
				return
			}
			if err == nil && a.status < 500 {
				t.Errorf("%s %s: %d %s", path, body, a.status, a.body)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("%s %s never went through", path, body)
	}
	for i := range 50 {
		writing.Go(func() {
			insist("/v1/sessions", fmt.Sprintf(`{"id":"s%d","tools":["calculator"]}`, i))
			insist(fmt.Sprintf("/v1/sessions/s%d/input", i), `{"text":"go","requestId":"r","selection":{"script":[
				{"toolCalls":[{"name":"calculator","arguments":{"expression":"1"}}]},{"text":"done"}]}}`)
		})
	}
	writing.Wait()
	time.Sleep(300 * time.Millisecond)
	close(stop)
	killing.Wait()
	for i := range 50 {
		tells(t, p.rested(fmt.Sprint("s", i)), "input go", `[1] tool_use: calculator{"expression":"1"}`, "result 1: 1", "[1] end_turn: done", "done end_turn")
	}
	p.stop()
}
