package apitest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/httpapi"
	"github.com/keel-agent/keel/adapters/memory"
	"github.com/keel-agent/keel/adapters/sse"
	"github.com/keel-agent/keel/app/service"
)

const canary = "sk-canary-1f8e2b7c9d"

func (c *client) putSecret(name, body string) answer {
	c.t.Helper()
	return c.call(http.MethodPut, "/v1/settings/secrets/"+name, body)
}

// names is the names of a page of secrets.
func (a answer) names() (names []string) {
	for _, item := range a.items() {
		names = append(names, item["name"].(string))
	}
	return names
}

func TestSecretsAreWrittenAndNeverRead(t *testing.T) {
	r := newRig(t)
	a := r.putSecret("openai.api_key", `{"value":"`+canary+`","more":1}`)
	require.Equal(t, http.StatusCreated, a.status, a.raw)
	require.Empty(t, a.raw)
	first := r.get("/v1/settings/secrets").items()[0]
	require.Equal(t, http.StatusNoContent, r.putSecret("openai.api_key", `{"value":"`+canary+`"}`).status)
	a = r.get("/v1/settings/secrets")
	require.Equal(t, http.StatusOK, a.status)
	require.NotContains(t, a.raw, canary)
	item := a.items()[0]
	require.Len(t, item, 4)
	require.Equal(t, "openai.api_key", item["name"])
	require.Equal(t, "k1", item["keyId"])
	require.Equal(t, first["createdAt"], item["createdAt"])
	require.Greater(t, item["updatedAt"], first["updatedAt"])

	require.Equal(t, http.StatusMethodNotAllowed, r.do(r.request(http.MethodGet, "/v1/settings/secrets/openai.api_key", "")).status)
	require.Empty(t, r.as(theirs).get("/v1/settings/secrets").items(), "of another tenant")
	require.Equal(t, http.StatusNoContent, r.as(theirs).call(http.MethodDelete, "/v1/settings/secrets/openai.api_key", "").status)
	require.Len(t, r.get("/v1/settings/secrets").items(), 1)
	for range 2 {
		require.Equal(t, http.StatusNoContent, r.call(http.MethodDelete, "/v1/settings/secrets/openai.api_key", "").status)
		require.Empty(t, r.get("/v1/settings/secrets").items())
	}
	require.Equal(t, true, r.get("/v1/capabilities").at("features", "settings.secrets"))
}

// No refusal quotes what the client has sent.
func TestBadSecretsAreRefused(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct{ name, body, code, field string }{
		{"a", `{"value":"` + canary, "invalid_json", ""},
		{"a", `{"value":` + canary + `}`, "invalid_json", ""},
		{"a", `"` + canary + `"`, "invalid_json", ""},
		{"a", `{"` + canary + `":1,"` + canary + `":2}`, "invalid_json", ""},
		{"a", `{"value":"` + canary + `","value":"` + canary + `"}`, "invalid_json", ""},
		{"a", `{"value":["` + canary + `"]}`, "invalid_request", "value"},
		{"a", `{"value":null}`, "invalid_request", "value"},
		{"a", `{"value":""}`, "invalid_request", "value"},
		{"a", `{"secret":"` + canary + `"}`, "invalid_request", "value"},
		{"a", `{"value":"` + canary + `\u0000"}`, "invalid_request", "value"},
		{"a", `{"value":"` + strings.Repeat(canary, 65536/len(canary)+1) + `"}`, "payload_too_large", "value"},
		{"a%00b", `{"value":"` + canary + `"}`, "invalid_request", "name"},
		{"a%2Fb", `{"value":"` + canary + `"}`, "invalid_request", "name"},
		{"a%20b", `{"value":"` + canary + `"}`, "invalid_request", "name"},
		{".a", `{"value":"` + canary + `"}`, "invalid_request", "name"},
		{strings.Repeat("a", 129), `{"value":"` + canary + `"}`, "invalid_request", "name"},
	} {
		a := r.do(r.request(http.MethodPut, "/v1/settings/secrets/"+c.name, c.body))
		require.Equal(t, c.code, a.code(), "%s %.80s: %s", c.name, c.body, a.raw)
		require.Equal(t, c.field, a.text("field"), "%s %.80s", c.name, c.body)
		require.NotContains(t, a.raw, canary)
		require.NotContains(t, a.raw, "canary")
	}
	require.Empty(t, r.get("/v1/settings/secrets").items())
	require.Equal(t, "invalid_request", r.do(r.request(http.MethodDelete, "/v1/settings/secrets/a%00", "")).code())
	require.Equal(t, "unsupported_media_type", func() string {
		req := r.request(http.MethodPut, "/v1/settings/secrets/a", `{"value":"x"}`)
		req.Header.Set("Content-Type", "text/plain")
		return r.do(req).code()
	}())
}

func TestSecretsByPages(t *testing.T) {
	r := newRig(t)
	var want []string
	for i := range 230 {
		name := fmt.Sprintf("n%03d", i)
		want = append(want, name)
		require.Equal(t, http.StatusCreated, r.putSecret(name, `{"value":"x"}`).status)
	}
	require.Len(t, r.get("/v1/settings/secrets").items(), 50)
	for _, limit := range []int{1, 100, 1000} {
		var got []string
		for path := fmt.Sprintf("/v1/settings/secrets?limit=%d", limit); len(got) < 300; {
			a := r.get(path)
			require.LessOrEqual(t, len(a.items()), min(limit, 200))
			got = append(got, a.names()...)
			if a.text("nextCursor") == "" || limit == 1 && len(got) == 3 {
				break
			}
			path = fmt.Sprintf("/v1/settings/secrets?limit=%d&cursor=%s", limit, a.text("nextCursor"))
		}
		require.Equal(t, want[:len(got)], got)
		require.True(t, limit == 1 || len(got) == len(want))
	}
	sessions := r.get("/v1/settings/secrets?limit=1").text("nextCursor")
	require.Equal(t, "invalid_cursor", r.do(r.request(http.MethodGet, "/v1/sessions?cursor="+sessions, "")).code())
	require.Equal(t, "invalid_cursor", r.get("/v1/settings/secrets?cursor=x").code())
}

func TestSecretsNeedAKey(t *testing.T) {
	r := newRig(t, func(c *httpapi.Config, _ *sse.Config) {
		s := memory.New(memory.Config{})
		c.Service = service.New(service.Deps{Ledger: s, Sessions: s.Sessions(), Runs: s.Runs(), Clock: newClock(), IDs: ids{}})
	})
	require.Equal(t, false, r.get("/v1/capabilities").at("features", "settings.secrets"))
	for _, a := range []answer{
		r.get("/v1/settings/secrets"), r.putSecret("a", `{"value":"`+canary+`"}`),
		r.call(http.MethodDelete, "/v1/settings/secrets/a", ""),
	} {
		require.Equal(t, http.StatusNotImplemented, a.status)
		require.Equal(t, "secrets_unavailable", a.code())
		require.Contains(t, a.text("detail"), "--secrets-key-file")
		require.NotContains(t, a.raw, canary)
	}
}
