package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/anthropic/anthropictest"
	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
)

// A coding task from end to end: read, edit, run, cancelled in a command, resumed by another process, continued on
// another wire, compacted twice. Each request is one that its backend takes, and the ledger verifies.
func TestCodingTask(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a, o := anthropictest.Start(t), openaitest.Start(t)
			env := []string{
				"ANTHROPIC_BASE_URL=" + a.URL(), "ANTHROPIC_API_KEY=sk-ant-test", "ANTHROPIC_MODEL=" + anthropictest.Model,
				"OPENAI_BASE_URL=" + o.URL(), "OPENAI_API_KEY=sk-test", "OPENAI_MODEL=test-model",
			}
			store, dir := newStore(t, kind), filepath.Join(t.TempDir(), "w")
			flags := []string{"--provider", "openai", "--workspace", dir, "--bash", "sandboxed"}
			call := func(id, name, arguments string) openaitest.Response {
				return openaitest.Stream(openaitest.CallHead(0, id, name), openaitest.CallArguments(0, arguments), openaitest.Finish("tool_calls"))
			}
			p := serve(t, store, env, flags...)
			p.create(`{"id":"s1","system":"Mend the program.","tools":["read","write","edit","bash"]}`)
			o.Push(
				call("c", "write", `{"path":"main.sh","content":"echo helo\n"}`),
				call("c", "read", `{"path":"main.sh"}`),
				call("c", "edit", `{"path":"main.sh","old":"helo","new":"hello"}`),
				call("c", "bash", `{"command":"sh main.sh; echo > started; sleep 30"}`),
			)
			p.input("s1", `{"text":"mend it","requestId":"r1"}`)
			require.Eventually(t, func() bool {
				found, _ := filepath.Glob(filepath.Join(dir, "*", "*", "started"))
				return len(found) == 1
			}, 20*time.Second, 10*time.Millisecond, "the command runs")
			require.Equal(t, http.StatusAccepted, p.call("POST", "/v1/sessions/s1/cancel", "").status)
			p.finished("s1", 1)
			p.stop()

			p = serve(t, store, env, flags...)
			o.Push(call("c", "bash", `{"command":"sh main.sh"}`), openaitest.Stream(openaitest.Text("It says hello."), openaitest.Finish("stop")))
			p.input("s1", `{"text":"go on","requestId":"r2"}`)
			p.finished("s1", 2)
			compact := func(summary string) {
				o.Push(openaitest.Stream(openaitest.Text(summary), openaitest.Finish("stop")))
				require.Equal(t, http.StatusAccepted, p.call("POST", "/v1/sessions/s1/compact", "").status)
				p.rested("s1")
				require.Zero(t, o.Pending())
			}
			compact("The program says hello now.")
			a.Push(
				anthropictest.Stream("tool_use", anthropictest.Thinking("Look again."), anthropictest.Call("toolu_1", "read", `{"path":"main.sh"}`)),
				anthropictest.Stream("end_turn", anthropictest.Text("One line, and right.")),
			)
			p.input("s1", `{"text":"check it","requestId":"r3","selection":{"model":"anthropic/`+anthropictest.Model+`","thinking":"low"}}`)
			p.until("s1", func(es []event) bool { return strings.Contains(string(es[len(es)-2].Payload), "One line, and right.") })
			compact("Mended and checked.")
			o.Push(openaitest.Stream(openaitest.Text("Done."), openaitest.Finish("stop")))
			p.input("s1", `{"text":"thanks","requestId":"r4"}`)
			last := p.rested("s1")
			p.stop()

			told := story(t, last)
			for _, part := range []string{
				"input mend it", "result 1: wrote 10 bytes to main.sh", "result 3: replaced 1 in main.sh",
				"interrupted: The call was interrupted: the user cancelled.", "cancelled aborted", "input go on", "hello", "It says hello.",
				"input check it", "One line, and right.", "input thanks", "Done.",
			} {
				i := strings.Index(told, part)
				require.GreaterOrEqual(t, i, 0, "%q is missing behind what came before it:\n%s", part, told)
				told = told[i+len(part):]
			}
			texts, _ := summarised(t, last)
			require.Equal(t, []string{"The program says hello now.", "Mended and checked."}, texts)
			found, err := filepath.Glob(filepath.Join(dir, "*", "*", "main.sh"))
			require.NoError(t, err)
			require.Len(t, found, 1)
			code, err := os.ReadFile(found[0])
			require.NoError(t, err)
			require.Equal(t, "echo hello\n", string(code))
			require.GreaterOrEqual(t, len(o.Requests()), 9)
			asked := o.Requests()
			require.Contains(t, *messagesOf(asked[7])[1].Content, "<earlier_summary>\nThe program says hello now.\n")
			require.Contains(t, *messagesOf(asked[7])[1].Content, "[Result of read]\n1\techo hello\n")
			require.True(t, strings.HasPrefix(heads(shown(messagesOf(asked[8])))[1], summaryHead+"Mended and check"), heads(shown(messagesOf(asked[8]))))
			require.Len(t, a.Requests(), 2)
			require.Contains(t, string(a.Requests()[0].Body), "Summary of the conversation before this point:")
			require.Contains(t, string(a.Requests()[1].Body), "echo hello")
			exit, out, errs := command(t, "verify", "--store", store)
			require.Zero(t, exit, out+errs)
		})
	}
}
