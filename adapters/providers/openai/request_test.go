package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// The blocks and messages of wiretest, in short.
var (
	text, kernelCall, pixels = wiretest.Text, wiretest.Call, wiretest.Image
	userOf, resultOf         = wiretest.User, wiretest.Result
)

// requestOf returns the request for req, which the strictest backend takes.
func requestOf(t *testing.T, req ports.ModelRequest) string {
	p, err := New(Config{BaseURL: "http://127.0.0.1:1"})
	require.NoError(t, err)
	body, err := wire.Encode(p.build(req))
	require.NoError(t, err)
	again, err := wire.Encode(p.build(req))
	require.NoError(t, err)
	require.Equal(t, string(body), string(again), "equal requests have equal bytes")
	require.NoError(t, openaitest.Check(body), "%s", body)
	return string(body)
}

func assistantOf(blocks ...domain.Block) domain.Message {
	return domain.Message{Role: domain.RoleAssistant, Content: blocks}
}

// wireMessages returns the messages of the request for messages, each as its JSON.
func wireMessages(t *testing.T, messages ...domain.Message) []string {
	var r struct {
		Messages []json.RawMessage `json:"messages"`
	}
	require.NoError(t, json.Unmarshal([]byte(requestOf(t, ports.ModelRequest{Model: "m", Messages: messages})), &r))
	var list []string
	for _, m := range r.Messages {
		list = append(list, string(m))
	}
	return list
}

func TestRequest(t *testing.T) {
	zero := 0.0
	got := requestOf(t, ports.ModelRequest{
		Model: "m", System: "Be <brief>.", Messages: []domain.Message{userOf(text("hi"))},
		Tools:   []ports.ToolSpec{{Name: "f", Description: "does f", Schema: `{"type":"object","properties":{"z":{},"a":{}}}`}, {Name: "g"}},
		Options: ports.Options{Temperature: &zero, MaxTokens: 9, Thinking: "low"},
	})
	require.Equal(t, `{"model":"m","messages":[{"role":"system","content":"Be <brief>."},{"role":"user","content":"hi"}],`+
		`"tools":[{"type":"function","function":{"name":"f","description":"does f","parameters":{"type":"object","properties":{"z":{},"a":{}}}}},`+
		`{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}],`+
		`"temperature":0,"max_tokens":9,"reasoning_effort":"low","stream":true,"stream_options":{"include_usage":true}}`, got)

	require.Equal(t, `{"model":"m","messages":[{"role":"user","content":"(continue)"}],"stream":true,"stream_options":{"include_usage":true}}`,
		requestOf(t, ports.ModelRequest{Model: "m", System: " \n"}))
}

func TestMessages(t *testing.T) {
	require.Equal(t, []string{
		`{"role":"user","content":"look"}`,
		`{"role":"assistant","content":"I read.","tool_calls":[{"id":"k1","type":"function","function":{"name":"f","arguments":"{\"n\":9007199254740993}"}},` +
			`{"id":"k2","type":"function","function":{"name":"f","arguments":"{\"malformed\":\"{\\\"a\\\":\"}"}}]}`,
		`{"role":"tool","content":"a\nb","tool_call_id":"k1"}`,
		`{"role":"tool","content":"not JSON","tool_call_id":"k2"}`,
		`{"role":"assistant","content":"Done."}`,
		`{"role":"user","content":"thanks"}`,
	}, wireMessages(t,
		userOf(text("look")),
		assistantOf(thinks("hm"), text("I read."), kernelCall("k1", `{"n":9007199254740993}`, ""), kernelCall("k2", "", `{"a":`), domain.Block{Type: "hologram"}),
		resultOf("k1", text("a"), text("b")), resultOf("k2", text("not JSON")), assistantOf(text("Done.")), userOf(text("thanks")),
	), "the kernel's ids are the wire's, thinking and unknown blocks stay away")
}

// TestBlankMessages: K09 as far as it is the request builder's.
func TestBlankMessages(t *testing.T) {
	require.Equal(t, []string{
		`{"role":"user","content":"a\n\nb"}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"k1","type":"function","function":{"name":"f","arguments":"{}"}}]}`,
		`{"role":"tool","content":"(no output)","tool_call_id":"k1"}`,
		`{"role":"user","content":"(empty message)"}`,
	}, wireMessages(t,
		userOf(text("a")), assistantOf(), assistantOf(text(" \n"), thinks("hm")), userOf(text(""), text("b")),
		assistantOf(text("\n\n"), kernelCall("k1", `{}`, "")), resultOf("k1", text(" ")), userOf(text("\n")),
	))
}

// TestTurns: the user has the first and the last word, and nobody speaks twice.
func TestTurns(t *testing.T) {
	require.Equal(t, []string{
		`{"role":"user","content":"(empty message)"}`,
		`{"role":"assistant","content":"a\n\nb","tool_calls":[{"id":"k1","type":"function","function":{"name":"f","arguments":"{}"}}]}`,
		`{"role":"tool","content":"r","tool_call_id":"k1"}`,
		`{"role":"assistant","content":"c"}`,
		`{"role":"user","content":"(continue)"}`,
	}, wireMessages(t, assistantOf(text("a")), assistantOf(text("b"), kernelCall("k1", "{}", "")), resultOf("k1", text("r")), assistantOf(text("c"))))
}

// TestSchemas: a schema that says nothing is one of an object.
func TestSchemas(t *testing.T) {
	for schema, want := range map[string]string{
		`{}`: `{"type":"object","properties":{}}`, `{"properties":{"a":{}}}`: `{"type":"object","properties":{"a":{}}}`, `[]`: `{"type":"object","properties":{}}`,
	} {
		require.Contains(t, requestOf(t, ports.ModelRequest{Model: "m", Tools: []ports.ToolSpec{{Name: "f", Schema: schema}}}), `"parameters":`+want)
	}
}

func TestImages(t *testing.T) {
	require.Equal(t, []string{
		`{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + wiretest.PNG + `"}}]}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"k1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"k2","type":"function","function":{"name":"f","arguments":"{}"}}]}`,
		`{"role":"tool","content":"(an image, shown below)","tool_call_id":"k1"}`,
		`{"role":"tool","content":"two","tool_call_id":"k2"}`,
		`{"role":"user","content":[{"type":"text","text":"Image from a result of f:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + wiretest.PNG + `"}},{"type":"text","text":"and now"}]}`,
	}, wireMessages(t,
		userOf(text("see"), pixels("image/png", wiretest.PNG)), assistantOf(kernelCall("k1", "{}", ""), kernelCall("k2", "{}", "")),
		resultOf("k1", pixels("image/PNG", wiretest.PNG)), resultOf("k2", text("two")), userOf(text("and now")),
	))
	require.Equal(t, []string{
		`{"role":"user","content":"(an image of the type image/bmp, which cannot be shown)\n\n(an image whose data is damaged)\n\n(an image whose data is damaged)"}`,
	}, wireMessages(t, userOf(pixels("image/bmp", "AAAA"), pixels("image/png", "A\x00"), pixels("image/png", "\n"))), "one that the backend refuses would be refused for ever")
}

// TestCleanRequests: K26, and bytes that are no text at all.
func TestCleanRequests(t *testing.T) {
	got := wireMessages(t,
		userOf(text("d\x00i\x00r"), text(`spelled \u0000`), text("\x01\x1f\x7f\ufffe\u2028"), text("\xff")),
		assistantOf(kernelCall("k1", `{"real":"\u0000","spelled":"\\u0000","both":"\\\u0000"}`, ""), kernelCall("k2", "", "{\x00")),
		resultOf("k1", text("r\x00")), resultOf("k2", text("r")),
	)
	require.Equal(t, []string{
		`{"role":"user","content":"d�i�r\n\nspelled \\u0000\n\n\u0001\u001f` + "\x7f\ufffe\u2028" + `\n\n�"}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"k1","type":"function","function":{"name":"f","arguments":"{\"real\":\"\\ufffd\",\"spelled\":\"\\\\u0000\",\"both\":\"\\\\\\ufffd\"}"}},` +
			`{"id":"k2","type":"function","function":{"name":"f","arguments":"{\"malformed\":\"{�\"}"}}]}`,
		`{"role":"tool","content":"r�","tool_call_id":"k1"}`,
		`{"role":"tool","content":"r","tool_call_id":"k2"}`,
	}, got)
}

// TestNamesOnTheWire: what a model made up, or another wire allows, must not make a session unusable here.
func TestNamesOnTheWire(t *testing.T) {
	made := kernelCall("k1", "{}", "")
	made.Name = "functions.read"
	name := wire.ToolName("functions.read", 64)
	require.Regexp(t, `^[a-zA-Z0-9_-]{1,64}$`, name)
	body := requestOf(t, ports.ModelRequest{
		Model: "m", Messages: []domain.Message{assistantOf(made), resultOf("k1", text("x"))}, Tools: []ports.ToolSpec{{Name: "functions.read"}},
	})
	require.NotContains(t, body, "functions.read")
	require.Equal(t, 2, strings.Count(body, `"name":"`+name+`"`))
}

func TestWireID(t *testing.T) {
	require.Equal(t, "019a2f7e-1111-7abc-8def-0123456789ab", wireID("019a2f7e-1111-7abc-8def-0123456789ab"))
	long := wireID(strings.Repeat("x", 200))
	require.Len(t, long, 37)
	require.Equal(t, long, wireID(strings.Repeat("x", 200)))
	require.NotEqual(t, long, wireID(strings.Repeat("x", 199)))
	require.Regexp(t, `^call_[0-9a-f]{32}$`, wireID("functions.read:0"))
}

// TestAnyHistory: what the kernel may present becomes a request that the strictest backend takes, whatever backends wrote
// it and at whatever point it is asked.
func TestAnyHistory(t *testing.T) {
	wiretest.TestAnyHistory(t, wiretest.Histories{
		Provider: defaultName, Models: []string{openaitest.Model},
		Check: func(t *testing.T, req ports.ModelRequest) { requestOf(t, req) },
	})
}
