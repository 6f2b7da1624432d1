package apitest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// operation is a method of a path of the OpenAPI document.
type operation struct {
	method, path string
	body         bool
	query        map[string]bool
}

// operations returns all that the API has.
func (r *rig) operations() (all []operation) {
	r.t.Helper()
	type parameter struct{ Name, In, Ref string }
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody *json.RawMessage `json:"requestBody"`
			Parameters  []struct {
				Name, In string
				Ref      string `json:"$ref"`
			}
		}
		Components struct{ Parameters map[string]parameter }
	}
	require.NoError(r.t, json.Unmarshal([]byte(r.get("/v1/openapi.json").raw), &doc))
	for path, methods := range doc.Paths {
		for method, o := range methods {
			op := operation{method: strings.ToUpper(method), path: path, body: o.RequestBody != nil, query: map[string]bool{}}
			for _, p := range o.Parameters {
				in := parameter{Name: p.Name, In: p.In}
				if p.Ref != "" {
					in = doc.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
				}
				op.query[in.Name] = in.In == "query"
			}
			all = append(all, op)
		}
	}
	return all
}

// at returns the path with id and name in it.
func (o operation) at(id string) string {
	return strings.NewReplacer("{id}", id, "{name}", "openai.api_key").Replace(o.path)
}

// refused wants the problem code, as a whole problem.
func (a answer) refused(t *testing.T, code, why string) {
	t.Helper()
	require.Equal(t, code, a.code(), "%s: %d %s", why, a.status, a.raw)
	require.Equal(t, a.status, a.number("status"), why)
	require.Equal(t, "application/problem+json", a.header.Get("Content-Type"), why)
	require.NotEmpty(t, a.text("detail"), why)
}

// Whatever is wrong with a request, each route says it with the same code.
func TestEveryRouteRefusesAlike(t *testing.T) {
	r := newRig(t)
	r.create("s")
	require.Equal(t, http.StatusCreated, r.as(theirs).post("/v1/sessions", `{"id":"foreign"}`).status)
	operations := r.operations()
	require.Greater(t, len(operations), 20)
	for _, o := range operations {
		name := o.method + " " + o.path
		send := func(path, contentType, body string) answer {
			req := r.request(o.method, path, body)
			if body != "" {
				req.Header.Set("Content-Type", contentType)
			}
			return r.do(req)
		}
		r.do(r.request("BREW", o.at("s"), "")).refused(t, "method_not_allowed", name)
		if o.body {
			send(o.at("s"), "text/plain", "{}").refused(t, "unsupported_media_type", name)
			send(o.at("s"), "application/json", "{}"+strings.Repeat(" ", 2<<20)).refused(t, "payload_too_large", name)
			for _, text := range []string{`{`, `[]`, `{"a":1,"a":2}`, `{"a":{"b":1,"b":2}}`, "{\"a\":\"\xff\"}", strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70)} {
				send(o.at("s"), "application/json", text).refused(t, "invalid_json", name+" "+text)
			}
		}
		if strings.Contains(o.path, "{id}") {
			for _, id := range []string{"missing", "foreign", "%00", "%ff", "%2e%2e", strings.Repeat("x", 300)} {
				send(o.at(id), "application/json", sample(o)).refused(t, "not_found", name+" "+id)
			}
		}
		for _, p := range []string{"cursor", "after"} {
			if o.query[p] {
				for _, bad := range []string{"-1", "x", "99999999999999999999", "%00", "eyJhIjoxfQ"} {
					send(o.at("s")+"?"+p+"="+bad, "", "").refused(t, "invalid_cursor", name+" "+bad)
				}
			}
		}
		if o.query["limit"] {
			for _, bad := range []string{"0", "-1", "x", ""} {
				send(o.at("s")+"?limit="+bad, "", "").refused(t, "invalid_request", name+" limit="+bad)
			}
		}
		r.do(r.request(o.method, o.at("s")+"?a=%zz", sample(o))).refused(t, "invalid_request", name)
	}
	require.Len(t, r.get("/v1/sessions").items(), 1, "nothing was made")
	require.Empty(t, r.get("/v1/sessions/s/events").items())
}

// sample is a body that the route would take.
func sample(o operation) string {
	switch {
	case !o.body:
		return ""
	case strings.HasSuffix(o.path, "/events"):
		return `{"kind":"user.message","payload":{"text":"x"}}`
	}
	return `{"text":"x"}`
}

// What is unknown is kept or ignored, never refused: the contract is additive.
func TestUnknownMembersAreTaken(t *testing.T) {
	r := newRig(t)
	require.Equal(t, http.StatusCreated, r.post("/v1/sessions", `{"id":"s","new":1}`).status)
	require.Equal(t, http.StatusOK, r.call(http.MethodPatch, "/v1/sessions/s", `{"title":"t","new":1}`).status)
	require.Equal(t, http.StatusCreated, r.post("/v1/sessions/s/input", `{"text":"x","new":1}`).status)
	require.Equal(t, http.StatusCreated, r.post("/v1/sessions/s/events", `{"kind":"user.message","payload":{"text":"x","new":1},"new":1}`).status)
	for _, path := range []string{"/run", "/cancel", "/compact", "/close"} {
		require.Less(t, r.post("/v1/sessions/s"+path, `{"new":1}`).status, http.StatusBadRequest, path)
	}
}

// A list that overlooked a misspelt filter would show what it was to leave out.
func TestListsRefuseUnknownParameters(t *testing.T) {
	r := newRig(t)
	s := r.create("s")
	for _, list := range []string{"/v1/sessions", s + "/events", s + "/messages", s + "/runs", "/v1/settings/secrets"} {
		for query, field := range map[string]string{
			"new=1": "new", "limit=1&limit=2": "limit", "Limit=1": "Limit", "sort=desc": "sort", "metdata[user]=u1": "metdata[user]",
			"metadata=u1": "metadata", "metadata[user=u1": "metadata[user", "metadata[user]=u1&metadata[user]=u2": "metadata[user]",
		} {
			a := r.get(list + "?" + query)
			a.refused(t, "invalid_request", list+" "+query)
			require.Equal(t, field, a.text("field"), list)
		}
	}
	require.Contains(t, r.get("/v1/sessions?metadata=u1").text("detail"), "state, parent, metadata[NAME], limit, cursor")
	r.get(s+"/runs?metadata[user]=u1").refused(t, "invalid_request", "a filter of another list")
	for _, list := range []string{"/v1/sessions", s + "/events", s + "/runs", "/v1/settings/secrets"} {
		r.get(list+"?order=desc").refused(t, "invalid_request", "messages alone have an order")
	}
}
