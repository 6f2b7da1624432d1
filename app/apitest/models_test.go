package apitest

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
)

const modelsPath = "/v1/settings/models"

// match is call with an If-Match header.
func (c *client) match(tag, path, body string) answer {
	c.t.Helper()
	req := c.request(http.MethodPut, path, body)
	req.Header.Set("If-Match", tag)
	a := c.do(req)
	req = c.request(http.MethodPut, path, body)
	req.Header.Set("If-Match", tag)
	c.schema.check(c.t, req, a)
	return a
}

func TestModelSettings(t *testing.T) {
	r := newRig(t)
	a := r.get(modelsPath)
	require.Equal(t, http.StatusOK, a.status)
	require.JSONEq(t, `{"revision":0,"document":{},"defaults":{"model":""},"models":[],"providers":["fake"]}`, a.raw)
	require.Equal(t, `"0"`, a.header.Get("ETag"))

	document := `{"models":[{"id":"a","provider":"fake","model":"x","contextWindow":1000,"maxOutput":100,"modalities":["text"],"thinking":["low"],
		"thinkingValues":{"low":"minimal"},"prices":{"currency":"USD","input":0.250,"output":"2"}},{"id":"b","enabled":false,"thinking":[]}],
		"defaults":{"model":"a","thinking":"low","temperature":0.5}}`
	a = r.call(http.MethodPut, modelsPath, document)
	require.Equal(t, http.StatusOK, a.status, a.raw)
	require.JSONEq(t, `{"revision":1,"document":`+document+`,"defaults":{"model":"a","thinking":"low","temperature":0.5},"models":[
		{"id":"a","provider":"fake","model":"x","enabled":true,"contextWindow":1000,"maxOutput":100,"modalities":["text"],"thinking":["low"],
		"thinkingValues":{"low":"minimal"},"prices":{"currency":"USD","input":"0.25","output":"2"},"source":"tenant"},
		{"id":"b","provider":"fake","model":"b","enabled":false,"thinking":[],"source":"tenant"}],"providers":["fake"]}`, a.raw)
	require.Contains(t, a.raw, `"input":0.250`, "the document is as it was written")
	require.Equal(t, a.body, r.get(modelsPath).body)
	require.Equal(t, 0, r.as(theirs).get(modelsPath).number("revision"), "each tenant has its own")

	tag := a.header.Get("ETag")
	require.Equal(t, 1, r.call(http.MethodPut, modelsPath, document).number("revision"), "the same again")
	require.Equal(t, 2, r.match(tag, modelsPath, `{}`).number("revision"))
	a = r.match(tag, modelsPath, `{"defaults":{"model":"mine"}}`)
	require.Equal(t, http.StatusPreconditionFailed, a.status, a.raw)
	require.Equal(t, "revision_conflict", a.code())
	require.Equal(t, 3, r.match(`W/"2"`, modelsPath, document).number("revision"))
	require.Equal(t, 4, r.match("*", modelsPath, `{}`).number("revision"))
	for _, bad := range []string{"4", `"x"`, `"4", "5"`, `"-1"`} {
		a = r.match(bad, modelsPath, `{}`)
		require.Equal(t, []string{"invalid_request", "If-Match"}, []string{a.code(), a.text("field")}, bad)
	}
}

func TestModelSettingsRefuse(t *testing.T) {
	r := newRig(t)
	for body, want := range map[string][2]string{
		`{"models":[{"id":"a","prize":{}}]}`:                       {"invalid_request", "models/0/prize"},
		`{"models":[{"id":"a","provider":"faek"}]}`:                {"invalid_request", "models/0/provider"},
		`{"models":[{"id":"a"}],"defaults":{"model":"b"}}`:         {"unknown_model", "defaults/model"},
		`{"models":[{"id":"a","thinking":"low","thinking":null}]}`: {"invalid_json", ""},
		`[]`: {"invalid_json", ""},
	} {
		a := r.call(http.MethodPut, modelsPath, body)
		require.Equal(t, http.StatusBadRequest, a.status, a.raw)
		require.Equal(t, want, [2]string{a.code(), a.text("field")}, a.raw)
	}
	require.Equal(t, 0, r.get(modelsPath).number("revision"))
	require.Equal(t, "method_not_allowed", r.post(modelsPath, `{}`).code())
	require.Equal(t, "unauthorized", r.as("").get(modelsPath).code())
}

func TestUnknownModelsAtTheEdge(t *testing.T) {
	r := newRig(t)
	require.Equal(t, http.StatusOK, r.call(http.MethodPut, modelsPath, `{"models":[{"id":"haiku"},{"id":"sonnet","thinking":["low"]}]}`).status)
	a := r.post("/v1/sessions", `{"id":"s1","model":"sonet"}`)
	require.Equal(t, http.StatusBadRequest, a.status)
	require.Equal(t, []string{"unknown_model", "model", `there is no model "sonet"; did you mean sonnet?`}, []string{a.code(), a.text("field"), a.text("detail")})
	s := r.create("s1")
	a = r.post(s+"/input", `{"text":"hi","selection":{"model":"haikou"}}`)
	require.Equal(t, []string{"unknown_model", "selection/model"}, []string{a.code(), a.text("field")})
	require.Contains(t, a.text("detail"), "haiku")
	a = r.post(s+"/events", `{"kind":"user.message","payload":{"text":"hi","selection":{"model":"sonnet","thinking":"high"}}}`)
	require.Equal(t, []string{"invalid_request", "selection/thinking"}, []string{a.code(), a.text("field")})
	require.Contains(t, a.text("detail"), "it has low")
	a = r.call(http.MethodPatch, s, `{"model":"haikoo"}`)
	require.Equal(t, []string{"unknown_model", "model"}, []string{a.code(), a.text("field")})
	require.Equal(t, http.StatusCreated, r.as(theirs).post("/v1/sessions", `{"id":"s1","model":"sonet"}`).status, "the other tenant has no catalogue")
}

func TestCostsOfASession(t *testing.T) {
	r := newRig(t)
	s := r.create("s1")
	for i, cost := range []*domain.Cost{{Amount: "0.1", Currency: "USD"}, nil, {Amount: "0.25", Currency: "USD"}, {Amount: "3", Currency: "EUR"}} {
		key := string(rune('a' + i))
		r.input(s, key, "hi")
		w := r.worker(key).claim()
		seq := domain.Seq(r.get(s).number("headSeq"))
		w.commit(domain.Assistant{
			GenerationID: key, InputSeqs: []domain.Seq{seq}, StopReason: domain.StopEndTurn, Cost: cost,
			Content: []domain.Block{{Type: domain.TextBlock, Text: "ok"}}, Usage: &domain.Usage{Input: 10, Output: 1},
		})
		w.settle(domain.Success)
	}
	require.Equal(t, map[string]any{"input": 40.0, "output": 4.0, "costs": []any{
		map[string]any{"amount": "3", "currency": "EUR"}, map[string]any{"amount": "0.35", "currency": "USD"},
	}}, r.get(s).at("usage"))
	messages := r.get(s + "/messages").items()
	require.Equal(t, map[string]any{"amount": "0.1", "currency": "USD"}, messages[1]["cost"])
	require.NotContains(t, messages[3], "cost")
}
