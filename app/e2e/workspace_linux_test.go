package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A coding task: the calls of one message run in its order, and another session sees nothing of it.
func TestWorkspace(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "w")
	p := serve(t, newStore(t, "sqlite"), nil, "--workspace", dir, "--bash", "sandboxed")
	p.create(`{"id":"S1","tools":["read","write","edit","bash","grep"]}`)
	p.input("S1", `{"text":"build it","selection":{"script":[
		{"toolCalls":[
			{"name":"write","arguments":{"path":"src/a.sh","content":"echo one\n"}},
			{"name":"bash","arguments":{"command":"sleep 0.2; echo 'echo two' >> src/a.sh"}},
			{"name":"edit","arguments":{"path":"src/a.sh","old":"two","new":"three"}},
			{"name":"bash","arguments":{"command":"sh src/a.sh; pwd; exit 3"}},
			{"name":"read","arguments":{"path":"/workspace/src/a.sh"}},
			{"name":"ls","arguments":{}}]},
		{"text":"built"}]}}`)
	tells(t, p.rested("S1"),
		"input build it",
		`[1] tool_use: write{"path":"src/a.sh","content":"echo one\n"} | bash{"command":"sleep 0.2; echo 'echo two' >> src/a.sh"}`+
			` | edit{"path":"src/a.sh","old":"two","new":"three"} | bash{"command":"sh src/a.sh; pwd; exit 3"}`+
			` | read{"path":"/workspace/src/a.sh"} | ls{}`,
		`result 6 error: There is no tool named "ls".`,
		"result 1: wrote 9 bytes to src/a.sh", "result 2: [no output]", "result 3: replaced 1 in src/a.sh",
		"result 4 error: one", "three", "/workspace", "[exit code 3]",
		`result 5 error: the path "/workspace/src/a.sh" is absolute: paths are relative to the workspace, such as src/main.go`,
		"[1] end_turn: built", "done end_turn",
	)
	p.create(`{"id":"s1","tools":["bash"]}`)
	p.input("s1", `{"text":"look","selection":{"script":[
		{"toolCalls":[{"name":"bash","arguments":{"command":"ls -A /workspace `+dir+`"}}]},{"text":"nothing"}]}}`)
	require.Contains(t, story(t, p.rested("s1")), "/workspace:\n[exit code 2]")
}

// A command does not outlive its server, nor does the next server run it again.
func TestKillWithACommand(t *testing.T) {
	t.Parallel()
	store, dir := newStore(t, "sqlite"), filepath.Join(t.TempDir(), "w")
	flags := []string{"--workspace", dir, "--bash", "sandboxed", "--lease-ttl", "1s", "--heartbeat", "200ms"}
	p := serve(t, store, nil, flags...)
	p.create(`{"id":"s","tools":["bash"]}`)
	argument := fmt.Sprint("8", time.Now().UnixNano()%1e9)
	p.input("s", `{"text":"wait","selection":{"script":[
		{"toolCalls":[{"name":"bash","arguments":{"command":"echo x >> ran; setsid sleep `+argument+` & wait"}}]},{"text":"it was cut off"}]}}`)
	require.Eventually(t, func() bool { return runsSleep(argument) }, 20*time.Second, 10*time.Millisecond)
	p.kill()
	require.Eventually(t, func() bool { return !runsSleep(argument) }, 2*time.Second, 10*time.Millisecond)
	p = serve(t, store, nil, flags...)
	require.Contains(t, story(t, p.rested("s")), "interrupted: The call was interrupted and may have had effects; its outcome is unknown.")
	ran, err := os.ReadFile(filepath.Join(dir, "default", "s", "ran"))
	require.NoError(t, err)
	require.Equal(t, "x\n", string(ran))
}

// runsSleep reports whether a sleep with the argument runs on this machine.
func runsSleep(argument string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if line, _ := os.ReadFile(file); strings.HasPrefix(string(line), "sleep\x00"+argument+"\x00") {
			return true
		}
	}
	return false
}

// Without flags there are no workspace tools: nobody can choose them, and a model that calls one is told.
func TestNoWorkspace(t *testing.T) {
	t.Parallel()
	p := serve(t, "memory:", nil)
	refused := p.call("POST", "/v1/sessions", `{"id":"s","tools":["time","bash"]}`)
	require.Equal(t, []string{"unknown_tool", "tools/1"}, []string{refused.field(t, "code"), refused.field(t, "field")})
	p.create(`{"id":"s","tools":["time"]}`)
	p.input("s", `{"text":"go","selection":{"script":[
		{"toolCalls":[{"name":"bash","arguments":{"command":"true"}}]},{"text":"no"}]}}`)
	require.Contains(t, story(t, p.rested("s")), `There is no tool named "bash".`)
}
