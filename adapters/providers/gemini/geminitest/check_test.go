package geminitest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/gemini/geminitest"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
)

const good = `{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"text":"a"},{"inlineData":{"mimeType":"image/png","data":"` + wiretest.PNG + `"}}]},
	{"role":"model","parts":[{"text":"T","thought":true,"thoughtSignature":"SIGT"},{"text":"","thoughtSignature":"SIGE"},{"functionCall":{"id":"1","name":"f","args":{}},"thoughtSignature":"SIGC"},{"functionCall":{"name":"g","args":{}}}]},
	{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{"output":"x"}}},{"functionResponse":{"name":"g","response":{"error":"y"}}}]},
	{"role":"user","parts":[{"text":"b"}]}],
	"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"type":"object"}},{"name":"g"}]}],
	"generationConfig":{"temperature":1,"maxOutputTokens":9,"thinkingConfig":{"thinkingLevel":"LOW"}}}`

func sign(body string) []byte {
	for mark, said := range map[string]string{"SIGT": "text true T", "SIGE": "text false ", "SIGC": "call f {}"} {
		body = strings.ReplaceAll(body, mark, geminitest.Sign(geminitest.Model, said))
	}
	return []byte(body)
}

// TestCheck: a good request is taken, and each change that breaks a rule is refused for that.
func TestCheck(t *testing.T) {
	require.NoError(t, geminitest.Check(geminitest.Model, sign(good)))
	for _, c := range []struct{ part, by, want string }{
		{`"s"`, `" "`, "system_instruction"},
		{`{"parts":[{"text":"s"}]}`, `{"parts":[]}`, "system_instruction"},
		{`"text":"a"`, `"text":"\u0000"`, "U+0000"},
		{`"text":"a"`, `"text":" "`, "must not be blank"},
		{`"text":"a"`, `"text":"a","thoughtSignature":"SIGE"`, "not allowed in a turn of the user"},
		{`{"text":"a"},`, `{},`, "oneof field"},
		{`"text":"a"`, `"words":"a"`, "unknown field"},
		{`"text":"a"`, "\"text\":\"\xff\"", "UTF-8"},
		{`image/png`, `image/gif`, "inline_data"},
		{`"` + wiretest.PNG + `"`, `"A"`, "inline_data"},
		{`"role":"model"`, `"role":"user"`, "alternate"},
		{`,"thoughtSignature":"SIGT"`, ``, "only for signed text"},
		{`"text":"T"`, `"text":"t"`, "corrupted thought signature"},
		{`"text":""`, `"text":"e"`, "corrupted thought signature"},
		{`"name":"f","args":{}`, `"name":"f","args":{"a":1}`, "corrupted thought signature"},
		{`,"thoughtSignature":"SIGC"`, ``, "missing a thought_signature"},
		{`,"thoughtSignature":"SIGE"`, ``, "must not be blank"},
		{`"name":"g","args":{}`, `"name":"g","args":[]`, "must be an object"},
		{`"name":"g","args"`, `"name":"7","args"`, "is invalid"},
		{`{"name":"g","args"`, `{"id":"1","name":"g","args"`, "not unique"},
		{`"functionResponse":{"id":"1"`, `"functionResponse":{"id":"2"`, "the response to f"},
		{`{"functionResponse":{"name":"g","response":{"error":"y"}}}`, `{"text":"c"}`, "number of function response parts"},
		{`,{"functionResponse":{"name":"g","response":{"error":"y"}}}`, ``, "has its response"},
		{`{"error":"y"}}}]}`, `{"error":"y"}}},{"text":"c"}]}`, "behind function responses"},
		{`{"role":"user","parts":[{"text":"b"}]}`, `{"role":"user","parts":[{"text":"b"}]},{"role":"user","parts":[{"text":"c"}]}`, "alternate"},
		{`{"text":"b"}`, `{"functionResponse":{"name":"g","response":{}}}`, "number of function response parts"},
		{`{"output":"x"}`, `"x"`, "function_response.response"},
		{`"role":"user","parts":[{"functionResponse"`, `"role":"user","parts":[],"x":[{"functionResponse"`, "unknown field"},
		{`{"type":"object"}`, `{"type":"string"}`, "parameters_json_schema"},
		{`{"name":"g"}]`, `{"name":"f"}]`, "duplicate"},
		{`{"name":"g"}]`, `{"name":"ä"}]`, "invalid function name"},
		{`"temperature":1`, `"temperature":3`, "temperature"},
		{`"maxOutputTokens":9`, `"maxOutputTokens":0`, "max_output_tokens"},
		{`"thinkingLevel":"LOW"`, `"thinkingLevel":"low"`, "thinking_level"},
		{`"thinkingLevel":"LOW"`, `"thinkingLevel":"LOW","thinkingBudget":1`, "cannot be set both"},
		{`"thinkingLevel":"LOW"`, `"thinkingBudget":99999`, "thinking budget"},
	} {
		require.Contains(t, good, c.part)
		require.ErrorContains(t, geminitest.Check(geminitest.Model, sign(strings.Replace(good, c.part, c.by, 1))), c.want, "%s in place of %s", c.by, c.part)
	}
	require.ErrorContains(t, geminitest.Check("gemini-4-test", sign(good)), "corrupted thought signature", "another model")
	require.ErrorContains(t, geminitest.Check("gemini-2.5-pro", []byte(`{"contents":[{"role":"user","parts":[{"text":"a"}]}],"generationConfig":{"thinkingConfig":{"thinkingLevel":"LOW"}}}`)), "not supported")
	require.ErrorContains(t, geminitest.Check(geminitest.Model, []byte(`{"contents":[]}`)), "contents is not specified")
	require.ErrorContains(t, geminitest.Check(geminitest.Model, []byte(`{"contents":[{"role":"user","parts":[]}]}`)), "must not be empty")
	require.ErrorContains(t, geminitest.Check(geminitest.Model, []byte(`{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"}]}]}`)), "must end with a user turn")
	many := `{"contents":[{"role":"user","parts":[{"text":"a"}]}],"tools":[{"functionDeclarations":[` + strings.Repeat(`{},`, 512) + `{}]}]}`
	require.ErrorContains(t, geminitest.Check(geminitest.Model, []byte(many)), "At most 512 function declarations")
	require.ErrorContains(t, geminitest.Check(geminitest.Model, []byte(`{"contents":[{"role":"user","parts":[{"text":"a"}]}],"tools":[{}]}`)), "empty")
}
