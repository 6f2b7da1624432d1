package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/gemini/geminitest"
	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
)

// TestSignaturesOnPartsOfEveryKind: the signatures of texts, thoughts and calls go through the ledger and a restart back to
// the model that gave them, byte for byte, and to no other backend; calls without ids find their results (K01, K11); the
// calls of the other backend are taken too. The backend checks each request.
func TestSignaturesOnPartsOfEveryKind(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		g, o := geminitest.Start(t), openaitest.Start(t)
		env := []string{
			"GEMINI_BASE_URL=" + g.URL(), "GOOGLE_API_KEY=AIza-test", "GEMINI_MODEL=" + geminitest.Model,
			"OPENAI_BASE_URL=" + o.URL(), "OPENAI_API_KEY=sk-test", "OPENAI_MODEL=test-model",
		}
		const hard = "5 € 😀 <&> \u2028 \"q\" \\ "
		call := geminitest.Signed(geminitest.Call("", "calculator", `{"expression":"6*7"}`))
		g.Push(
			geminitest.Stream(
				geminitest.Chunk(geminitest.Thinking("A summary.")), geminitest.Chunk(geminitest.Signed(geminitest.Thinking(hard))),
				geminitest.Chunk(geminitest.Text("I comp")), geminitest.Chunk(geminitest.Text("ute.")), geminitest.Chunk(geminitest.Signed(geminitest.Text(hard))),
				geminitest.Chunk(call), geminitest.Last("STOP", geminitest.Call("", "calculator", `{"expression":"6*7"}`)),
			),
			geminitest.Stream(geminitest.Chunk(geminitest.Text("It is 42.")), geminitest.Last("STOP", geminitest.Signed(geminitest.Text("")))),
			geminitest.Stream(geminitest.Last("STOP", geminitest.Text("Still 42."))),
		)
		o.Push(
			openaitest.Stream(openaitest.CallHead(0, "call_0", "calculator"), openaitest.CallArguments(0, `{"expression":"7*6"}`), openaitest.Finish("tool_calls")),
			openaitest.Stream(openaitest.Text("42 indeed."), openaitest.Finish("stop")),
		)

		p := serve(t, store, env, "--provider", "gemini")
		p.create(`{"id":"s1","system":"Be brief.","tools":["calculator"]}`)
		p.input("s1", `{"text":"compute","requestId":"r1","selection":{"thinking":"low"}}`)
		p.finished("s1", 1)
		p.input("s1", `{"text":"sure?","requestId":"r2","selection":{"model":"openai/test-model"}}`)
		p.finished("s1", 2)
		if store != "memory:" {
			p.stop()
			p = serve(t, store, env, "--provider", "gemini")
		}
		p.input("s1", `{"text":"really?","requestId":"r3"}`)
		p.finished("s1", 3)
		p.stop()

		requests := g.Requests()
		require.Len(t, requests, 3)
		for _, r := range requests[1:] {
			body := string(r.Body)
			require.NotContains(t, body, "A summary.")
			require.Contains(t, body, `,"thought":true,"thoughtSignature":"`+geminitest.Sign(geminitest.Model, "text true "+hard)+`"}`)
			require.Contains(t, body, `{"text":"I compute."},{"text":"5 € 😀 <&> `+"\u2028"+` \"q\" \\ ","thoughtSignature":"`+geminitest.Sign(geminitest.Model, "text false "+hard)+`"}`)
			require.Contains(t, body, `{"functionResponse":{"name":"calculator","response":{"output":"42"}}},{"functionResponse":{"name":"calculator","response":{"output":"42"}}}`)
		}
		require.Contains(t, string(requests[0].Body), `"thinkingLevel":"LOW"`)
		last := string(requests[2].Body)
		require.Contains(t, last, `{"text":"It is 42."},{"text":"","thoughtSignature":"`+geminitest.Sign(geminitest.Model, "text false ")+`"}`)
		require.Contains(t, last, `{"thoughtSignature":"`+geminitest.NoSignature+`","functionCall":{"name":"calculator","args":{"expression":"7*6"}}}`)
		for _, r := range lastMessages(t, o, 2) {
			require.Equal(t, []string{
				"system: Be brief.", "user: compute", `assistant: I compute.` + hard + ` calculator{"expression":"6*7"} calculator{"expression":"6*7"}`, "tool: 42", "tool: 42",
			}, shown(r)[:5])
		}
		require.NotContains(t, string(o.Requests()[0].Body), "ignature")
	})
}
