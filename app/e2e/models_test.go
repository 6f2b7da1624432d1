package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
)

// caller talks to a server as one tenant.
type caller struct {
	p     *process
	token string
}

func (u caller) call(method, path, body string) answer { return u.p.as(u.token, method, path, body) }

func (u caller) ok(method, path, body string) answer {
	u.p.t.Helper()
	a := u.call(method, path, body)
	require.Less(u.p.t, a.status, 300, a.body)
	return a
}

// offer puts a catalogue, %s of which is one more entry, and returns when it holds in each process that answers.
func (u caller) offer(document string) {
	u.p.t.Helper()
	mark := fmt.Sprint("mark-", time.Now().UnixNano())
	u.ok("PUT", "/v1/settings/models", fmt.Sprintf(document, `{"id":"`+mark+`","provider":"fake"}`))
	deadline := time.Now().Add(30 * time.Second)
	for in := 0; in <= len(u.p.peers); in++ { // they take turns
		if u.call("POST", "/v1/sessions", `{"model":"`+mark+`"}`).status != http.StatusCreated {
			in = -1
			require.True(u.p.t, time.Now().Before(deadline), "the catalogue never holds everywhere")
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// money is what an event says that something cost.
type money struct {
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
}

// said is the accounting in an event.
type said struct {
	Provider string  `json:"provider"`
	Model    string  `json:"model"`
	Cost     *money  `json:"cost"`
	Costs    []money `json:"costs"`
}

// finished waits for the n-th run.finished and returns the last answer and the accounting of its attempt.
func (u caller) finished(session string, n int) (message, attempt said) {
	u.p.t.Helper()
	var events []event
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var page struct{ Events []event }
		u.ok("GET", "/v1/sessions/"+session+"/events?limit=1000", "").into(u.p.t, &page)
		if events = page.Events; count(events, "run.finished") >= n {
			break
		}
		require.True(u.p.t, time.Now().Before(deadline), "it never finished:\n%s", normal(events))
	}
	for _, e := range events {
		switch e.Kind {
		case "assistant.message":
			message = said{}
			require.NoError(u.p.t, json.Unmarshal(e.Payload, &message))
		case "run.finished":
			attempt = said{}
			require.NoError(u.p.t, json.Unmarshal(e.Payload, &attempt))
		}
	}
	return message, attempt
}

// Two tenants with defaults of their own, a session that moves from one provider to the other and back, what it cost,
// and what is refused.
func TestModelsOfTenants(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		b := openaitest.Start(t)
		b.SetModels(`{"data":[{"id":"mini","context_length":1000},{"id":"maxi"}]}`)
		dir := t.TempDir()
		tokens, file := filepath.Join(dir, "tokens"), filepath.Join(dir, "models.yaml")
		require.NoError(t, os.WriteFile(tokens, []byte("ours-0123456789abcdef ours\ntheirs-0123456789abcdef theirs\n"), 0o600))
		require.NoError(t, os.WriteFile(file, []byte("models:\n  - id: openai/mini\n    prices: {currency: USD, input: 0.25, output: 2}\n"), 0o600))
		p := serve(t, store, []string{"OPENAI_BASE_URL=" + b.URL()}, "--provider", "openai", "--auth", "tokens:"+tokens, "--models", file)
		ours, theirs := caller{p, "ours-0123456789abcdef"}, caller{p, "theirs-0123456789abcdef"}
		require.Equal(t, "true", ours.ok("GET", "/v1/capabilities", "").field(t, "features", "settings.models"))

		// A name that is like one which the backend lists.
		for _, u := range []caller{ours, theirs} {
			refused := u.call("POST", "/v1/sessions", `{"id":"s","model":"mnii"}`)
			require.Equal(t, http.StatusBadRequest, refused.status, refused.body)
			require.Equal(t, "unknown_model", refused.field(t, "code"))
			require.Equal(t, `there is no model "mnii"; did you mean mini, maxi?`, refused.field(t, "detail"))
			u.ok("POST", "/v1/sessions", `{"id":"s"}`)
		}
		unknown := ours.call("POST", "/v1/sessions", `{"id":"t","tools":["calculatr"]}`)
		require.Equal(t, "unknown_tool", unknown.field(t, "code"), unknown.body)
		require.Contains(t, unknown.field(t, "detail"), "did you mean calculator?")

		ours.offer(`{"models":[%s],"defaults":{"model":"mini"}}`)
		theirs.offer(`{"models":[%s,{"id":"dear","model":"maxi","prices":{"currency":"EUR","input":100,"output":1000}}],"defaults":{"model":"dear"}}`)

		b.Push(answered("one"), answered("two")) // of 10 and 2 tokens each
		ours.ok("POST", "/v1/sessions/s/input", `{"text":"hi"}`)
		message, attempt := ours.finished("s", 1)
		require.Equal(t, said{Provider: "openai", Model: "test-model", Cost: &money{"0.0000065", "USD"}}, message)
		require.Equal(t, []money{{"0.0000065", "USD"}}, attempt.Costs)
		theirs.ok("POST", "/v1/sessions/s/input", `{"text":"hi"}`)
		message, _ = theirs.finished("s", 1)
		require.Equal(t, &money{"0.003", "EUR"}, message.Cost)
		var asked []string
		for _, r := range b.Requests() {
			var body struct{ Model string }
			r.JSON(&body)
			asked = append(asked, body.Model)
		}
		require.Equal(t, []string{"mini", "maxi"}, asked)

		// To the fake provider, which has no prices, and back to a model at other prices; what was stays as it was.
		ours.ok("POST", "/v1/sessions/s/input", `{"text":"hello","selection":{"model":"fake"}}`)
		message, attempt = ours.finished("s", 2)
		require.Equal(t, said{Provider: "fake", Model: "fake"}, message)
		require.Empty(t, attempt.Costs)
		ours.offer(`{"models":[%s,{"id":"openai/mini","prices":{"currency":"USD","input":1,"output":1}}],"defaults":{"model":"mini"}}`)
		b.Push(answered("three"))
		ours.ok("POST", "/v1/sessions/s/input", `{"text":"and again"}`)
		message, _ = ours.finished("s", 3)
		require.Equal(t, &money{"0.000012", "USD"}, message.Cost)
		require.Equal(t, "map[costs:[map[amount:0.0000185 currency:USD]] input:20 output:4]", ours.ok("GET", "/v1/sessions/s", "").field(t, "usage"))
		require.Contains(t, string(b.Requests()[2].Body), "echo: hello", "the other provider's answer is part of the conversation")
		p.stop()
	})
}

// A catalogue that is changed through one process holds in the other within seconds.
func TestModelsAcrossProcesses(t *testing.T) {
	t.Parallel()
	store := newStore(t, "postgres")
	one, two := serveOne(t, store, nil, "--provider", "fake"), serveOne(t, store, nil, "--provider", "fake")
	for n, p := range []*process{two, one} {
		p.create(fmt.Sprintf(`{"id":"before-%d","model":"any"}`, n))
	}
	one.call("PUT", "/v1/settings/models", `{"models":[{"id":"only"}]}`)
	wrote := time.Now()
	require.Equal(t, http.StatusBadRequest, one.call("POST", "/v1/sessions", `{"model":"any"}`).status, "at once where it was written")
	for two.call("POST", "/v1/sessions", `{"model":"any"}`).status != http.StatusBadRequest {
		require.Less(t, time.Since(wrote), 20*time.Second)
		time.Sleep(50 * time.Millisecond)
	}
	require.Equal(t, "1", two.call("GET", "/v1/settings/models", "").field(t, "revision"))
}

// What is wrong with the file is said before anything is served.
func TestModelsFileIsChecked(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "models.yaml")
	require.NoError(t, os.WriteFile(file, []byte("models:\n  - id: a\n    contextWindw: 1\n"), 0o600))
	code, _, errs := command(t, "serve", "--store", "memory:", "--auth", "off", "--listen", "127.0.0.1:0", "--models", file)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "models/0/contextWindw: is not a member that belongs here; did you mean contextWindow?")
}

// A server without a key of its own lists for each tenant what the backend lists for the key that it brought, and refuses
// what is not among that.
func TestModelsForTheTenantsOwnKey(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		b := openaitest.Start(t)
		b.SetModelPages(func(r *http.Request) string {
			return map[string]string{
				"Bearer key-of-ours": `{"data":[{"id":"mini","context_length":1000}]}`, "Bearer key-of-theirs": `{"data":[{"id":"maxi"}]}`,
			}[r.Header.Get("Authorization")]
		})
		tokens := write(t, "tokens", "ours-0123456789abcdef ours\ntheirs-0123456789abcdef theirs\nthird-0123456789abcdef third\n")
		key, _ := secretKey(t)
		p := serve(t, store, []string{"OPENAI_BASE_URL=" + b.URL(), "KEEL_SECRETS_KEY=" + key}, "--provider", "openai", "--auth", "tokens:"+tokens)
		ours, theirs, third := caller{p, "ours-0123456789abcdef"}, caller{p, "theirs-0123456789abcdef"}, caller{p, "third-0123456789abcdef"}
		ours.ok("PUT", "/v1/settings/secrets/openai.api_key", `{"value":"key-of-ours"}`)
		theirs.ok("PUT", "/v1/settings/secrets/openai.api_key", `{"value":"key-of-theirs"}`)
		for range 3 { // each process
			require.Contains(t, ours.ok("GET", "/v1/settings/models", "").body, `"id":"openai/mini"`)
			require.NotContains(t, ours.ok("GET", "/v1/settings/models", "").body, "maxi")
			require.Contains(t, theirs.ok("GET", "/v1/settings/models", "").body, `"id":"openai/maxi"`)
			require.NotContains(t, third.ok("GET", "/v1/settings/models", "").body, "openai/")

			refused := ours.call("POST", "/v1/sessions", `{"model":"mnii"}`)
			require.Equal(t, "unknown_model", refused.field(t, "code"), refused.body)
			require.Equal(t, `there is no model "mnii"; did you mean mini?`, refused.field(t, "detail"))
			ours.ok("POST", "/v1/sessions", `{"model":"mini"}`)
			theirs.ok("POST", "/v1/sessions", `{"model":"maxi"}`)
			require.Equal(t, "unknown_model", theirs.call("POST", "/v1/sessions", `{"model":"mini"}`).field(t, "code"))
			third.ok("POST", "/v1/sessions", `{"model":"mini"}`)
		}
		require.NotContains(t, everyLog(p), "key-of-")
	})
}
