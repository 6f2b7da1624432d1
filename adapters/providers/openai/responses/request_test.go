package responses

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai"
	"github.com/keel-agent/keel/adapters/providers/openai/responses/responsestest"
	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

const model = responsestest.Model

// The blocks and messages of wiretest, in short.
var (
	text, thinks, kernelCall, pixels = wiretest.Text, wiretest.Thinking, wiretest.Call, wiretest.Image
	userOf, resultOf                 = wiretest.User, wiretest.Result
)

// requestOf returns the request for req, which the strict backend takes.
func requestOf(t testing.TB, req ports.ModelRequest) string {
	t.Helper()
	p, err := New(openai.Config{BaseURL: "http://127.0.0.1:1"})
	require.NoError(t, err)
	var bodies [2]string
	for i := range bodies {
		r, err := p.build(req, thoughts{})
		require.NoError(t, err)
		body, err := wire.Encode(r)
		require.NoError(t, err)
		bodies[i] = string(body)
	}
	require.Equal(t, bodies[0], bodies[1], "equal requests have equal bytes")
	require.NoError(t, responsestest.Check([]byte(bodies[0])), "%s", bodies[0])
	return bodies[0]
}

// itemsOf returns the items of the request for messages.
func itemsOf(t testing.TB, messages ...domain.Message) (list []string) {
	t.Helper()
	body := requestOf(t, ports.ModelRequest{Model: model, Messages: messages})
	for _, raw := range wire.Array(wire.Object(wire.Raw(body))["input"]) {
		list = append(list, string(raw))
	}
	return list
}

func assistantOf(blocks ...domain.Block) domain.Message {
	return domain.Message{Role: domain.RoleAssistant, Provider: DefaultName, Model: model, Content: blocks}
}

// reasoned is a reasoning item that a model has made, as it stands in the ledger.
func reasoned(model, id string, summary ...string) domain.Block {
	raw := wire.Raw(`{"type":"reasoning","id":"` + id + `","status":null,"summary":` + responsestest.Summary(summary...) +
		`,"encrypted_content":"` + responsestest.Sign(model, id, summary...) + `"}`)
	return thinks(strings.Join(summary, "\n\n"), signature(wire.Members[outputItem](raw)))
}

func TestRequest(t *testing.T) {
	warm := 0.5
	require.Equal(t, `{"model":"m","instructions":"Be brief.","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}],`+
		`"tools":[{"type":"function","name":"f","description":"does","parameters":{"type":"object","properties":{"b":{},"a":{}}},"strict":false}],`+
		`"temperature":0.5,"max_output_tokens":100,"include":["reasoning.encrypted_content"],"store":false,"stream":true}`,
		requestOf(t, ports.ModelRequest{
			Model: "m", System: "Be brief.", Messages: []domain.Message{userOf(text("hi"))},
			Tools:   []ports.ToolSpec{{Name: "f", Description: "does", Schema: `{"type":"object","properties":{"b":{},"a":{}}}`}},
			Options: ports.Options{Temperature: &warm, MaxTokens: 100},
		}))
	require.Equal(t, `{"model":"m","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"(empty message)"}]}],`+
		`"tools":[{"type":"function","name":"g","parameters":{"type":"object","properties":{}},"strict":false}],`+
		`"max_output_tokens":16,"include":["reasoning.encrypted_content"],"store":false,"stream":true}`,
		requestOf(t, ports.ModelRequest{Model: "m", System: " \n", Tools: []ports.ToolSpec{{Name: "g"}}, Options: ports.Options{MaxTokens: 1}}),
		"the least that the wire takes")
}

func TestThinkingOption(t *testing.T) {
	warm := 0.7
	asked := func(level string) string {
		body := requestOf(t, ports.ModelRequest{Model: "m", Options: ports.Options{Thinking: level, Temperature: &warm}})
		_, tail, _ := strings.Cut(body, `"}]}],`)
		head, _, _ := strings.Cut(tail, `,"include"`)
		return head
	}
	for level, want := range map[string]string{
		"":        `"temperature":0.7`,
		"none":    `"temperature":0.7,"reasoning":{"effort":"none"}`,
		"off":     `"temperature":0.7,"reasoning":{"effort":"none"}`,
		"minimal": `"reasoning":{"effort":"minimal","summary":"auto"}`,
		"Medium":  `"reasoning":{"effort":"medium","summary":"auto"}`,
		"max":     `"reasoning":{"effort":"xhigh","summary":"auto"}`,
	} {
		require.Equal(t, want, asked(level), level)
	}
	p, err := New(openai.Config{})
	require.NoError(t, err)
	_, err = p.build(ports.ModelRequest{Options: ports.Options{Thinking: "enormous"}}, thoughts{})
	var fault *ports.ProviderError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, ports.Fatal, fault.Class)
	require.Equal(t, "thinking_level", fault.Code)
}

func TestInput(t *testing.T) {
	failed := resultOf("k2", text("not JSON"))
	failed.IsError = true
	require.Equal(t, []string{
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_text","text":"there"}]}`,
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I read."},{"type":"output_text","text":"Both."}]}`,
		`{"type":"function_call","call_id":"k1","name":"f","arguments":"{\"n\":9007199254740993}"}`,
		`{"type":"function_call","call_id":"k2","name":"f","arguments":"{\"malformed\":\"{\\\"a\\\":\"}"}`,
		`{"type":"function_call_output","call_id":"k1","output":"a\nb"}`,
		`{"type":"function_call_output","call_id":"k2","output":"not JSON"}`,
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"be brief"}]}`,
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]}`,
	}, itemsOf(t,
		userOf(text("look")), userOf(text("there")),
		assistantOf(text("I read."), text("Both."), kernelCall("k1", `{"n":9007199254740993}`, ""), kernelCall("k2", "", `{"a":`), domain.Block{Type: "hologram"}),
		resultOf("k1", text("a"), text("b")), failed, userOf(text("be brief")), assistantOf(text("Done.")),
	), "the kernel's ids are the wire's; items have none")
}

// TestBlankMessages: K09 as far as it is the request builder's.
func TestBlankMessages(t *testing.T) {
	require.Equal(t, []string{
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]}`,
		`{"type":"function_call","call_id":"k1","name":"f","arguments":"{}"}`,
		`{"type":"function_call_output","call_id":"k1","output":"(no output)"}`,
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"(empty message)"}]}`,
	}, itemsOf(t,
		userOf(text("a")), assistantOf(), assistantOf(text(" \n"), reasoned(model, "rs_1", "hm")), userOf(text(""), text("b")),
		assistantOf(text("\n\n"), kernelCall("k1", `{}`, "")), resultOf("k1", text(" ")), userOf(text("\n")),
	))
}

// TestReasoningGoesBackToItsMaker: a reasoning item goes back as it came or not at all.
func TestReasoningGoesBackToItsMaker(t *testing.T) {
	sent := func(m domain.Message) string {
		t.Helper()
		return strings.Join(itemsOf(t, userOf(text("a")), m, userOf(text("b")))[1:], "")
	}
	const alone = `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Yes."}]}`
	rest := strings.TrimPrefix(sent(assistantOf(text("Yes."))), alone)
	hard := "Hm. 5 € 😀 <&> \u2028 \"q\" \\ "
	mine := assistantOf(reasoned(model, "rs_1", hard, "more"), reasoned(model, "rs_2"), text("Yes."), reasoned(model, "rs_3", "too late"))
	item := func(id string, summary ...string) string {
		raw := jsontext.Value(`{"type":"reasoning","id":"` + id + `","summary":` + responsestest.Summary(summary...) +
			`,"encrypted_content":"` + responsestest.Sign(model, id, summary...) + `"}`)
		require.NoError(t, raw.Format())
		return string(raw)
	}
	want := item("rs_1", hard, "more") + item("rs_2") + alone + rest
	require.Equal(t, want, sent(mine), "no reasoning stands at the end of an answer, and the status that came with it stays here")
	for _, alias := range []string{"gpt-test", "openai/gpt-test", "GPT-Test-2026-12-31"} {
		mine.Model = alias
		require.Equal(t, want, sent(mine), alias)
	}
	for _, other := range []string{"gpt-test-mini", "gpt", ""} {
		mine.Model = other
		require.Equal(t, alone+rest, sent(mine), other)
	}
	mine.Model, mine.Provider = model, "openai"
	require.Equal(t, alone+rest, sent(mine), "another provider")
	for _, spoiled := range []domain.Block{
		thinks("unsigned", ""), thinks("another wire's", "c2ln"), thinks("", "reasoning_item:"), thinks("", "reasoning_item:[]"),
		thinks("", `reasoning_item:{"id":"rs_1","summary":[]}`), thinks("", `reasoning_item:{"id":"rs_1","summary":[],"encrypted_content":"a`),
		thinks("", "reasoning_item:"+`{"id":"rs_1","summary":[{"type":"summary_text","text":"\u0000"}],"encrypted_content":"a"}`),
		thinks("", "reasoning_item:"+"{\"id\":\"rs_1\",\"summary\":[],\"encrypted_content\":\"a\x00\"}"),
	} {
		require.Equal(t, alone+rest, sent(assistantOf(spoiled, text("Yes."))), "K26: what would change is left out whole")
	}
}

// TestSignature: what cannot be sent back has none.
func TestSignature(t *testing.T) {
	of := func(raw string) string { return signature(wire.Members[outputItem](wire.Raw(raw))) }
	require.Equal(t, `reasoning_item:{"summary":[],"encrypted_content":"e"}`, of(`{"id":null,"summary":null,"encrypted_content":"e"}`))
	require.Empty(t, of(`{"id":"rs_1","summary":[],"encrypted_content":""}`))
	require.Empty(t, of(`{"id":"rs_1","summary":[],"encrypted_content":7}`))
	require.Empty(t, of("{\"id\":\"rs_1\",\"summary\":[{\"text\":\"\xff\"}],\"encrypted_content\":\"e\"}"))
}

func TestImages(t *testing.T) {
	data := wiretest.PNG
	shown := `{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,` + data + `"}`
	require.Equal(t, []string{
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"see"},` + shown + `,{"type":"input_text","text":"(an image of the type image/bmp, which cannot be shown)"},` +
			`{"type":"input_text","text":"(an image whose data is damaged)"}]}`,
		`{"type":"function_call","call_id":"k1","name":"f","arguments":"{}"}`,
		`{"type":"function_call_output","call_id":"k1","output":[{"type":"input_text","text":"there"},` + shown + `]}`,
	}, itemsOf(t,
		userOf(text("see"), pixels("image/PNG", data), pixels("image/bmp", data), pixels("image/png", "A\x00")),
		assistantOf(kernelCall("k1", "{}", ""), pixels("image/png", data)), resultOf("k1", text("there"), pixels("image/png", data)),
	))
}

// TestCleanRequests: K26 and K11, bytes that are no text, names and ids of other backends.
func TestCleanRequests(t *testing.T) {
	odd := kernelCall("functions.read:0", `{"real":"\u0000","spelled":"\\u0000"}`, "")
	odd.Name = "functions.read"
	id := wire.CallID("functions.read:0", 64)
	require.Equal(t, []string{
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"d�i�r"},{"type":"input_text","text":"spelled \\u0000"},{"type":"input_text","text":"�"}]}`,
		`{"type":"function_call","call_id":"` + id + `","name":"` + wire.ToolName("functions.read", maxName) + `","arguments":"{\"real\":\"\\ufffd\",\"spelled\":\"\\\\u0000\"}"}`,
		`{"type":"function_call","call_id":"k2","name":"f","arguments":"{\"malformed\":\"{�\"}"}`,
		`{"type":"function_call_output","call_id":"` + id + `","output":"r�"}`,
		`{"type":"function_call_output","call_id":"k2","output":"r"}`,
	}, itemsOf(t,
		userOf(text("d\x00i\x00r"), text(`spelled \u0000`), text("\xff")), assistantOf(odd, kernelCall("k2", "", "{\x00")),
		resultOf("functions.read:0", text("r\x00")), resultOf("k2", text("r")),
	))
}

// TestAnyHistory: what the kernel may present becomes a request that the strictest backend takes, whatever backends wrote
// it and at whatever point it is asked.
func TestAnyHistory(t *testing.T) {
	wiretest.TestAnyHistory(t, wiretest.Histories{
		Provider: DefaultName, Models: []string{model, "gpt-test", "gpt-best"},
		Signed: func(r *rand.Rand, m domain.Message, n int) domain.Block {
			return wiretest.OneOf(r, reasoned(m.Model, fmt.Sprintf("rs_%d", n), "hm"), thinks(wiretest.OddText(r), "reasoning_item:{"))
		},
		Check: func(t *testing.T, req ports.ModelRequest) { requestOf(t, req) },
	})
}
