package openaitest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
)

// good is a request with a bit of everything.
const good = `{"model":"m","messages":[{"role":"system","content":"Be brief."},` +
	`{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + wiretest.PNG + `"}}]},` +
	`{"role":"assistant","content":null,"tool_calls":[{"id":"k1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"k2","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},` +
	`{"role":"tool","content":"x","tool_call_id":"k1"},{"role":"tool","content":"y","tool_call_id":"k2"},` +
	`{"role":"assistant","content":"said"},{"role":"user","content":"go on"}],` +
	`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],` +
	`"temperature":1,"max_tokens":9,"reasoning_effort":"low","stream":true,"stream_options":{"include_usage":true}}`

// TestCheck breaks each rule of the wire, one at a time.
func TestCheck(t *testing.T) {
	require.NoError(t, openaitest.Check([]byte(good)))
	require.NoError(t, openaitest.Check([]byte(strings.Replace(good, `,{"role":"assistant","content":"said"},{"role":"user","content":"go on"}`, ``, 1))), "results have the last word")
	require.NoError(t, openaitest.Check([]byte(strings.Replace(good, `"content":null`, `"content":"b"`, 1))))
	require.NoError(t, openaitest.Check([]byte(strings.Replace(good, `,{"role":"assistant","content":"said"}`, ``, 1))), "the user speaks behind results")
	const first, second = `{"role":"tool","content":"x","tool_call_id":"k1"},`, `{"role":"tool","content":"y","tool_call_id":"k2"},`
	for _, c := range []struct{ old, broken, want string }{
		{`"model":"m"`, `"model":""`, "model"},
		{`"stream":true`, `"stream":true,"surprise":1`, "surprise"},
		{`"role":"system"`, `"role":"system","name":"x"`, "name"},
		{`"type":"text","text":"a"`, `"type":"text","text":"a","surprise":1`, "content"},
		{`"temperature":1`, `"temperature":2.5`, "temperature"},
		{`"max_tokens":9`, `"max_tokens":0`, "at least 1"},
		{`"max_tokens":9`, `"max_completion_tokens":0`, "at least 1"},
		{`"max_tokens":9`, `"max_tokens":9,"max_completion_tokens":9`, "both"},
		{`"reasoning_effort":"low"`, `"reasoning_effort":""`, "reasoning_effort"},
		{`"stream":true,`, ``, "stream_options"},
		{`"type":"function","function":{"name":"f","parameters"`, `"type":"tool","function":{"name":"f","parameters"`, "tools[0].type"},
		{`"name":"f","parameters"`, `"name":"f g","parameters"`, "tools[0].function.name"},
		{`"name":"f","parameters"`, `"name":"` + strings.Repeat("x", 65) + `","parameters"`, "tools[0].function.name"},
		{`"tools":[`, `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},`, "not unique"},
		{`"tools":[`, `"tools":[` + strings.Repeat(`{},`, 128), "array too long"},
		{`"name":"f","parameters"`, `"name":"f","description":"` + strings.Repeat("é", 1025) + `","parameters"`, "string too long"},
		{`"parameters":{"type":"object"}`, `"parameters":{}`, "schema"},
		{`"parameters":{"type":"object"}`, `"parameters":null`, "schema"},
		{good[strings.Index(good, `{"role":"system"`):strings.Index(good, `],"tools"`)], ``, "last one must be"},
		{`{"role":"user","content":[`, `{"role":"system","content":"again"},{"role":"user","content":[`, "not allowed here"},
		{`"Be brief."`, `"Be\u0000brief."`, "U+0000"},
		{`"Be brief."`, `" "`, "not blank"},
		{`"Be brief."`, `["Be brief."]`, "must be a text"},
		{`"content":"Be brief."`, `"content":"Be brief.","tool_calls":[]`, "neither calls"},
		{`{"role":"user","content":[`, `{"role":"assistant","content":"a"},{"role":"user","content":[`, "alternate"},
		{`{"role":"user","content":[`, `{"role":"user","content":"a"},{"role":"user","content":[`, "alternate"},
		{`{"role":"assistant","content":"said"}`, `{"role":"assistant","content":"said"},{"role":"assistant","content":"said"}`, "alternate"},
		{`"role":"user","content":"go on"`, `"role":"developer","content":"go on"`, "unknown"},
		{`{"role":"user","content":"go on"}`, `{"role":"user","content":"go on"},{"role":"assistant","content":"x"}`, "last one must be"},
		{`"content":"go on"`, `"content":"\n"`, "not blank"},
		{`"content":"go on"`, `"content":null`, "empty"},
		{`"content":"go on"`, `"content":[]`, "empty"},
		{`"content":"go on"`, `"content":[{"type":"text","text":" "}]`, "content[0]"},
		{`"content":"go on"`, `"content":"go on","tool_call_id":"k1"`, "tool_call_id"},
		{`"content":"go on"`, `"content":"go on","tool_calls":[]`, "only of assistant"},
		{`image/png`, `image/bmp`, "content[1]"},
		{`base64,` + wiretest.PNG, `base64,A`, "content[1]"},
		{`data:image/png;base64,` + wiretest.PNG, `https://example.com/x.png`, "content[1]"},
		{`"type":"image_url","image_url"`, `"type":"text","text":"x","image_url"`, "content[1]"},
		{`"content":"said"`, `"content":null`, "must be a text"},
		{`"content":"said"`, `"content":""`, "not blank"},
		{`"content":"said"`, `"content":"said","tool_calls":[]`, "empty array"},
		{`"content":"said"`, `"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + wiretest.PNG + `"}}]`, "must be a text"},
		{`"content":null`, `"content":" "`, "not blank"},
		{`"id":"k2","type":"function"`, `"id":"k2","type":"custom"`, "tool_calls[1].type"},
		{`"id":"k1"`, `"id":"k:1"`, "tool_calls[0].id"},
		{`"id":"k1"`, `"id":""`, "tool_calls[0].id"},
		{`"id":"k1"`, `"id":"` + strings.Repeat("k", 41) + `"`, "40 characters"},
		{`"id":"k2"`, `"id":"k1"`, "unique"},
		{`"name":"f","arguments":"{}"`, `"name":"f.g","arguments":"{}"`, "function.name"},
		{`"arguments":"{}"`, `"arguments":""`, "no object"},
		{`"arguments":"{}"`, `"arguments":"[]"`, "no object"},
		{`"arguments":"{}"`, `"arguments":"{\"a\":\"\\u0000\"}"`, "U+0000"},
		{first, ``, "is due"},
		{second, ``, "none for k2"},
		{first + second, ``, "none for k1"},
		{first + second, second + first, "is due"},
		{second, second + second, "must be a response"},
		{first, `{"role":"user","content":"x"},` + first, "none for k1"},
		{`{"role":"user","content":"go on"}`, first + `{"role":"user","content":"go on"}`, "must be a response"},
		{`"content":"x"`, `"content":""`, "not blank"},
		{`"content":"x"`, `"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + wiretest.PNG + `"}}]`, "must be a text"},
		{`"tool_call_id":"k2"`, `"tool_call_id":"k2","tool_calls":[]`, "only of assistant"},
	} {
		require.Contains(t, good, c.old)
		require.ErrorContains(t, openaitest.Check([]byte(strings.Replace(good, c.old, c.broken, 1))), c.want, c.broken)
	}
	require.ErrorContains(t, openaitest.Check([]byte(strings.Replace(good, "go on", "\xff", 1))), "UTF-8")
}

// TestServerChecks: the server reads each request strictly.
func TestServerChecks(t *testing.T) {
	s := openaitest.StartLenient(t)
	s.Push(openaitest.Stream(openaitest.Text("x"), openaitest.Finish("stop")))
	for body, status := range map[string]int{`{}`: http.StatusBadRequest, good: http.StatusOK} {
		resp, err := http.Post(s.URL()+"/chat/completions", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, status, resp.StatusCode)
	}
	require.Len(t, s.Refused(), 1)
	require.ErrorContains(t, s.Refused()[0], "model")
}
