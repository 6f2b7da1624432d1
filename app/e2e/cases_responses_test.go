package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/anthropic/anthropictest"
	"github.com/keel-agent/keel/adapters/providers/openai/responses/responsestest"
)

// TestResponsesBesideMessages: a session on the Responses wire that asks another backend in between. Reasoning goes back to
// its model as it came, through the ledger and a restart, and never to the other; nothing is stored at the backend.
func TestResponsesBesideMessages(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		a, o := anthropictest.Start(t), responsestest.Start(t)
		env := []string{
			"ANTHROPIC_BASE_URL=" + a.URL(), "ANTHROPIC_API_KEY=sk-ant-test", "ANTHROPIC_MODEL=" + anthropictest.Model,
			"OPENAI_BASE_URL=" + o.URL(), "OPENAI_API_KEY=sk-test", "OPENAI_MODEL=" + responsestest.Model, "OPENAI_WIRE=responses",
		}
		const hard = "5 € 😀 <&> \u2028 \"q\" \\ "
		o.Push(
			responsestest.Completed(responsestest.Reasoning("rs_1", "Let me", hard), responsestest.Text("I compute."),
				responsestest.Call("call_1", "calculator", `{"expression":`, `"6*7"}`), responsestest.Call("call_1", "sleep", `{"ms":300}`)),
			responsestest.Completed(responsestest.Reasoning("rs_2"), responsestest.Text("It is 42.")),
			responsestest.Incomplete("max_output_tokens", responsestest.Text("Still")),
		)
		a.Push(anthropictest.Stream("end_turn", anthropictest.Thinking("Other thoughts."), anthropictest.Text("42 indeed.")))

		p := serve(t, store, env)
		p.create(`{"id":"s1","system":"Be brief.","tools":["calculator","sleep"]}`)
		p.input("s1", `{"text":"compute","requestId":"r1","selection":{"thinking":"low"}}`)
		p.finished("s1", 1)
		p.input("s1", fmt.Sprintf(`{"text":"sure?","requestId":"r2","selection":{"model":"anthropic/%s"}}`, anthropictest.Model))
		p.finished("s1", 2)
		if store != "memory:" {
			p.stop()
			p = serve(t, store, env)
		}
		p.input("s1", fmt.Sprintf(`{"text":"really?","requestId":"r3","selection":{"model":"openai-responses/%s"}}`, responsestest.Model))
		tells(t, p.finished("s1", 3),
			"input compute",
			"[1] tool_use: Let me\n\n"+hard+" | I compute. | calculator{\"expression\":\"6*7\"} | sleep{\"ms\":300}",
			"result 1: 42", "result 2: waited 300 ms", "[1] end_turn:  | It is 42.", "done end_turn",
			"input sure?", "[7] end_turn: Other thoughts. | 42 indeed.", "done end_turn",
			"input really?", "[10] length: Still", "done length",
		)
		p.stop()

		requests := o.Requests()
		require.Len(t, requests, 3)
		summary := strings.ReplaceAll(responsestest.Summary("Let me", hard), `\u2028`, "\u2028") // the same text, spelled otherwise
		for _, r := range requests[1:] {
			require.Contains(t, string(r.Body), `{"type":"reasoning","id":"rs_1","summary":`+summary+`,"encrypted_content":"`)
		}
		require.Contains(t, string(requests[2].Body), `{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"`)
		require.Contains(t, string(requests[0].Body), `"reasoning":{"effort":"low","summary":"auto"}`)
		require.NotContains(t, string(requests[2].Body), "Other thoughts.")
		require.NotContains(t, string(a.Requests()[0].Body), "Let me")
		require.NotContains(t, string(a.Requests()[0].Body), "rs_1")
	})
}
