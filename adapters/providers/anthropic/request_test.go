package anthropic

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/anthropic/anthropictest"
	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

const model = anthropictest.Model

// The blocks and messages of wiretest, in short.
var (
	text, thinks, kernelCall, pixels = wiretest.Text, wiretest.Thinking, wiretest.Call, wiretest.Image
	userOf, resultOf                 = wiretest.User, wiretest.Result
)

// requestOf returns the request for req, which the strict backend takes.
func requestOf(t testing.TB, req ports.ModelRequest) string {
	t.Helper()
	p, err := New(Config{BaseURL: "http://127.0.0.1:1"})
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
	require.NoError(t, anthropictest.Check([]byte(bodies[0])), "%s", bodies[0])
	return bodies[0]
}

func assistantOf(blocks ...domain.Block) domain.Message {
	return domain.Message{Role: domain.RoleAssistant, Provider: "anthropic", Model: model, Content: blocks}
}

// signed is a thinking block that the model of the tests has made.
func signed(s string) domain.Block { return thinks(s, anthropictest.Sign(model, s)) }

func redacted() domain.Block { return thinks("", redactedMark+anthropictest.Sign(model, "redacted")) }

// wireMessages returns the messages of the request for messages, each as its JSON.
func wireMessages(t *testing.T, messages ...domain.Message) []string {
	t.Helper()
	var r struct {
		Messages []json.RawMessage `json:"messages"`
	}
	require.NoError(t, json.Unmarshal([]byte(requestOf(t, ports.ModelRequest{Model: model, Messages: messages})), &r))
	var list []string
	for _, m := range r.Messages {
		list = append(list, strings.ReplaceAll(string(m), `,"cache_control":{"type":"ephemeral"}`, ""))
	}
	return list
}

func TestRequest(t *testing.T) {
	zero := 0.0
	got := requestOf(t, ports.ModelRequest{
		Model: "m", System: "Be <brief>.", Messages: []domain.Message{userOf(text("hi"))},
		Tools: []ports.ToolSpec{
			{Name: "f", Description: "does f", Schema: `{"type":"object","properties":{"z":{},"a":{}}}`}, {Name: "g"},
			{Name: "files.read", Schema: `{"properties":{}}`},
		},
		Options: ports.Options{Temperature: &zero, MaxTokens: 9},
	})
	require.Equal(t, `{"model":"m","max_tokens":9,"system":[{"type":"text","text":"Be <brief>.","cache_control":{"type":"ephemeral"}}],`+
		`"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}],`+
		`"tools":[{"name":"f","description":"does f","input_schema":{"type":"object","properties":{"z":{},"a":{}}}},`+
		`{"name":"g","input_schema":{"type":"object","properties":{}}},`+
		`{"name":"`+wire.ToolName("files.read", maxName)+`","input_schema":{"type":"object","properties":{}}}],`+
		`"temperature":0,"stream":true}`, got)

	require.Equal(t, `{"model":"m","max_tokens":32000,`+
		`"messages":[{"role":"user","content":[{"type":"text","text":"(continue)","cache_control":{"type":"ephemeral"}}]}],`+
		`"tools":[{"name":"g","input_schema":{"type":"object","properties":{}},"cache_control":{"type":"ephemeral"}}],"stream":true}`,
		requestOf(t, ports.ModelRequest{Model: "m", System: " \n", Tools: []ports.ToolSpec{{Name: "g"}}}))
}

func TestMessages(t *testing.T) {
	failed := resultOf("k2", text("not JSON"))
	failed.IsError = true
	require.Equal(t, []string{
		`{"role":"user","content":[{"type":"text","text":"look"}]}`,
		`{"role":"assistant","content":[{"type":"text","text":"I read."},{"type":"tool_use","id":"k1","name":"f","input":{"n":9007199254740993}},` +
			`{"type":"tool_use","id":"k2","name":"f","input":{"malformed":"{\"a\":"}}]}`,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"k1","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},` +
			`{"type":"tool_result","tool_use_id":"k2","content":[{"type":"text","text":"not JSON"}],"is_error":true},{"type":"text","text":"be brief"}]}`,
		`{"role":"assistant","content":[{"type":"text","text":"Done."}]}`,
		`{"role":"user","content":[{"type":"text","text":"thanks"}]}`,
	}, wireMessages(t,
		userOf(text("look")),
		assistantOf(text("I read."), kernelCall("k1", `{"n":9007199254740993}`, ""), kernelCall("k2", "", `{"a":`), domain.Block{Type: "hologram"}),
		resultOf("k1", text("a"), text("b")), failed, userOf(text("be brief")), assistantOf(text("Done.")), userOf(text("thanks")),
	), "results in one message, in call order, before the user's words; the kernel's ids are the wire's")
}

// TestBlankMessages: K09 as far as it is the request builder's.
func TestBlankMessages(t *testing.T) {
	require.Equal(t, []string{
		`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`,
		`{"role":"assistant","content":[{"type":"tool_use","id":"k1","name":"f","input":{}}]}`,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"k1","content":[{"type":"text","text":"(no output)"}]},{"type":"text","text":"(empty message)"}]}`,
	}, wireMessages(t,
		userOf(text("a")), assistantOf(), assistantOf(text(" \n"), signed("hm")), userOf(text(""), text("b")),
		assistantOf(text("\n\n"), kernelCall("k1", `{}`, "")), resultOf("k1", text(" ")), userOf(text("\n")),
	))
	require.Equal(t, []string{
		`{"role":"user","content":[{"type":"text","text":"(empty message)"}]}`,
		`{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`,
		`{"role":"user","content":[{"type":"text","text":"(continue)"}]}`,
	}, wireMessages(t, assistantOf(text("a")), assistantOf(text("b"), signed("cut off"))), "the user has the first and the last word")
}

// TestThinkingGoesBackToItsMaker: signed thinking goes back byte for byte or not at all.
func TestThinkingGoesBackToItsMaker(t *testing.T) {
	sent := func(m domain.Message) string {
		t.Helper()
		return wireMessages(t, userOf(text("a")), m, userOf(text("b")))[1]
	}
	const alone = `{"role":"assistant","content":[{"type":"text","text":"Yes."}]}`
	hard := "Hm. 5 € 😀 <&> \u2028 \"q\" \\ "
	mine := assistantOf(signed(hard), signed(""), redacted(), text("Yes."), signed("too late"))
	signature := func(s string) string { return `"` + anthropictest.Sign(model, s) + `"` }
	literal, _ := wire.Encode(hard)
	want := `{"role":"assistant","content":[{"type":"thinking","thinking":` + string(literal) + `,"signature":` + signature(hard) + `},` +
		`{"type":"thinking","thinking":"","signature":` + signature("") + `},{"type":"redacted_thinking","data":` + signature("redacted") + `},` +
		`{"type":"text","text":"Yes."}]}`
	require.Equal(t, want, sent(mine), "no thinking may end a message")
	for _, alias := range []string{"claude-test-4-5", "claude-test-4-5-latest", "anthropic/claude-test-4-5", "Claude-Test-4-5@20250929"} {
		mine.Model = alias
		require.Equal(t, want, sent(mine), alias)
	}
	for _, other := range []string{"claude-test-4-6", "claude-test-4", "claude-best-4-5", ""} {
		mine.Model = other
		require.Equal(t, alone, sent(mine), other)
	}
	mine.Model, mine.Provider = model, "openai"
	require.Equal(t, alone, sent(mine), "another provider")
	require.Equal(t, alone, sent(assistantOf(thinks("unsigned", ""), text("Yes."))))
	for _, spoiled := range []domain.Block{thinks("a\x00", "c2ln"), thinks("a", "c2\x00ln"), thinks("\xff", "c2ln")} {
		require.Equal(t, alone, sent(assistantOf(spoiled, text("Yes."))), "K26: what would change is left out whole")
	}
}

func TestFamily(t *testing.T) {
	for name, want := range map[string]string{
		"claude-sonnet-4-5-20250929": "claude-sonnet-4-5", "claude-sonnet-4-0": "claude-sonnet-4", "claude-sonnet-4-20250514": "claude-sonnet-4",
		"claude-3-7-sonnet-latest": "claude-3-7-sonnet", "vendor/claude-opus-5": "claude-opus-5", "": "", "m": "m", "claude-opus-4-10": "claude-opus-4-10",
	} {
		require.Equal(t, want, family(name))
	}
}

func TestThinkingOption(t *testing.T) {
	warm := 0.7
	asked := func(m, level string, cap int, messages ...domain.Message) string {
		t.Helper()
		body := requestOf(t, ports.ModelRequest{
			Model: m, Messages: append([]domain.Message{userOf(text("a"))}, messages...),
			Options: ports.Options{Thinking: level, MaxTokens: cap, Temperature: &warm},
		})
		_, tail, _ := strings.Cut(body, `}}]}],`)
		return strings.TrimSuffix(tail, `"stream":true}`)
	}
	const none = `"temperature":0.7,`
	budget := func(n int) string { return fmt.Sprintf(`"thinking":{"type":"enabled","budget_tokens":%d},`, n) }
	effort := func(s string) string { return `"thinking":{"type":"adaptive"},"output_config":{"effort":"` + s + `"},` }

	require.Equal(t, none, asked(model, "", 0))
	require.Equal(t, none, asked(model, "none", 0))
	require.Equal(t, budget(1024), asked(model, "minimal", 0))
	require.Equal(t, budget(8192), asked(model, "Medium", 0))
	require.Equal(t, budget(24000), asked(model, "max", 0), "three quarters of the cap")
	require.Equal(t, budget(1500), asked(model, "high", 2000))
	require.Equal(t, none, asked(model, "high", 1200), "no room for the least budget")
	for _, m := range []string{"claude-opus-4-6", "claude-sonnet-5", "claude-fable-5-1", "vendor/claude-opus-4-7-20260101"} {
		require.Equal(t, effort("low"), asked(m, "minimal", 100), m)
		require.Equal(t, effort("xhigh"), asked(m, "xhigh", 0), m)
	}
	for _, m := range []string{"claude-3-7-sonnet-20250219", "claude-sonnet-4-20250514", "claude-opus-4-1", "claude-haiku-4-5", "glm-9", "claude"} {
		require.Equal(t, budget(2048), asked(m, "low", 0), m)
	}

	// In the middle of a turn a model with a budget goes on thinking only if it began so.
	call, result := kernelCall("k1", "{}", ""), resultOf("k1", text("x"))
	more, again := kernelCall("k2", "{}", ""), resultOf("k2", text("x"))
	require.Equal(t, none, asked(model, "low", 0, assistantOf(call), result))
	require.Equal(t, budget(2048), asked(model, "low", 0, assistantOf(signed("hm"), call), result))
	require.Equal(t, budget(2048), asked(model, "low", 0, assistantOf(redacted(), call), result, assistantOf(more), again))
	require.Equal(t, none, asked(model, "low", 0, assistantOf(call), result, assistantOf(signed("hm"), more), again))
	require.Equal(t, budget(2048), asked(model, "low", 0, assistantOf(call), result, assistantOf(text("Done.")), userOf(text("b"))))
	require.Equal(t, effort("low"), asked("claude-opus-5", "low", 0, assistantOf(call), result))

	p, err := New(Config{})
	require.NoError(t, err)
	_, err = p.build(ports.ModelRequest{Options: ports.Options{Thinking: "enormous"}}, thoughts{})
	var fault *ports.ProviderError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, ports.Fatal, fault.Class)
	require.Equal(t, "thinking_level", fault.Code)
}

func TestImages(t *testing.T) {
	data := wiretest.PNG
	shown := `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}`
	require.Equal(t, []string{
		`{"role":"user","content":[{"type":"text","text":"see"},` + shown + `,{"type":"text","text":"(an image of the type image/bmp, which cannot be shown)"},` +
			`{"type":"text","text":"(an image whose data is damaged)"}]}`,
		`{"role":"assistant","content":[{"type":"tool_use","id":"k1","name":"f","input":{}}]}`,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"k1","content":[` + shown + `]}]}`,
	}, wireMessages(t,
		userOf(text("see"), pixels("image/PNG", data), pixels("image/bmp", data), pixels("image/png", "A\x00")),
		assistantOf(kernelCall("k1", "{}", ""), pixels("image/png", data)), resultOf("k1", pixels("image/png", data)),
	))
}

// TestManyImages: images that were taken before are too large from the 21st on; each request passes the strict reader.
func TestManyImages(t *testing.T) {
	large := pixels("image/png", wiretest.LargePNG(2001, 1))
	var content []domain.Block
	for n := range 22 {
		content = append(content, large)
		got := wireMessages(t, userOf(content...), assistantOf(kernelCall("k1", "{}", "")), resultOf("k1", large, pixels("image/png", wiretest.LargePNG(1, 8001))))
		shown := n + 2 // but the last, which is too large for any request
		if n+3 > 20 {
			shown = 0
			require.Contains(t, got[0], "(an image of 2001×1 pixels was left out: this backend takes at most 2000 a side in a request with more than 20 images)")
		}
		require.Equal(t, shown, strings.Count(got[0]+got[2], `"media_type"`), n)
	}
}

// TestImagesOfFailedCalls: the wire takes none in a result that is an error.
func TestImagesOfFailedCalls(t *testing.T) {
	failed := resultOf("k1", text("no page"), pixels("image/png", wiretest.PNG), pixels("image/bmp", wiretest.PNG))
	failed.IsError = true
	require.Equal(t, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"k1","content":[{"type":"text","text":"no page"},`+
		`{"type":"text","text":"(an image was left out: this backend takes none from a call that failed)"},`+
		`{"type":"text","text":"(an image of the type image/bmp, which cannot be shown)"}],"is_error":true}]}`,
		wireMessages(t, userOf(text("see")), assistantOf(kernelCall("k1", "{}", "")), failed)[2])
}

// TestCleanRequests: K26 and K11, bytes that are no text, names and ids of other backends.
func TestCleanRequests(t *testing.T) {
	odd := kernelCall("functions.read:0", `{"real":"\u0000","spelled":"\\u0000"}`, "")
	odd.Name = "functions.read"
	got := wireMessages(t,
		userOf(text("d\x00i\x00r"), text(`spelled \u0000`), text("\x01\x1f\x7f\ufffe\u2028"), text("\xff")),
		assistantOf(odd, kernelCall("k2", "", "{\x00")),
		resultOf("functions.read:0", text("r\x00")), resultOf("k2", text("r")),
	)
	id := wire.CallID("functions.read:0", 64)
	require.Equal(t, []string{
		`{"role":"user","content":[{"type":"text","text":"d�i�r"},{"type":"text","text":"spelled \\u0000"},{"type":"text","text":"\u0001\u001f` + "\x7f\ufffe\u2028" + `"},{"type":"text","text":"�"}]}`,
		`{"role":"assistant","content":[{"type":"tool_use","id":"` + id + `","name":"` + wire.ToolName("functions.read", maxName) +
			`","input":{"real":"�","spelled":"\\u0000"}},{"type":"tool_use","id":"k2","name":"f","input":{"malformed":"{�"}}]}`,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":[{"type":"text","text":"r�"}]},{"type":"tool_result","tool_use_id":"k2","content":[{"type":"text","text":"r"}]}]}`,
	}, got)
}

// TestAnyHistory: what the kernel may present becomes a request that the strictest backend takes, whatever backends wrote
// it and at whatever point it is asked.
func TestAnyHistory(t *testing.T) {
	wiretest.TestAnyHistory(t, wiretest.Histories{
		Provider: defaultName, Models: []string{model, "claude-test-4-5", "claude-test-5"},
		Signed: func(r *rand.Rand, m domain.Message, _ int) domain.Block {
			s := wiretest.OddText(r)
			return wiretest.OneOf(r, thinks(s, anthropictest.Sign(m.Model, s)), thinks("", redactedMark+anthropictest.Sign(m.Model, "redacted")))
		},
		Check: func(t *testing.T, req ports.ModelRequest) { requestOf(t, req) },
	})
}
