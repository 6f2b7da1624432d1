package e2e

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
)

// wanted finds the tool that an input asks to be used.
var wanted = regexp.MustCompile(`use (\w+)`)

// talkative is a backend of the Chat Completions wire that quotes the credentials of a request wherever it can. What the
// last message says decides the answer.
type talkative struct {
	*httptest.Server
	mu   sync.Mutex
	keys []string
}

func newTalkative(t *testing.T) *talkative {
	b := &talkative{}
	b.Server = httptest.NewServer(http.HandlerFunc(b.answer))
	t.Cleanup(b.Close)
	return b
}

func (b *talkative) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if r.Method == http.MethodPost { // else it is asked for its models
		b.mu.Lock()
		b.keys = append(b.keys, key)
		b.mu.Unlock()
	}
	said := func(text string) bool { return strings.Contains(string(body), text) }
	fault := fmt.Sprintf("Incorrect API key provided: %s (%v)", key, r.Header)
	switch {
	case r.Method == http.MethodGet, said("refuse"):
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, openaitest.Fault(fault, key))
	case wanted.Match(body) && !said(`"role":"tool"`):
		w.Header().Set("Content-Type", "text/event-stream")
		for _, step := range calling(string(wanted.FindSubmatch(body)[1]), `{}`).Steps {
			_, _ = io.WriteString(w, step.Write)
		}
	case said("clip"):
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, openaitest.Fault(strings.Repeat("x", 2048-len(key)/2)+key, "bad"))
	case said("page"):
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, "<html>%s</html>", fault)
	case said("break"):
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, openaitest.Event(openaitest.Text("half "))+openaitest.Event(openaitest.Fault(fault, "server_error")))
	default:
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, openaitest.Event(openaitest.Text("fine"))+openaitest.Event(openaitest.Finish("stop"))+openaitest.Done)
	}
}

// lastKey is the credential of the latest request.
func (b *talkative) lastKey() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.keys) == 0 {
		return ""
	}
	return b.keys[len(b.keys)-1]
}

// asked is how many answers were asked for.
func (b *talkative) asked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.keys)
}

// canaries are texts that must be found nowhere.
type canaries struct {
	t      *testing.T
	values map[string]string
}

// plant returns a new canary.
func (c *canaries) plant(name string) string {
	c.values[name] = "canary-" + rand.Text()
	return c.values[name]
}

// absent fails when text holds a canary in one of the forms that it may take on its way.
func (c *canaries) absent(where, text string) {
	c.t.Helper()
	for name, v := range c.values {
		for _, form := range []string{v, base64.StdEncoding.EncodeToString([]byte(v)), hex.EncodeToString([]byte(v)), url.QueryEscape(v), v[:len(v)/2]} {
			if form != "" && strings.Contains(text, form) {
				i := strings.Index(text, form)
				c.t.Fatalf("the %s is in the %s: …%s…", name, where, text[max(0, i-200):min(len(text), i+100)])
			}
		}
	}
}

// stored is all bytes that a store has on disk, or all rows that it has.
func stored(t *testing.T, store string) string {
	t.Helper()
	var all strings.Builder
	if path, ok := strings.CutPrefix(store, "sqlite:"); ok {
		files, err := filepath.Glob(path + "*")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			all.Write(text)
		}
		return all.String()
	}
	db, err := sql.Open("pgx", store)
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	for _, table := range []string{"sessions", "events", "runs", "processes", "tool_calls", "settings", "secrets"} {
		var text string
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT coalesce(string_agg(t::text, ' '), '') || coalesce(string_agg(encode(convert_to(t::text, 'UTF8'), 'escape'), ' '), '') FROM "+table+" AS t").Scan(&text))
		all.WriteString(text)
	}
	return all.String()
}

func secretKey(t *testing.T) (line, raw string) {
	t.Helper()
	key := make([]byte, 32)
	_, err := rand.Read(key)
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(key), string(key)
}

// everyLog is what all processes of p have said.
func everyLog(p *process) string {
	var all strings.Builder
	for _, each := range append(slices.Clone(p.peers), p) {
		all.WriteString(each.logs.String())
	}
	return all.String()
}

// TestSecretsAreTold nowhere: not in answers, streams, ledgers, logs at the level debug, errors that quote them, dumps of a
// process, reports, nor on the disk of the store; and a tenant's own key is used for its runs alone, through a rotation.
func TestSecretsAreToldNowhere(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		c := &canaries{t, map[string]string{}}
		backend := newTalkative(t)
		oldLine, oldRaw := secretKey(t)
		newLine, newRaw := secretKey(t)
		c.values["old key"], c.values["new key"] = oldLine, newLine
		c.values["old key's bytes"], c.values["new key's bytes"] = oldRaw, newRaw
		ours, theirs := c.plant("token"), c.plant("other token")
		mine, own, other := c.plant("tenant's key"), c.plant("server's key"), c.plant("other secret")
		forTools := c.plant("tools' secret")
		crm := newCRM(t)
		base := strings.Replace(backend.URL, "http://", "http://user:"+c.plant("password")+"@", 1)
		tokens := filepath.Join(t.TempDir(), "tokens")
		require.NoError(t, os.WriteFile(tokens, []byte(ours+" ours\n"+theirs+" theirs\n"), 0o600))
		env := []string{"OPENAI_API_KEY=" + own, "OPENAI_BASE_URL=" + base, "OPENAI_MODEL=m", "GOTRACEBACK=all"}
		flags := []string{"--provider", "openai", "--auth", "tokens:" + tokens, "--log-level", "debug", "--attempts", "1", "--http-tools", crm.endpoints(t), "--mcp", crm.servers(t)}

		p := serve(t, store, append(env, "KEEL_SECRETS_KEY=old:"+oldLine), flags...)
		var told strings.Builder
		call := func(token, method, path, body string) answer {
			a := p.as(token, method, path, body)
			told.WriteString(a.body + "\n")
			return a
		}
		require.Equal(t, "true", call(ours, "GET", "/v1/capabilities", "").field(t, "features", "settings.secrets"))
		require.Equal(t, http.StatusCreated, call(ours, "PUT", "/v1/settings/secrets/openai.api_key", `{"value":"`+mine+`"}`).status)
		require.Equal(t, http.StatusNoContent, call(ours, "PUT", "/v1/settings/secrets/openai.api_key", `{"value":"`+mine+`"}`).status)
		require.Equal(t, http.StatusCreated, call(ours, "PUT", "/v1/settings/secrets/other", `{"value":"`+other+`"}`).status)
		require.Equal(t, http.StatusCreated, call(ours, "PUT", "/v1/settings/secrets/crm.token", `{"value":"`+forTools+`"}`).status)
		for _, bad := range []string{
			`{"value":"` + other, `{"value":` + other + `}`, `{"` + other + `":1,"` + other + `":1}`, `{"value":["` + other + `"]}`,
			`{"value":"` + other + `\u0000"}`, `{"value":"` + strings.Repeat(other, 3000) + `"}`,
		} {
			require.GreaterOrEqual(t, call(ours, "PUT", "/v1/settings/secrets/bad", bad).status, 400)
		}
		require.Contains(t, call(ours, "GET", "/v1/settings/secrets", "").body, `"name":"other","keyId":"old"`)
		require.Equal(t, http.StatusUnauthorized, call(other, "GET", "/v1/settings/secrets", "").status)

		run := func(token, session, text, key string) {
			t.Helper()
			require.Equal(t, http.StatusCreated, call(token, "POST", "/v1/sessions", `{"id":"`+session+`","tools":[`+crm.tools()+`]}`).status)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/v1/sessions/"+session+"/events/stream?partials=true", nil)
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+token)
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer func() { _ = res.Body.Close() }()
			require.Equal(t, http.StatusCreated, call(token, "POST", "/v1/sessions/"+session+"/input", `{"text":"`+text+`"}`).status)
			seen, piece := "", make([]byte, 4096)
			for !strings.Contains(seen, "run.finished") {
				n, err := res.Body.Read(piece)
				seen += string(piece[:n])
				require.NoError(t, err, seen)
			}
			told.WriteString(seen)
			for _, path := range []string{"", "/events", "/messages", "/runs"} {
				require.Equal(t, http.StatusOK, call(token, "GET", "/v1/sessions/"+session+path, "").status)
			}
			require.Equal(t, key, backend.lastKey(), "%s of %s", text, session)
		}
		for i, text := range []string{"fine", "refuse", "clip", "page", "break"} {
			run(ours, fmt.Sprint("ours-", i), text, mine)
			run(theirs, fmt.Sprint("theirs-", i), text, own)
		}
		require.Contains(t, told.String(), "[redacted]", "the backend did quote the key")
		for i, tool := range crm.names {
			run(ours, fmt.Sprint("ours-tool-", i), "use "+tool, mine)
			require.Equal(t, "Bearer "+forTools, crm.lastKey(), tool)
			require.Contains(t, call(ours, "GET", fmt.Sprint("/v1/sessions/ours-tool-", i, "/events"), "").body, "Bearer [redacted]", tool)
			asked := crm.asked()
			run(theirs, fmt.Sprint("theirs-tool-", i), "use "+tool, own)
			require.Equal(t, asked, crm.asked(), "%s was asked without the secret", tool)
			events := call(theirs, "GET", fmt.Sprint("/v1/sessions/theirs-tool-", i, "/events"), "").body
			require.Contains(t, events, `the tenant has no secret named \"crm.token\", which this tool needs`, tool)
			require.Contains(t, events, `"status":"done"`, tool)
		}
		for _, path := range []string{"/", "/v1/openapi.json", "/metrics", "/healthz", "/readyz", "/v1/sessions", "/v1/settings/secrets/other"} {
			call(ours, "GET", path, "")
		}
		c.absent("answers", told.String())
		if strings.HasPrefix(store, "sqlite:") {
			keys := filepath.Join(t.TempDir(), "keys")
			require.NoError(t, os.WriteFile(keys, []byte(oldLine), 0o600))
			code, _, errs := command(t, "secrets", "rotate", "--store", store, "--secrets-key-file", keys)
			require.Equal(t, 1, code)
			require.Contains(t, errs, "another process")
		}

		for _, each := range append(slices.Clone(p.peers), p) { // every goroutine of a process that ends like this is printed
			require.NoError(t, each.cmd.Process.Signal(syscall.SIGQUIT))
			require.Error(t, <-each.done)
		}
		require.Contains(t, everyLog(p), "goroutine ")
		require.Contains(t, everyLog(p), "DEBUG")
		c.absent("log", everyLog(p))
		if store == "memory:" {
			return
		}

		code, out, errs := command(t, "verify", "--store", store)
		require.Zero(t, code, out+errs)
		c.absent("report", out+errs)
		c.absent("store", stored(t, store))
		keys := filepath.Join(t.TempDir(), "keys")
		require.NoError(t, os.WriteFile(keys, []byte("new:"+newLine+"\nold:"+oldLine+"\n"), 0o600))
		for _, want := range []string{"3 secrets are sealed under the current key now, 0 were before", "0 secrets are sealed under the current key now, 3 were before"} {
			code, out, errs = command(t, "secrets", "rotate", "--store", store, "--secrets-key-file", keys)
			require.Zero(t, code, errs)
			require.Contains(t, out, want)
			c.absent("report", out+errs)
		}
		require.NoError(t, os.WriteFile(keys, []byte("new:"+newLine+"\n"), 0o600))
		p = serve(t, store, append(env, "KEEL_SECRETS_KEY_FILE="+keys), flags...)
		run(ours, "rotated", "fine", mine)
		require.Equal(t, http.StatusNoContent, call(ours, "DELETE", "/v1/settings/secrets/openai.api_key", "").status)
		require.NotContains(t, call(ours, "GET", "/v1/settings/secrets", "").body, "openai")
		p.stop()

		// A server without the key that a secret needs says so, and spends nobody else's.
		lost, _ := secretKey(t)
		p = serve(t, store, append(env, "KEEL_SECRETS_KEY=new:"+newLine), flags...)
		require.Equal(t, http.StatusCreated, call(ours, "PUT", "/v1/settings/secrets/openai.api_key", `{"value":"`+mine+`"}`).status)
		p.stop()
		asked := backend.asked()
		p = serve(t, store, append(env, "KEEL_SECRETS_KEY=lost:"+lost), flags...)
		require.Equal(t, http.StatusCreated, call(ours, "POST", "/v1/sessions", `{"id":"lost"}`).status)
		require.Equal(t, http.StatusCreated, call(ours, "POST", "/v1/sessions/lost/input", `{"text":"fine"}`).status)
		deadline := time.Now().Add(30 * time.Second)
		for !strings.Contains(call(ours, "GET", "/v1/sessions/lost/runs", "").body, `is sealed under the key \"new\", which this server does not have`) {
			require.True(t, time.Now().Before(deadline), call(ours, "GET", "/v1/sessions/lost/runs", "").body)
			time.Sleep(10 * time.Millisecond)
		}
		require.Equal(t, asked, backend.asked())
		code, _, errs = command(t, "secrets", "rotate", "--store", "memory:", "--secrets-key-file", keys)
		require.Equal(t, 1, code, errs)
		p.stop()
		c.absent("answers", told.String())
		c.absent("log", everyLog(p))
		c.absent("store", stored(t, store))
	})
}

// TestBadSecretKeysEndTheStart: a weak key is no key.
func TestBadSecretKeysEndTheStart(t *testing.T) {
	t.Parallel()
	line, _ := secretKey(t)
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, []byte("k:"+line), 0o600))
	for why, c := range map[string]struct{ env, flag string }{
		"KEEL_SECRETS_KEY: line 1: a key is 32 bytes in base64 or hex, and this one is 6": {"KEEL_SECRETS_KEY=c2hvcnQh", ""},
		"KEEL_SECRETS_KEY: line 1: the key is not random":                                 {"KEEL_SECRETS_KEY=" + strings.Repeat("ab", 32), ""},
		"are both given":           {"KEEL_SECRETS_KEY=" + line, keys},
		"--secrets-key-file: open": {"", keys + "-none"},
	} {
		p := launch(t, "memory:", []string{c.env}, "--secrets-key-file", c.flag)
		require.Error(t, <-p.done)
		require.Contains(t, p.logs.String(), why)
		require.NotContains(t, p.logs.String(), line)
	}
}
