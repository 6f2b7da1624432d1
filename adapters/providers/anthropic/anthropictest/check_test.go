package anthropictest_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/anthropic/anthropictest"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
)

// good is a request with a bit of everything.
var good = `{"model":"claude-test-4-5","max_tokens":2000,"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"messages":[` +
	`{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + wiretest.PNG + `"}}]},` +
	`{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"` + anthropictest.Sign(anthropictest.Model, "hm") + `"},` +
	`{"type":"redacted_thinking","data":"` + anthropictest.Sign(anthropictest.Model, "redacted") + `"},` +
	`{"type":"tool_use","id":"k1","name":"f","input":{}},{"type":"tool_use","id":"k2","name":"f","input":{}}]},` +
	`{"role":"user","content":[{"type":"tool_result","tool_use_id":"k1","content":[{"type":"text","text":"x"}]},` +
	`{"type":"tool_result","tool_use_id":"k2","content":[{"type":"text","text":"y"}],"is_error":true},{"type":"text","text":"go on"}]}],` +
	`"tools":[{"name":"f","input_schema":{"type":"object"}}],"thinking":{"type":"enabled","budget_tokens":1024},"stream":true}`

// TestCheck breaks each rule of the wire, one at a time.
func TestCheck(t *testing.T) {
	require.NoError(t, anthropictest.Check([]byte(good)))
	for _, c := range []struct{ old, broken, want string }{
		{`"model":"claude-test-4-5",`, ``, "model: field required"},
		{`"max_tokens":2000`, `"max_tokens":0`, "max_tokens"},
		{`"max_tokens":2000`, `"max_tokens":1024`, "must be greater than"},
		{`"budget_tokens":1024`, `"budget_tokens":1023`, "at least 1024"},
		{`"type":"enabled"`, `"type":"disabled"`, "thinking.type"},
		{`"stream":true`, `"stream":true,"temperature":0.5`, "temperature"},
		{`"stream":true`, `"stream":true,"temperature":1.5`, "temperature"},
		{`"stream":true`, `"stream":true,"output_config":{"effort":"huge"}`, "effort"},
		{`"stream":true`, `"stream":true,"surprise":1`, "surprise"},
		{`"Be brief."`, `" "`, "non-whitespace"},
		{`{"name":"f","input_schema":{"type":"object"}}`, `{"name":"f g","input_schema":{"type":"object"}}`, "tools.0.name"},
		{`{"name":"f","input_schema":{"type":"object"}}`, `{"name":"f","input_schema":{}}`, "input_schema"},
		{`"tools":[`, `"tools":[{"name":"f","input_schema":{"type":"object"}},`, "not unique"},
		{`{"role":"assistant"`, `{"role":"user"`, "alternate"},
		{`"messages":[`, `"messages":[{"role":"assistant","content":[{"type":"text","text":"a"}]},`, "alternate"},
		{`"text":"go on"}]}`, `"text":"go on"}]},{"role":"assistant","content":[{"type":"text","text":"a"}]}`, "end with a user"},
		{`"text":"go on"}]}`, `"text":"go on"}]},{"role":"assistant","content":[]}`, "non-empty content"},
		{`"text":"a"`, `"text":"\n"`, "non-whitespace"},
		{`"text":"a"`, `"text":"a\u0000"`, "U+0000"},
		{`"data":"` + wiretest.PNG + `"`, `"data":"A"`, "image.source"},
		{wiretest.PNG, wiretest.PNG[:len(wiretest.PNG)-24], "image.source"},
		{wiretest.PNG, wiretest.LargePNG(8001, 1), "exceed max allowed size: 8000 pixels"},
		{wiretest.PNG, padded(5 << 20), "exceeds 5 MB"},
		{`{"type":"text","text":"a"}`, strings.Repeat(picture(2001)+",", 19) + picture(2001), "many-image requests: 2000 pixels"},
		{`{"type":"text","text":"go on"}`, picture(2001) + strings.Repeat(","+picture(1), 19), "many-image requests: 2000 pixels"},
		{`image/png`, `image/bmp`, "image.source"},
		{`"thinking":"hm"`, `"thinking":"hm."`, "Invalid `signature`"},
		{`claude-test-4-5`, `claude-test-5`, "Invalid `signature`"},
		{`"redacted_thinking","data":"`, `"redacted_thinking","data":"x`, "Invalid `signature`"},
		{`,{"type":"tool_use","id":"k1","name":"f","input":{}},{"type":"tool_use","id":"k2","name":"f","input":{}}`, ``, "final block"},
		{`{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}`, marks(5), "maximum of 4"},
		{`"id":"k2"`, `"id":"k1"`, "unique"},
		{`"id":"k1"`, `"id":"k:1"`, "tool_use.id"},
		{`"id":"k1","name":"f"`, `"id":"k1","name":"f.g"`, "tool_use.name"},
		{`"id":"k1","name":"f","input":{}`, `"id":"k1","name":"f","input":[]`, "dictionary"},
		{`"tool_use_id":"k1"`, `"tool_use_id":"k2"`, "without `tool_result`"},
		{`{"type":"tool_result","tool_use_id":"k1","content":[{"type":"text","text":"x"}]},`, ``, "without `tool_result`"},
		{`{"type":"tool_result","tool_use_id":"k1"`, `{"type":"text","text":"first"},{"type":"tool_result","tool_use_id":"k1"`, "without `tool_result`"},
		{`{"type":"text","text":"go on"}`, `{"type":"tool_result","tool_use_id":"k3","content":[{"type":"text","text":"x"}]}`, "unexpected `tool_use_id`"},
		{`"content":[{"type":"text","text":"x"}]`, `"content":[]`, "empty"},
		{`"content":[{"type":"text","text":"x"}]`, `"content":[{"type":"text","text":" "}]`, "non-whitespace"},
		{`"content":[{"type":"text","text":"x"}]`, `"content":[{"type":"tool_use"}]`, "not allowed here"},
		{`"text":"y"}]`, `"text":"y"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + wiretest.PNG + `"}}]`, "must be type 'text'"},
		{`{"type":"text","text":"go on"}`, `{"type":"thinking"}`, "not allowed here"},
		{`"signature":`, `"cache_control":{"type":"ephemeral"},"signature":`, "not allowed on thinking"},
		{`{"type":"thinking","thinking":"hm"`, `{"type":"text","text":"say"},{"type":"thinking","thinking":"hm"`, "Expected `thinking`"},
		{`Be brief.`, "\xff", "UTF-8"},
	} {
		broken := strings.Replace(good, c.old, c.broken, 1)
		require.NotEqual(t, good, broken)
		require.ErrorContains(t, anthropictest.Check([]byte(broken)), c.want, broken)
	}
}

// picture returns an image of the width.
func picture(width int) string {
	return `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + wiretest.LargePNG(width, 1) + `"}}`
}

// padded returns an image with so many bytes behind it that nobody reads.
func padded(n int) string {
	data, _ := base64.StdEncoding.DecodeString(wiretest.PNG)
	return base64.StdEncoding.EncodeToString(append(data, make([]byte, n)...))
}

// marks returns n texts with a mark each.
func marks(n int) string {
	return strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},`, n), ",")
}
