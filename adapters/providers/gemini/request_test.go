package gemini

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/gemini/geminitest"
	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

const model = geminitest.Model

// The blocks and messages of wiretest, in short.
var (
	text, pixels = wiretest.Text, wiretest.Image
	userOf       = wiretest.User
)

// bodyOf returns the body of the request for req, which the strictest backend takes.
func bodyOf(t *testing.T, p *Provider, req ports.ModelRequest) []byte {
	t.Helper()
	r, err := p.build(req, thoughts{})
	require.NoError(t, err)
	body, err := wire.Encode(r)
	require.NoError(t, err)
	require.NoError(t, geminitest.Check(req.Model, body), "%s", body)
	return body
}

func provider(t *testing.T) *Provider {
	p, err := New(Config{})
	require.NoError(t, err)
	return p
}

// contentsOf returns the turns of a request that presents list, each as JSON.
func contentsOf(t *testing.T, list ...domain.Message) (turns []string) {
	t.Helper()
	var body struct{ Contents []json.RawMessage }
	require.NoError(t, json.Unmarshal(bodyOf(t, provider(t), ports.ModelRequest{Model: model, Messages: list}), &body))
	for _, raw := range body.Contents {
		turns = append(turns, string(raw))
	}
	return turns
}

// modelOf is an answer of the model that is asked, other one of another backend.
func modelOf(blocks ...domain.Block) domain.Message {
	return domain.Message{Role: domain.RoleAssistant, Content: blocks, Provider: "gemini", Model: model}
}

func otherOf(blocks ...domain.Block) domain.Message {
	return domain.Message{Role: domain.RoleAssistant, Content: blocks, Provider: "anthropic", Model: "claude"}
}

func resultOf(id, name string, blocks ...domain.Block) domain.Message {
	return domain.Message{Role: domain.RoleTool, CallID: id, ToolName: name, Content: blocks}
}

func kernelCall(id, name, args, providerID string) domain.Block {
	return domain.Block{Type: domain.CallBlock, ID: id, Name: name, Arguments: args, ProviderID: providerID}
}

func signText(s string) domain.Block { return proved(text(s), geminitest.Sign(model, "text false "+s)) }
func signThink(s string) domain.Block {
	return proved(thinks(s), geminitest.Sign(model, "text true "+s))
}
func signCall(b domain.Block) domain.Block {
	return proved(b, geminitest.Sign(model, "call "+wireName(b.Name)+" "+b.Arguments))
}

func TestRequest(t *testing.T) {
	warm := 0.5
	req := ports.ModelRequest{
		Model: "gemini-2.5-flash", System: "Be brief.", Messages: []domain.Message{userOf(text("hi"))},
		Tools: []ports.ToolSpec{
			{Name: "time"}, {Name: "noop", Schema: `{}`},
			{Name: "read", Description: "Reads.", Schema: `{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"p":{"type":["string","null"]}},"additionalProperties":false}`},
		},
		Options: ports.Options{Temperature: &warm, MaxTokens: 4096, Thinking: "low"},
	}
	require.JSONEq(t, `{
		"systemInstruction":{"parts":[{"text":"Be brief."}]},
		"contents":[{"role":"user","parts":[{"text":"hi"}]}],
		"tools":[{"functionDeclarations":[{"name":"time"},{"name":"noop"},{"name":"read","description":"Reads.",
			"parametersJsonSchema":{"type":"object","properties":{"p":{"type":["string","null"]}},"additionalProperties":false}}]}],
		"generationConfig":{"temperature":0.5,"maxOutputTokens":4096,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":2048}}
	}`, string(bodyOf(t, provider(t), req)))
	require.Equal(t, bodyOf(t, provider(t), req), bodyOf(t, provider(t), req), "equal requests have equal bytes")
	require.JSONEq(t, `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`,
		string(bodyOf(t, provider(t), ports.ModelRequest{Model: model, System: " ", Messages: req.Messages})))
}

// Calls go with their signature and id, results right behind them, in order and alone; images and words are a turn of
// their own behind the results, as newer models refuse them beside results.
func TestContents(t *testing.T) {
	failed := resultOf("k2", "f", text("no"))
	failed.IsError = true
	first, second := signCall(kernelCall("k1", "f", `{"a":8123456789012345677}`, "ca")), kernelCall("k2", "f", `{}`, "cb")
	require.Equal(t, []string{
		`{"role":"user","parts":[{"text":"a"},{"text":"b"}]}`,
		`{"role":"model","parts":[{"text":"Hm"},{"thoughtSignature":"` + first.Signature + `","functionCall":{"id":"ca","name":"f","args":{"a":8123456789012345677}}},` +
			`{"functionCall":{"id":"cb","name":"f","args":{}}}]}`,
		`{"role":"user","parts":[{"functionResponse":{"id":"ca","name":"f","response":{"output":"x\n(an image, shown below)"}}},` +
			`{"functionResponse":{"id":"cb","name":"f","response":{"error":"no"}}}]}`,
		`{"role":"user","parts":[{"text":"Image from a result of f:"},{"inlineData":{"mimeType":"image/png","data":"` + wiretest.PNG + `"}},{"text":"c"}]}`,
		`{"role":"model","parts":[{"text":"Done."}]}`,
		`{"role":"user","parts":[{"text":"(continue)"}]}`,
	}, contentsOf(t,
		userOf(text("a"), text("b")), modelOf(text("Hm"), first, second),
		resultOf("k1", "f", text("x"), pixels("image/png", wiretest.PNG)), failed, userOf(text("c")), modelOf(text("Done.")),
	))
}

// K11: an id that the backend gave to several calls of an answer goes back to none of them; another backend's never does.
func TestIDsOfCalls(t *testing.T) {
	require.Equal(t, []string{
		`{"role":"user","parts":[{"text":"a"}]}`,
		`{"role":"model","parts":[{"thoughtSignature":"skip_thought_signature_validator","functionCall":{"name":"f","args":{}}},{"functionCall":{"name":"f","args":{}}}]}`,
		`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"1"}}},{"functionResponse":{"name":"f","response":{"output":"2"}}}]}`,
		`{"role":"model","parts":[{"thoughtSignature":"skip_thought_signature_validator","functionCall":{"name":"f","args":{}}}]}`,
		`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"(no output)"}}}]}`,
	}, contentsOf(t,
		userOf(text("a")), modelOf(kernelCall("k1", "f", "{}", "call_0"), kernelCall("k2", "f", "{}", "call_0")), resultOf("k1", "f", text("1")), resultOf("k2", "f", text("2")),
		otherOf(kernelCall("k3", "f", "{}", "toolu_1")), resultOf("k3", "f", text(" ")),
	))
}

func TestBlankMessages(t *testing.T) {
	require.Equal(t, []string{
		`{"role":"user","parts":[{"text":"(empty message)"},{"text":"x"}]}`,
		`{"role":"model","parts":[{"text":"y"},{"text":"z"}]}`,
		`{"role":"user","parts":[{"text":"w"}]}`,
	}, contentsOf(t, userOf(text("\n"), text("")), modelOf(text(" "), thinks("Hm")), modelOf(signText(""), signThink("Hm")), userOf(text("x")),
		modelOf(text("y")), modelOf(text("z"), text(" ")), userOf(text(""), text("w"))))
	require.Equal(t, []string{`{"role":"user","parts":[{"text":"(empty message)"}]}`, `{"role":"model","parts":[{"text":"y"}]}`, `{"role":"user","parts":[{"text":"(continue)"}]}`},
		contentsOf(t, modelOf(text("y"))))
	require.Equal(t, []string{`{"role":"user","parts":[{"text":"(continue)"}]}`}, contentsOf(t))
}

// A signed part goes back byte for byte to the model that signed it, and to no other.
func TestSignaturesGoBackToTheirMaker(t *testing.T) {
	signedAll := []domain.Block{thinks("summary"), signThink("Hm"), signText("Hi"), signCall(kernelCall("k1", "f", `{"a":"é"}`, "")), signText("")}
	m := modelOf(signedAll...)
	result := resultOf("k1", "f", text("x"))
	for name, c := range map[string]struct {
		asked, provider, model string
		want                   string
	}{
		"the same": {model, "gemini", model,
			`[{"text":"Hm","thought":true,"thoughtSignature":"` + signedAll[1].Signature + `"},{"text":"Hi","thoughtSignature":"` + signedAll[2].Signature + `"},` +
				`{"thoughtSignature":"` + signedAll[3].Signature + `","functionCall":{"name":"f","args":{"a":"é"}}},{"text":"","thoughtSignature":"` + signedAll[4].Signature + `"}]`},
		"another model":                 {"gemini-4-test", "gemini", model, `[{"text":"Hi"},{"thoughtSignature":"skip_thought_signature_validator","functionCall":{"name":"f","args":{"a":"é"}}}]`},
		"another backend":               {model, "gemini-eu", model, `[{"text":"Hi"},{"thoughtSignature":"skip_thought_signature_validator","functionCall":{"name":"f","args":{"a":"é"}}}]`},
		"a model that wants no signing": {"gemini-2.5-pro", "gemini", model, `[{"text":"Hi"},{"functionCall":{"name":"f","args":{"a":"é"}}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			m.Provider, m.Model = c.provider, c.model
			body := bodyOf(t, provider(t), ports.ModelRequest{Model: c.asked, Messages: []domain.Message{userOf(text("a")), m, result}})
			require.Contains(t, string(body), `{"role":"model","parts":`+c.want+`}`)
		})
	}
}

// A name that always means the newest model is that of the model which answered to it.
func TestSignaturesOfAnAlias(t *testing.T) {
	p := provider(t)
	own := modelOf(text("a"))
	own.Model = "gemini-3-flash-preview"
	later := modelOf(text("a"))
	later.Model = "gemini-3.5-flash"
	signed := proved(text("a"), "s1")
	to := p.maker(DefaultModel, thoughts{})
	require.True(t, to.strict)
	require.Equal(t, []string{"s1", "s1"}, []string{to.signature(own, signed), to.signature(later, signed)})
	p.remember(DefaultModel, "gemini-3-flash-preview-09", nil)
	to = p.maker(DefaultModel, thoughts{})
	require.Equal(t, []string{"s1", ""}, []string{to.signature(own, signed), to.signature(later, signed)})
	p.remember("m", "", &ports.ProviderError{Code: missingSignature})
	require.True(t, p.maker("m", thoughts{}).strict)
	require.False(t, p.maker("n", thoughts{}).strict)
}

func TestGeneration(t *testing.T) {
	for name, want := range map[string]int{
		"gemini-2.5-flash": 25, "gemini-3-pro-preview": 30, "gemini-3.5-flash": 35, "gemini-10-pro": 100, "gemini-1.5-flash-002": 15,
		"gemini-flash-latest": newest, "gemini-pro": 0, "gemma-3-27b-it": 0, "": 0,
	} {
		require.Equal(t, want, versionOf(name), name)
	}
	for name, want := range map[string]string{
		"models/gemini-3-pro-preview": "gemini-3-pro", "gemini-2.5-flash-preview-09-2025": "gemini-2.5-flash", "gemini-1.5-flash-002": "gemini-1.5-flash",
		"gemini-2.5-flash-lite": "gemini-2.5-flash-lite", "gemini-flash-latest": "gemini-flash",
	} {
		require.Equal(t, want, family(name), name)
	}
	require.Equal(t, "/v1beta/models/a%2F..%2Fb%3Fc:streamGenerateContent?alt=sse", modelPath("a/../b?c"))
	require.Equal(t, "/v1beta/tunedModels/mine:streamGenerateContent?alt=sse", modelPath("tunedModels/mine"))
}

func TestThinkingOption(t *testing.T) {
	for _, c := range []struct {
		model, level string
		maxTokens    int
		want         string
	}{
		{"gemini-2.5-flash", "", 0, ""},
		{"gemini-2.5-flash", "none", 0, `{"thinkingBudget":0}`},
		{"gemini-2.5-pro", "off", 100, `{"thinkingBudget":128}`},
		{"gemini-2.5-flash", "MINIMAL", 0, `{"includeThoughts":true,"thinkingBudget":1024}`},
		{"gemini-2.5-flash", "max", 0, `{"includeThoughts":true,"thinkingBudget":24576}`},
		{"gemini-2.5-flash", "high", 4000, `{"includeThoughts":true,"thinkingBudget":3000}`},
		{"gemini-2.5-flash", "high", 600, `{"includeThoughts":true}`},
		{"gemini-3-flash", "none", 0, `{"thinkingLevel":"MINIMAL"}`},
		{"gemini-3-pro-preview", "none", 0, `{"thinkingLevel":"LOW"}`},
		{"gemini-3-pro-preview", "minimal", 0, `{"includeThoughts":true,"thinkingLevel":"LOW"}`},
		{"gemini-flash-latest", "medium", 0, `{"includeThoughts":true,"thinkingLevel":"MEDIUM"}`},
		{"gemini-3.5-flash", "xhigh", 0, `{"includeThoughts":true,"thinkingLevel":"HIGH"}`},
		{"gemini-2.0-flash", "high", 0, ""},
		{"gemma-3-27b-it", "high", 0, ""},
	} {
		got, err := think(ports.ModelRequest{Model: c.model, Options: ports.Options{Thinking: c.level, MaxTokens: c.maxTokens}}, 0)
		require.NoError(t, err)
		if c.want == "" {
			require.Nil(t, got, "%+v", c)
			continue
		}
		b, err := json.Marshal(got)
		require.NoError(t, err)
		require.JSONEq(t, c.want, string(b), "%+v", c)
	}
	_, err := provider(t).build(ports.ModelRequest{Model: model, Options: ports.Options{Thinking: "hard"}}, thoughts{})
	require.ErrorContains(t, err, `unknown level of thinking "hard"`)
}

func TestImages(t *testing.T) {
	image := proved(pixels("image/png", wiretest.PNG), geminitest.Sign(model, "data "+wiretest.PNG))
	require.Equal(t, []string{
		`{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"` + wiretest.PNG + `"}},{"text":"(an image of the type image/gif, which cannot be shown)"},{"text":"(an image whose data is damaged)"}]}`,
		`{"role":"model","parts":[{"thoughtSignature":"` + image.Signature + `","inlineData":{"mimeType":"image/png","data":"` + wiretest.PNG + `"}}]}`,
		`{"role":"user","parts":[{"text":"(continue)"}]}`,
	}, contentsOf(t, userOf(pixels("IMAGE/JPEG", wiretest.PNG), pixels("image/gif", "AAAA"), pixels("image/png", "A"), pixels("image/png", "")),
		modelOf(pixels("image/gif", "AAAA"), image)))
}

// K26: what no backend takes becomes U+FFFD; a signed part that would change goes unsigned, and thinking not at all.
func TestCleanRequests(t *testing.T) {
	malformed := kernelCall("k2", "f", "", "")
	malformed.RawArguments = "{\x00"
	require.Equal(t, []string{
		`{"role":"user","parts":[{"text":"d�i�r"},{"text":"spelled \\u0000"},{"text":"\u0001\u001f` + "\x7f\ufffe\u2028" + `"},{"text":"�"}]}`,
		`{"role":"model","parts":[{"text":"a�"},{"text":"b"},` +
			`{"thoughtSignature":"skip_thought_signature_validator","functionCall":{"name":"f","args":{"real":"�","spelled":"\\u0000"}}},` +
			`{"functionCall":{"name":"f","args":{"malformed":"{�"}}}]}`,
		`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"r�"}}},{"functionResponse":{"name":"f","response":{"output":"r"}}}]}`,
	}, contentsOf(t,
		userOf(text("d\x00i\x00r"), text(`spelled \u0000`), text("\x01\x1f\x7f\ufffe\u2028"), text("\xff")),
		modelOf(proved(thinks("h\x00m"), "s"), proved(text("a\x00"), "s"), proved(text("b"), "s\x00"),
			proved(kernelCall("k1", "f", `{"real":"\u0000","spelled":"\\u0000"}`, "i\x00d"), "s"), proved(malformed, "s")),
		resultOf("k1", "f", text("r\x00")), resultOf("k2", "f", text("r")),
	))
}

// TestNamesOnTheWire: names that differ stay different, and none is one that the wire refuses.
func TestNamesOnTheWire(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"f", "F", "_f", "7up", "_7up", "-x", "a.b", "a:b", "ä", "", strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("x", 66)} {
		got := wireName(name)
		require.Regexp(t, `^[A-Za-z_][A-Za-z0-9_-]{0,63}$`, got, name)
		require.NotContains(t, seen, got, "%q and %q", name, seen[got])
		seen[got] = name
	}
	require.Equal(t, "read_file", wireName("read_file"))
}

// TestAnyHistory: what the kernel may present becomes a request that the strictest backend takes, whatever backends wrote
// it and at whatever point it is asked.
func TestAnyHistory(t *testing.T) {
	p := provider(t)
	wiretest.TestAnyHistory(t, wiretest.Histories{
		Provider: defaultName, Models: []string{model, "gemini-4-test", "gemini-2.5-pro", "gemma"}, Signed: oddlySigned,
		Check: func(t *testing.T, req ports.ModelRequest) { bodyOf(t, p, req) },
	})
}

// oddlySigned returns a block of any kind that the model of m signed for itself.
func oddlySigned(r *rand.Rand, m domain.Message, n int) domain.Block {
	sign := func(b domain.Block, said string) domain.Block { return proved(b, geminitest.Sign(m.Model, said)) }
	s, data := wiretest.OddText(r), wiretest.OneOf(r, wiretest.PNG, "AAAA", "A")
	c := wiretest.OddCall(r, n)
	return wiretest.OneOf(r,
		sign(text(s), "text false "+s), sign(thinks(s), "text true "+s), sign(c, "call "+wireName(c.Name)+" "+c.Arguments),
		sign(pixels(wiretest.OneOf(r, "image/png", "image/x"), data), "data "+data),
	)
}
