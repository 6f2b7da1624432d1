package e2e

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// K40, 3: while the database refuses each commit as one that may be repeated (40001), every route that writes answers
// 503 and leaves nothing behind, and a turn waits. Once it has passed the same requests are taken and the turn goes on.
func TestK40ContentionThatLasts(t *testing.T) {
	t.Parallel()
	store := newStore(t, "postgres")
	p := serveOne(t, store, []string{"KEEL_SECRETS_KEY=k1:jVbXH7wG0k9nqWm3s5A1rT8yZ2uL6cP4eDfEoBhJtQI="}, "--provider", "fake", "--drain-grace", "500ms")
	sleeper := func(ms string) string {
		return `{"text":"go","requestId":"r","selection":{"script":[{"toolCalls":[{"name":"sleep","arguments":{"ms":` + ms + `}}]},{"text":"done"}]}}`
	}
	p.create(`{"id":"s1"}`)
	for _, key := range []string{"r1", "r2"} {
		p.input("s1", `{"text":"hello","requestId":"`+key+`"}`)
		p.rested("s1")
	}
	for id, ms := range map[string]string{"long": "60000", "unanswered": "60000", "turn": "500"} {
		p.create(`{"id":"` + id + `","tools":["sleep"]}`)
		p.input(id, sleeper(ms))
		p.until(id, func(es []event) bool { return count(es, "assistant.message") == 1 })
	}
	require.Equal(t, http.StatusAccepted, p.call("POST", "/v1/sessions/unanswered/cancel", "").status)
	p.rested("unanswered")
	p.input("s1", `{"text":"hello","requestId":"r3"}`)
	p.rested("s1")

	tables := []string{"sessions", "events", "runs", "tool_calls", "settings", "secrets"}
	admin(t, store, `CREATE FUNCTION contended() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'once more' USING ERRCODE = '40001'; END $$`)
	for _, table := range tables {
		admin(t, store, "CREATE TRIGGER contended BEFORE INSERT OR UPDATE OR DELETE ON "+table+" FOR EACH ROW EXECUTE FUNCTION contended()")
	}
	before := rows(t, store, tables)
	requests := []struct{ method, path, body string }{
		{"POST", "/v1/sessions", `{"id":"new"}`},
		{"PATCH", "/v1/sessions/s1", `{"title":"other"}`},
		{"POST", "/v1/sessions/s1/input", `{"text":"more","requestId":"r4"}`},
		{"POST", "/v1/sessions/s1/events", `{"kind":"user.message","payload":{"text":"more","requestId":"r5"}}`},
		{"POST", "/v1/sessions/unanswered/run", ""},
		{"POST", "/v1/sessions/long/cancel", ""},
		{"POST", "/v1/sessions/unanswered/close", ""},
		{"PUT", "/v1/settings/models", `{"models":[{"id":"only"}]}`},
		{"PUT", "/v1/settings/secrets/key", `{"value":"a secret value"}`},
	}
	for _, r := range requests {
		req, err := http.NewRequest(r.method, p.url+r.path, strings.NewReader(r.body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusServiceUnavailable, res.StatusCode, "%s %s: %s", r.method, r.path, body)
		require.Contains(t, string(body), `"code":"unavailable"`)
		require.Equal(t, "1", res.Header.Get("Retry-After"))
	}
	time.Sleep(700 * time.Millisecond) // the tool of the turn has ended, its result waits
	require.Equal(t, before, rows(t, store, tables), "nothing is left behind")

	for _, table := range tables {
		admin(t, store, "DROP TRIGGER contended ON "+table)
	}
	for _, r := range requests {
		a := p.call(r.method, r.path, r.body)
		require.Less(t, a.status, 300, "%s %s: %s", r.method, r.path, a.body)
	}
	tells(t, p.rested("turn"), "input go", `[1] tool_use: sleep{"ms":500}`, "result 1: waited 500 ms", "[1] end_turn: done", "done end_turn")
	require.Equal(t, "done", p.newest("turn")["status"])
	require.EqualValues(t, 1, p.newest("turn")["attempts"], "it was no failure")
	require.Equal(t, 5, count(p.rested("s1"), "user.message"))
	p.stop()
	verified(t, store)
}

// rows returns all rows of tables, as text.
func rows(t *testing.T, store string, tables []string) (all []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), store)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	for _, table := range tables {
		var text string
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT coalesce(string_agg(t::text, ' ' ORDER BY t::text), '') FROM "+table+" AS t").Scan(&text))
		all = append(all, text)
	}
	return all
}
