package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/anthropic/anthropictest"
	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
)

// TestSwitchOfModelInMidSession: two backends side by side, one session. Thinking that one of them signed goes back to it
// byte for byte, through the ledger and a restart, and never to the other; each request is one that its backend takes.
func TestSwitchOfModelInMidSession(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		a, o := anthropictest.Start(t), openaitest.Start(t)
		env := []string{
			"ANTHROPIC_BASE_URL=" + a.URL(), "ANTHROPIC_API_KEY=sk-ant-test", "ANTHROPIC_MODEL=" + anthropictest.Model,
			"OPENAI_BASE_URL=" + o.URL(), "OPENAI_API_KEY=sk-test", "OPENAI_MODEL=test-model",
		}
		const hard = "5 € 😀 <&> \u2028 \"q\" \\ "
		a.Push(
			anthropictest.Stream("tool_use", anthropictest.Thinking("Let me ", hard), anthropictest.Redacted(), anthropictest.Text("I compute."),
				anthropictest.Call("toolu_1", "calculator", `{"expression":`, `"6*7"}`), anthropictest.Call("toolu_1", "sleep", `{"ms":300}`)),
			anthropictest.Stream("end_turn", anthropictest.Text("It is 42.")),
			anthropictest.Stream("end_turn", anthropictest.Thinking("Again."), anthropictest.Text("Still 42.")),
		)
		o.Push(openaitest.Stream(openaitest.Thinking("Other thoughts."), openaitest.Text("42 indeed."), openaitest.Finish("stop")))

		p := serve(t, store, env, "--provider", "anthropic")
		p.create(`{"id":"s1","system":"Be brief.","tools":["calculator","sleep"]}`)
		p.input("s1", `{"text":"compute","requestId":"r1","selection":{"thinking":"low"}}`)
		p.finished("s1", 1)
		p.input("s1", `{"text":"sure?","requestId":"r2","selection":{"model":"openai/test-model"}}`)
		p.finished("s1", 2)
		if store != "memory:" {
			p.stop()
			p = serve(t, store, env, "--provider", "anthropic")
		}
		p.input("s1", fmt.Sprintf(`{"text":"really?","requestId":"r3","selection":{"model":"anthropic/%s","thinking":"low"}}`, anthropictest.Model))
		tells(t, p.finished("s1", 3),
			"input compute",
			"[1] tool_use: Let me "+hard+" |  | I compute. | calculator{\"expression\":\"6*7\"} | sleep{\"ms\":300}",
			"result 1: 42", "result 2…", "[1] end_turn: It is 42.", "done end_turn",
			"input sure?", "[7] end_turn: Other thoughts. | 42 indeed.", "done end_turn",
			"input really?", "[10] end_turn: Again. | Still 42.", "done end_turn",
		)
		p.stop()

		requests := a.Requests()
		require.Len(t, requests, 3)
		replayed := `{"type":"thinking","thinking":"Let me 5 € 😀 <&> ` + "\u2028" + ` \"q\" \\ ","signature":"` + anthropictest.Sign(anthropictest.Model, "Let me "+hard) + `"}`
		for _, r := range requests[1:] {
			require.Contains(t, string(r.Body), replayed)
			require.Contains(t, string(r.Body), `{"type":"redacted_thinking","data":"`)
			require.Contains(t, string(r.Body), `"thinking":{"type":"enabled","budget_tokens":2048}`)
		}
		require.NotContains(t, string(requests[2].Body), "Other thoughts.")
		other := lastMessages(t, o, 1)[0]
		require.Equal(t, []string{
			"system: Be brief.", "user: compute", `assistant: I compute. calculator{"expression":"6*7"} sleep{"ms":300}`, "tool: 42",
		}, shown(other)[:4])
		require.NotContains(t, string(o.Requests()[0].Body), "redacted")
		require.NotContains(t, string(o.Requests()[0].Body), "Let me")
	})
}
