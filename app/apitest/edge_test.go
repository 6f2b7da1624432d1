package apitest

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/httpapi"
	"github.com/keel-agent/keel/adapters/sse"
)

// K36: whatever a stranger asks, a session of another tenant looks like one that does not exist.
func TestForeignSessionsDoNotExist(t *testing.T) {
	r := newRig(t)
	s := r.create("Secret")
	r.input(s, "k", "mine")
	before := r.get(s).raw
	stranger := r.as(theirs)
	for _, c := range []struct{ method, path, body string }{
		{"GET", "", ""}, {"PATCH", "", `{"title":"x"}`}, {"POST", "/close", ""}, {"POST", "/close", "{}"},
		{"POST", "/input", `{"text":"x"}`}, {"POST", "/input", `{"requestId":"k","text":"mine"}`},
		{"POST", "/events", `{"kind":"user.message","payload":{"text":"x"}}`},
		{"GET", "/events", ""}, {"GET", "/events?after=99", ""}, {"GET", "/events/stream", ""}, {"GET", "/events/stream?after=99", ""},
		{"GET", "/messages", ""}, {"POST", "/run", ""}, {"POST", "/compact", ""}, {"GET", "/runs", ""}, {"POST", "/cancel", ""}, {"POST", "/cancel", `{"runId":"x"}`},
	} {
		foreign := stranger.call(c.method, "/v1/sessions/Secret"+c.path, c.body)
		missing := stranger.call(c.method, "/v1/sessions/Nothing"+c.path, c.body)
		require.Equal(t, http.StatusNotFound, foreign.status, c.method+c.path)
		require.Equal(t, missing.raw, foreign.raw, c.method+c.path)
		require.Equal(t, "not_found", foreign.code())
		for _, h := range []http.Header{missing.header, foreign.header} {
			h.Del("X-Request-Id")
			h.Del("Date")
		}
		require.Equal(t, missing.header, foreign.header, c.method+c.path)
	}
	require.Empty(t, stranger.get("/v1/sessions").items())
	require.Empty(t, stranger.get("/v1/sessions?parent=Secret").items())
	require.Equal(t, http.StatusCreated, stranger.post("/v1/sessions", `{"id":"Secret","parent":{"sessionId":"Secret"},"tenant":"ours"}`).status)
	require.Nil(t, stranger.get("/v1/sessions/Secret").at("parent"))
	require.Equal(t, before, r.get(s).raw, "nothing changed")
}

func TestPathTricks(t *testing.T) {
	r := newRig(t)
	r.create("Secret")
	r.create("Other")
	for _, path := range []string{
		"/v1/sessions/secret", "/v1/sessions/SECRET", "/v1/sessions/Secret/", "/v1//sessions/Secret", "//v1/sessions/Secret", "/v1/sessions//Secret",
		"/v1/sessions/Other/../Secret", "/v1/sessions/Other/..%2fSecret", "/v1/sessions/Other%2f..%2fSecret", "/v1/sessions/..%2fsessions%2fSecret",
		"/v1/sessions/./Secret", "/v1/sessions/Secret%2finput", "/v1/sessions/Secret%00", "/v1/sessions/Secret%20", "/v1/sessions/%ff", "/v1/sessions/%252e",
		"/%76%31/sessions/Secret", "/v1/session%73/Secret", "/v1/sessions/Secret/%69nput", "/v1/sessions/Secret/input/", "/v1/sessions/Secret//input",
		"/v1/sessions/Secret/events%2fstream", "/v1/sessions/", "/v1", "/v1/", "/V1/sessions", "/v2/sessions", "/metrics/..", "/healthz/", "/%2e",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			req := r.request(method, path, `{"text":"x"}`)
			a := r.do(req)
			require.Empty(t, a.header.Get("Location"))
			if method == http.MethodPost && a.status == http.StatusMethodNotAllowed {
				continue // the trick leads to some name under /v1/sessions/, which takes no POST
			}
			require.Equal(t, http.StatusNotFound, a.status, "%s %s %s", method, path, a.raw)
			require.Equal(t, "not_found", a.code())
		}
	}
	require.Equal(t, http.StatusOK, r.get("/v1/sessions/%53ecret").status, "for its owner an escape is the character")
	require.Equal(t, http.StatusNotFound, r.as(theirs).get("/v1/sessions/%53ecret").status)
	a := r.do(r.request(http.MethodPost, "/v1/sessions/%53ecret/input", `{"text":"x"}`))
	require.Equal(t, http.StatusCreated, a.status)
	require.Empty(t, r.get("/v1/sessions/Other/events").items())
}

func TestMethods(t *testing.T) {
	r := newRig(t)
	s := r.create("s")
	for path, allow := range map[string]string{
		"/v1/sessions": "GET, HEAD, POST", s: "GET, HEAD, PATCH", s + "/input": "POST", s + "/events": "GET, HEAD, POST",
		s + "/events/stream": "GET, HEAD", "/healthz": "GET, HEAD", "/": "GET, HEAD", "/v1/capabilities": "GET, HEAD",
	} {
		for _, method := range []string{http.MethodDelete, http.MethodPut, http.MethodOptions} {
			a := r.do(r.request(method, path, ""))
			require.Equal(t, http.StatusMethodNotAllowed, a.status, path)
			require.Equal(t, allow, a.header.Get("Allow"), path)
			require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
			require.Equal(t, "method_not_allowed", a.code())
		}
	}
	for _, path := range []string{"/v1/sessions", s, s + "/events", s + "/events/stream", s + "/messages", s + "/runs", "/v1/capabilities", "/v1/openapi.json", "/healthz", "/readyz", "/"} {
		head := r.do(r.request(http.MethodHead, path, ""))
		require.Equal(t, http.StatusOK, head.status, path)
		require.Empty(t, head.raw)
		if path == s+"/events/stream" {
			require.Equal(t, "text/event-stream", head.header.Get("Content-Type"))
			continue
		}
		get := r.do(r.request(http.MethodGet, path, ""))
		require.Equal(t, get.header.Get("Content-Length"), head.header.Get("Content-Length"), path)
	}
	require.Equal(t, http.StatusBadRequest, r.do(r.request(http.MethodHead, s+"/events/stream?after=9", "")).status)
}

func TestBodies(t *testing.T) {
	r := newRig(t)
	s := r.create("s")
	send := func(contentType, body string, change ...func(*http.Request)) answer {
		req := r.request(http.MethodPost, s+"/input", body)
		req.Header.Set("Content-Type", contentType)
		if contentType == "" {
			req.Header.Del("Content-Type")
		}
		for _, c := range change {
			c(req)
		}
		return r.do(req)
	}
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"} {
		require.Equal(t, http.StatusCreated, send(contentType, `{"text":"x"}`).status, contentType)
	}
	for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/jsonp", "application/json, text/plain", "nonsense"} {
		a := send(contentType, `{"text":"x"}`)
		require.Equal(t, http.StatusUnsupportedMediaType, a.status, contentType)
		require.Equal(t, "unsupported_media_type", a.code())
	}
	gzipped := func(req *http.Request) { req.Header.Set("Content-Encoding", "gzip") }
	require.Equal(t, http.StatusUnsupportedMediaType, send("application/json", `{"text":"x"}`, gzipped).status)

	for _, body := range []string{
		``, ` `, `null`, `"x"`, `[]`, `{`, `{"text":"x"} x`, `{"text":"x",}`, `{'text':'x'}`, `{"text":"x"}{}`, "{\"text\":\"\xff\"}", `{"text":"a","text":"a"}`,
		`{"text":"a","\u0074ext":"a"}`, "\ufeff{\"text\":\"x\"}", `{"text":"x","n":01}`, `{"text":"x","n":NaN}`,
	} {
		a := send("application/json", body)
		require.Equal(t, http.StatusBadRequest, a.status, body)
		require.Equal(t, "invalid_json", a.code(), body)
	}

	big := strings.Repeat(" ", 2<<20)
	a := send("application/json", `{"text":"x"}`+big)
	require.Equal(t, http.StatusRequestEntityTooLarge, a.status)
	chunked := func(req *http.Request) {
		req.Body, req.ContentLength = http.NoBody, -1
		req.Body = readCloser{bytes.NewReader([]byte(`{"text":"x"}` + big))}
	}
	a = send("application/json", `{}`, chunked)
	require.Equal(t, http.StatusRequestEntityTooLarge, a.status)
	require.Equal(t, "payload_too_large", a.code())
	require.Len(t, r.get(s+"/events").items(), 3)
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

func TestHeadersOfEveryAnswer(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/", "/nowhere", "/v1/sessions", "/v1/sessions/x", "/healthz"} {
		req := r.request(http.MethodGet, path, "")
		req.Header.Set("X-Request-Id", "my-id.1")
		a := r.do(req)
		require.Equal(t, "no-store", a.header.Get("Cache-Control"))
		require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
		require.Equal(t, "my-id.1", a.header.Get("X-Request-Id"))
	}
	req := r.request(http.MethodGet, "/", "")
	req.Header.Set("X-Request-Id", "{evil}")
	require.Len(t, r.do(req).header.Get("X-Request-Id"), 36)
}

func TestAuthentication(t *testing.T) {
	r := newRig(t)
	r.create("s")
	for _, path := range []string{"/v1/sessions", "/v1/sessions/s", "/v1/capabilities", "/v1/openapi.json", "/nowhere", "//healthz"} {
		for _, token := range []string{"", "wrong", ours + "x", strings.ToUpper(ours)} {
			a := r.as(token).do(r.as(token).request(http.MethodGet, path, ""))
			require.Equal(t, http.StatusUnauthorized, a.status, path)
			require.Equal(t, "unauthorized", a.code())
			require.Equal(t, `Bearer realm="keel"`, a.header.Get("WWW-Authenticate"))
		}
	}
	for _, header := range []string{"Basic " + ours, "Bearer", "bearer"} {
		req := r.request(http.MethodGet, "/v1/sessions", "")
		req.Header.Set("Authorization", header)
		require.Equal(t, http.StatusUnauthorized, r.do(req).status, header)
	}
	req := r.request(http.MethodGet, "/v1/sessions", "")
	req.Header.Set("Authorization", "bearer  "+ours)
	require.Equal(t, http.StatusOK, r.do(req).status)
	for _, path := range []string{"/", "/healthz", "/readyz"} {
		require.Equal(t, http.StatusOK, r.as("").get(path).status)
	}
	off := newRig(t, func(c *httpapi.Config, _ *sse.Config) { c.Auth = httpapi.Open{} })
	require.Equal(t, http.StatusCreated, off.as("").post("/v1/sessions", `{}`).status)
}

func TestHosts(t *testing.T) {
	r := newRig(t, func(c *httpapi.Config, _ *sse.Config) {
		c.AllowedHosts = []string{"keel.example", "other.example:8443"}
	})
	ask := func(r *rig, host, path string) int {
		req := r.request(http.MethodGet, path, "")
		req.Host = host
		return r.do(req).status
	}
	for _, host := range []string{"localhost", "localhost:1", "LOCALHOST:1", "a.localhost", "127.0.0.1", "127.9.9.9:80", "[::1]", "[::1]:80", "keel.example", "Keel.Example.:80", "other.example"} {
		require.Equal(t, http.StatusOK, ask(r, host, "/v1/sessions"), host)
	}
	for _, host := range []string{"evil.example", "evil.example:80", "localhost.evil.example", "10.0.0.1", "keel.example.evil", "notlocalhost", "[2001:db8::1]:80"} {
		require.Equal(t, http.StatusForbidden, ask(r, host, "/v1/sessions"), host)
		require.Equal(t, http.StatusForbidden, ask(r, host, "/"), host)
		require.Equal(t, http.StatusOK, ask(r, host, "/healthz"), "probes come under any name")
		require.Equal(t, http.StatusOK, ask(r, host, "/readyz"))
	}
	open := newRig(t, func(c *httpapi.Config, _ *sse.Config) { c.AllowedHosts = []string{"*"} })
	require.Equal(t, http.StatusOK, ask(open, "evil.example", "/v1/sessions"))
}

func TestCrossOriginWrites(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		name, value string
		status      int
	}{
		{"Sec-Fetch-Site", "cross-site", http.StatusForbidden}, {"Sec-Fetch-Site", "same-site", http.StatusForbidden},
		{"Origin", "https://evil.example", http.StatusForbidden}, {"Origin", "null", http.StatusForbidden},
		{"Sec-Fetch-Site", "same-origin", http.StatusCreated}, {"Sec-Fetch-Site", "none", http.StatusCreated}, {"Origin", r.url, http.StatusCreated},
	} {
		req := r.request(http.MethodPost, "/v1/sessions", `{}`)
		req.Header.Set(c.name, c.value)
		a := r.do(req)
		require.Equal(t, c.status, a.status, c.name+c.value)
		if c.status == http.StatusForbidden {
			require.Equal(t, "cross_origin", a.code())
		}
	}
}

func TestMeta(t *testing.T) {
	r := newRig(t)
	a := r.get("/v1/capabilities")
	require.JSONEq(t, `{"apiVersion":"v1","serviceVersion":"keel-agent/test",
		"features":{"decisions":false,"external":false,"hooks":false,"partials":true,"plugins":false,"sessions.cancel":true,"sessions.list":true,
			"settings.models":true,"settings.secrets":true,"subagents":false,"triggers":false},
		"limits":{"sessionsPageDefault":50,"sessionsPageMax":200,"subagentsPageMax":200},"hooks":[]}`, a.raw)
	for feature, path := range map[string]string{
		"decisions": "/v1/decisions", "external": "/v1/external/sessions/s/events", "hooks": "/v1/hooks", "plugins": "/v1/plugins",
		"subagents": "/v1/sessions/s/subagents", "triggers": "/v1/triggers", "settings.models": "/v1/settings/models",
		"settings.secrets": "/v1/settings/secrets", "sessions.list": "/v1/sessions",
	} {
		there := r.do(r.request(http.MethodGet, path, "")).status != http.StatusNotFound
		require.Equal(t, there, a.at("features", feature), feature)
	}
	require.Contains(t, r.get("/").raw, r.url+"/v1/sessions")
	require.Equal(t, http.StatusOK, r.get("/healthz").status)
	require.Equal(t, http.StatusOK, r.get("/readyz").status)
	r.stop()
	a = r.get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Equal(t, "draining", a.code())
	require.NotEmpty(t, a.header.Get("Retry-After"))
	require.Equal(t, http.StatusOK, r.get("/healthz").status)
	r.input(r.create("late"), "k", "inputs are still taken")
}
