package responsestest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai/responses/responsestest"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
)

// good is a request with a bit of everything.
var good = `{"model":"gpt-test","instructions":"Be brief.","input":[` +
	`{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,` + wiretest.PNG + `"}]},` +
	`{"type":"reasoning","id":"rs_1","summary":` + responsestest.Summary("hm") + `,"encrypted_content":"` + responsestest.Sign(responsestest.Model, "rs_1", "hm") + `"},` +
	`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},` +
	`{"type":"function_call","call_id":"k1","name":"f","arguments":"{}"},{"type":"function_call","call_id":"k2","name":"f","arguments":"{}"},` +
	`{"type":"function_call_output","call_id":"k1","output":"x"},{"type":"function_call_output","call_id":"k2","output":[{"type":"input_text","text":"y"}]}],` +
	`"tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":false}],"max_output_tokens":16,` +
	`"reasoning":{"effort":"low","summary":"auto"},"include":["reasoning.encrypted_content"],"store":false,"stream":true}`

// TestCheck breaks each rule of the wire, one at a time.
func TestCheck(t *testing.T) {
	require.NoError(t, responsestest.Check([]byte(good)))
	const second = `{"type":"function_call_output","call_id":"k2","output":[{"type":"input_text","text":"y"}]}`
	for _, c := range []struct{ old, broken, want string }{
		{`"model":"gpt-test",`, ``, "'model'"},
		{`"store":false`, `"store":true`, "store"},
		{`"store":false,`, ``, "store"},
		{`"Be brief."`, `" "`, "instructions"},
		{`"max_output_tokens":16`, `"max_output_tokens":15`, "max_output_tokens"},
		{`"stream":true`, `"stream":true,"temperature":0.5`, "temperature"},
		{`"reasoning":{"effort":"low","summary":"auto"}`, `"temperature":2.5`, "between 0 and 2"},
		{`"effort":"low"`, `"effort":"huge"`, "effort"},
		{`"summary":"auto"`, `"summary":"long"`, "reasoning.summary"},
		{`["reasoning.encrypted_content"]`, `["everything"]`, "include"},
		{`"stream":true`, `"stream":true,"surprise":1`, "surprise"},
		{`"type":"function","name":"f"`, `"type":"function","name":"f g"`, "tools[0].name"},
		{`"tools":[`, `"tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":false},`, "not unique"},
		{`"parameters":{"type":"object"}`, `"parameters":{}`, "parameters"},
		{`,"strict":false`, ``, "strict"},
		{`{"type":"function","name"`, `{"type":"custom","name"`, "tools[0].type"},
		{good[strings.Index(good, `"input":[`)+9 : strings.Index(good, `],"tools"`)], ``, "'input'"},
		{`"role":"user"`, `"role":"system"`, "role"},
		{`"text":"a"`, `"text":"\n"`, "blank"},
		{`"text":"a"`, `"text":"a\u0000"`, "U+0000"},
		{`image/png`, `image/bmp`, "image_url"},
		{`base64,` + wiretest.PNG, `base64,A`, "image_url"},
		{`"role":"assistant"`, `"id":"msg_1","role":"assistant"`, "not persisted"},
		{`"output_text"`, `"input_text"`, "not allowed here"},
		{`[{"type":"output_text","text":"I look."}]`, `[]`, "empty"},
		{`"text":"hm"`, `"text":"hm."`, "could not be verified"},
		{`"id":"rs_1"`, `"id":"rs_2"`, "could not be verified"},
		{`"model":"gpt-test"`, `"model":"gpt-best"`, "could not be verified"},
		{`"summary":` + responsestest.Summary("hm") + `,`, ``, "'summary'"},
		{`"summary_text"`, `"text"`, "not allowed here"},
		{`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]}`, `{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}`, "required following item"},
		{`"type":"function_call","call_id":"k1"`, `"type":"function_call","id":"fc_1","call_id":"k1"`, "required 'reasoning' item"},
		{`"call_id":"k2","name"`, `"call_id":"k1","name"`, "not unique"},
		{`"call_id":"k1"`, `"call_id":"k:1"`, "malformed"},
		{`"call_id":"k1","name":"f"`, `"call_id":"k1","name":"f.g"`, "name"},
		{`"arguments":"{}"`, `"arguments":"[]"`, "no object"},
		{`"call_id":"k1","output"`, `"call_id":"k3","output"`, "no tool call found"},
		{`,` + second, ``, "no tool output found for function call k2"},
		{second, `{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]},` + second, "no tool output found"},
		{`{"type":"function_call","call_id":"k2"`, `{"type":"function_call_output","call_id":"k1","output":"x"},{"type":"function_call","call_id":"k2"`, "no tool call found"},
		{second, `{"type":"function_call","call_id":"k3","name":"f","arguments":"{}"},` + second, "no tool output found"},
		{`"output":"x"`, `"output":" "`, "blank"},
		{`"output":"x"`, `"output":7`, "output"},
		{`"output":[{"type":"input_text"`, `"output":[{"type":"output_text"`, "not allowed here"},
		{`{"type":"function_call_output"`, `{"type":"item_reference"`, "unknown"},
		{`Be brief.`, "\xff", "UTF-8"},
	} {
		broken := strings.Replace(good, c.old, c.broken, 1)
		require.NotEqual(t, good, broken, c.old)
		require.ErrorContains(t, responsestest.Check([]byte(broken)), c.want, broken)
	}
}
