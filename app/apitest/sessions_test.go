package apitest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
)

func TestSessionLifecycle(t *testing.T) {
	r := newRig(t)
	a := r.post("/v1/sessions", `{"id":"s1","title":"T <&>","model":"m","system":"be kind","tools":["time"],"metadata":{"k":"v","n":1.0},"more":1}`)
	require.Equal(t, http.StatusCreated, a.status, a.raw)
	require.JSONEq(t, `{"id":"s1","title":"T <&>","state":"open","stateOwner":"native","model":"m","system":"be kind","tools":["time"],
		"metadata":{"k":"v","n":1.0},"headSeq":0,"activeRun":null,"usage":{"input":0,"output":0},"createdAt":"`+a.text("createdAt")+`"}`, a.raw)
	require.Contains(t, a.raw, `"metadata":{"k":"v","n":1.0}`, "numbers keep their spelling")
	require.Contains(t, a.raw, `T <&>`, "nothing is escaped needlessly")

	require.Equal(t, a.body, r.get("/v1/sessions/s1").body)

	a = r.call(http.MethodPatch, "/v1/sessions/s1", `{"title":null,"metadata":{"x":[1]}}`)
	require.Equal(t, http.StatusOK, a.status, a.raw)
	require.Equal(t, "", a.text("title"))
	require.Equal(t, "m", a.text("model"))
	require.Equal(t, map[string]any{"x": []any{1.0}}, a.at("metadata"))

	run := r.input("/v1/sessions/s1", "R", "hi").text("run", "id")
	a = r.get("/v1/sessions/s1")
	require.Equal(t, run, a.text("activeRun", "id"))
	require.Equal(t, "pending", a.text("activeRun", "status"))
	require.Equal(t, 1, a.number("headSeq"))

	a = r.post("/v1/sessions/s1/close", "")
	require.Equal(t, "closing", a.text("state"), "a run is active")
	require.Equal(t, true, a.at("activeRun", "cancelRequested"))
	require.Equal(t, "session_closed", r.post("/v1/sessions/s1/input", `{"text":"late"}`).code())
	r.worker("p").claim().settle(domain.Success)
	require.Equal(t, "closed", r.post("/v1/sessions/s1/close", "{}").text("state"))
	a = r.call(http.MethodPatch, "/v1/sessions/s1", `{"title":"x"}`)
	require.Equal(t, "session_closed", a.code())
	require.Equal(t, http.StatusOK, r.call(http.MethodPatch, "/v1/sessions/s1", `{}`).status, "nothing to change")
}

// What PATCH cannot change it refuses, whatever the value, and changes nothing else either.
func TestPatchRefusesWhatIsFixed(t *testing.T) {
	r := newRig(t)
	s := r.create("s")
	before := r.get(s)
	for name := range before.body {
		if name == "title" || name == "model" || name == "metadata" {
			continue
		}
		for _, value := range []string{"null", `"x"`, `[]`} {
			a := r.call(http.MethodPatch, s, `{"title":"new","`+name+`":`+value+`}`)
			a.refused(t, "invalid_request", name)
			require.Equal(t, name, a.text("field"))
			require.Contains(t, a.text("detail"), "title, model and metadata", name)
		}
	}
	require.Equal(t, "parent", r.call(http.MethodPatch, s, `{"parent":null}`).text("field"))
	require.Equal(t, before.body, r.get(s).body)
}

func TestCreateIsIdempotent(t *testing.T) {
	r := newRig(t)
	first := r.post("/v1/sessions", `{"id":"s1","title":"a","metadata":{"a":1,"b":2}}`)
	require.Equal(t, http.StatusCreated, first.status)
	again := r.post("/v1/sessions", `{"metadata":{"b":2.0,"a":1},"title":"\u0061","id":"s1"}`)
	require.Equal(t, http.StatusOK, again.status, again.raw)
	require.Equal(t, first.body, again.body)

	require.Equal(t, "idempotency_conflict", r.post("/v1/sessions", `{"id":"s1","title":"b"}`).code())
	require.Equal(t, http.StatusCreated, r.as(theirs).post("/v1/sessions", `{"id":"s1","title":"b"}`).status)

	minted := r.post("/v1/sessions", `{"title":"a","id":null}`)
	require.Equal(t, http.StatusCreated, minted.status)
	require.Len(t, minted.text("id"), 36)
	require.NotEqual(t, minted.text("id"), r.post("/v1/sessions", ``).text("id"))
}

func TestCreateRefuses(t *testing.T) {
	r := newRig(t)
	for body, want := range map[string]string{
		`{"title":7}`:                       "invalid_request title",
		`{"title":"a\u0000"}`:               "invalid_request title",
		`{"model":{}}`:                      "invalid_request model",
		`{"system":[]}`:                     "invalid_request system",
		`{"tools":"time"}`:                  "invalid_request tools",
		`{"tools":[1]}`:                     "invalid_request tools",
		`{"tools":[null]}`:                  "invalid_request tools",
		`{"tools":[""]}`:                    "invalid_request tools",
		`{"metadata":[]}`:                   "invalid_request metadata",
		`{"metadata":{"a\u0000":1}}`:        "invalid_request metadata",
		`{"metadata":{"a":[{"\u0000":1}]}}`: "invalid_request metadata",
		`{"stateOwner":"me"}`:               "invalid_request stateOwner",
		`{"id":""}`:                         "invalid_request id",
		`{"id":"a/b"}`:                      "invalid_request id",
		`{"id":".."}`:                       "invalid_request id",
		`{"id":"a "}`:                       "invalid_request id",
		`{"id":"a\u0000"}`:                  "invalid_request id",
		`{"id":7}`:                          "invalid_request id",
		`{"id":"` + strings.Repeat("x", 201) + `"}`: "invalid_request id",
		`{"id":"s","id":"s"}`:                       "invalid_json ",
		`[]`:                                        "invalid_json ",
		`{"id":"s"} {}`:                             "invalid_json ",
		`{"id":"s"`:                                 "invalid_json ",
	} {
		a := r.post("/v1/sessions", body)
		require.Equal(t, http.StatusBadRequest, a.status, body)
		require.Equal(t, want, a.code()+" "+a.text("field"), body)
	}
	require.Equal(t, http.StatusCreated, r.post("/v1/sessions", `{"metadata":{"a":"\u0000","\\u0000":1}}`).status, "legal in values")
	require.Empty(t, r.as(theirs).get("/v1/sessions").items())
	require.Len(t, r.get("/v1/sessions").items(), 1)
}

func TestExternalSession(t *testing.T) {
	r := newRig(t)
	a := r.post("/v1/sessions", `{"id":"x","stateOwner":"external"}`)
	require.Equal(t, "external", a.text("stateOwner"))
	for _, path := range []string{"/input", "/run", "/compact"} {
		a := r.post("/v1/sessions/x"+path, `{"text":"hi"}`)
		require.Equal(t, http.StatusConflict, a.status)
		require.Equal(t, "external_session", a.code())
	}
	require.Empty(t, r.get("/v1/sessions/x/runs").items())
}

func TestListSessionsToTheEnd(t *testing.T) {
	r := newRig(t)
	const n = 23
	for i := range n {
		a := r.post("/v1/sessions", fmt.Sprintf(`{"id":"s%02d","metadata":{"half":"%d"}}`, i, i%2))
		require.Equal(t, http.StatusCreated, a.status)
	}
	r.post("/v1/sessions/s03/close", "")
	r.input("/v1/sessions/s04", "k", "hi")
	require.Equal(t, http.StatusCreated, r.as(theirs).post("/v1/sessions", `{"id":"foreign"}`).status)

	walk := func(query string) (got []string, pages int) {
		for cursor := ""; ; pages++ {
			a := r.get("/v1/sessions?" + query + cursor)
			require.Equal(t, http.StatusOK, a.status, a.raw)
			for _, s := range a.items() {
				require.NotContains(t, s, "usage")
				require.Equal(t, s["id"] == "s04", s["activeRun"] != nil)
				got = append(got, s["id"].(string))
			}
			next := a.text("nextCursor")
			if next == "" {
				return got, pages + 1
			}
			cursor = "&cursor=" + next
		}
	}
	all, pages := walk("limit=5")
	require.Len(t, all, n)
	require.Equal(t, 5, pages)
	require.Equal(t, "s22", all[0], "newest first")
	require.Equal(t, "s00", all[n-1])

	odd, _ := walk("limit=4&metadata[half]=1")
	require.Len(t, odd, 11)
	closed, _ := walk("state=closed")
	require.Equal(t, []string{"s03"}, closed)
	none, _ := walk("parent=s01")
	require.Empty(t, none)
	exact, pages := walk("limit=23")
	require.Equal(t, all, exact)
	require.Equal(t, 1, pages, "a full last page has no next one")
	clamped := r.do(r.request(http.MethodGet, "/v1/sessions?limit=99999999999999999999", ""))
	require.Len(t, clamped.items(), n)

	for _, query := range []string{"limit=0", "limit=-1", "limit=x", "limit=", "limit=1.5", "state=gone", "parent=%00", "metadata[a]=%00", "metadata[%ff]=a", "cursor=x%zz", "state=", "parent="} {
		a := r.get("/v1/sessions?" + query)
		require.Equal(t, "invalid_request", a.code(), query)
	}
	next := r.get("/v1/sessions?limit=1").text("nextCursor")
	for _, cursor := range []string{"garbage", "e30", next + "A", next[:len(next)-2], "eyJ2IjoxLCJsIjoicnVucyIsInQiOjEsImlkIjoicyJ9"} {
		a := r.get("/v1/sessions?cursor=" + cursor)
		require.Equal(t, "invalid_cursor", a.code(), cursor)
		require.Equal(t, http.StatusBadRequest, a.status)
	}
}
