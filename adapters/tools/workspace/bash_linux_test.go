package workspace_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/tools/workspace"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
	"github.com/keel-agent/keel/ports/portstest"
)

// TestMain lets the test program be the server that another test kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv("KEEL_TEST_SERVER"); dir != "" {
		serveOneCall(dir, os.Getenv("KEEL_TEST_SANDBOX"), os.Getenv("KEEL_TEST_COMMAND"))
	}
	os.Exit(m.Run())
}

// working are the sandboxes that work here. There must be one, or nothing of them would be tested.
func working(t *testing.T) []workspace.Sandbox {
	t.Helper()
	var found []workspace.Sandbox
	for _, s := range workspace.Sandboxes() {
		if err := s.Probe(); err == nil {
			found = append(found, s)
		} else {
			t.Logf("%s does not work here: %v", s.Name, err)
		}
	}
	require.NotEmpty(t, found, "no sandbox works here: install bubblewrap or permit user namespaces")
	return found
}

// eachSandbox runs a test in every sandbox that works here.
func eachSandbox(t *testing.T, test func(t *testing.T, c workspace.Config)) {
	for _, s := range working(t) {
		t.Run(s.Name, func(t *testing.T) {
			test(t, workspace.Config{Bash: workspace.BashSandboxed, Sandboxes: []workspace.Sandbox{s}})
		})
	}
}

// eachShell runs a test without a sandbox, too.
func eachShell(t *testing.T, test func(t *testing.T, c workspace.Config)) {
	t.Run("unconfined", func(t *testing.T) { test(t, workspace.Config{Bash: workspace.BashUnconfined}) })
	eachSandbox(t, test)
}

func TestConformance(t *testing.T) {
	eachShell(t, func(t *testing.T, c workspace.Config) {
		portstest.TestTools(t, portstest.ToolsHarness{
			New: func(t *testing.T) ports.Tools {
				r := newRig(t, c)
				r.put("file", "text")
				return r.tools
			},
			Good: map[string]string{
				"read": `{"path":"file"}`, "write": `{"path":"new","content":""}`, "edit": `{"path":"file","old":"text","new":"other"}`, "ls": `{}`,
				"glob": `{"pattern":"*"}`, "grep": `{"pattern":"x"}`, "bash": `{"command":"true"}`,
			},
			Bad: map[string][]string{
				"read":  {`{}`, `{"path":""}`, `{"path":7}`, `{"path":"file","offset":0}`, `{"path":"file","limit":1.5}`, `{"path":"file","more":1}`},
				"write": {`{"path":"x"}`, `{"content":"x"}`, `{"path":"x","content":null}`},
				"edit":  {`{"path":"file","old":"text"}`, `{"path":"file","old":"text","new":"x","replaceAll":"yes"}`},
				"ls":    {`{"path":1}`, `{"dir":"."}`},
				"glob":  {`{}`, `{"pattern":""}`},
				"grep":  {`{}`, `{"pattern":"x","ignoreCase":1}`},
				"bash":  {`{}`, `{"command":""}`, `{"command":["ls"]}`, `{"command":"ls","timeout":601}`, `{"command":"ls","timeout":0}`},
			},
			Slow: &ports.ToolInvocation{ID: "c1", Name: "bash", Arguments: `{"command":"sleep 1000"}`},
		})
	})
}

// bash runs a command and returns what the model sees.
func (r *rig) bash(command string) (text string, isError bool) {
	r.t.Helper()
	return r.run("bash", arguments("command", command))
}

// bashFor is bash with a timeout in seconds.
func (r *rig) bashFor(seconds int, command string) (text string, isError bool) {
	r.t.Helper()
	return r.run("bash", fmt.Sprintf(`{"timeout":%d,%s`, seconds, strings.TrimPrefix(arguments("command", command), "{")))
}

func TestBash(t *testing.T) {
	eachShell(t, func(t *testing.T, c workspace.Config) {
		r := newRig(t, c)
		for _, s := range r.tools.Specs() {
			require.Equal(t, s.Name != "edit" && s.Name != "bash", s.ReplaySafe, s.Name)
		}
		for command, want := range map[string]string{
			"echo one; echo two >&2; echo three": "one\ntwo\nthree\n",
			"printf x > made; cat made":          "x\n",
			"true":                               "[no output]",
			"cat":                                "[no output]", // standard input is empty
			`[[ $PWD == "$HOME" ]] && echo home`: "home\n",
			"a=(1 2); diff <(echo 1) <(echo 1) && echo ${#a[@]}": "2\n",
		} {
			got, isError := r.bash(command)
			require.False(t, isError, "%s: %s", command, got)
			require.Equal(t, want, got, command)
		}
		require.Equal(t, "x", r.content("made"), "the workspace is the same for all tools")
		for command, want := range map[string]string{
			"echo so; exit 3": "so\n[exit code 3]", "kill -9 $$": "Killed", "nosuchprogram": "command not found",
			"echo \x00": "NUL", "if": "syntax error",
		} {
			got, isError := r.bash(command)
			require.True(t, isError, "%q: %s", command, got)
			require.Contains(t, got, want, "%q", command)
		}
	})
}

func TestBashEnvironmentIsEmpty(t *testing.T) {
	eachShell(t, func(t *testing.T, c workspace.Config) {
		t.Setenv("KEEL_TEST_SECRET", canary)
		t.Setenv("BASH_ENV", "/nowhere")
		r := newRig(t, c)
		got, isError := r.bash("env | sed 's/=.*//' | sort | tr '\\n' ' '; set | grep 'CANAR[Y]'; tr '\\0' '\\n' </proc/self/environ | grep 'CANAR[Y]'; true")
		require.False(t, isError, got)
		require.Equal(t, "HOME LANG PATH PWD SHLVL _ \n", got)
	})
}

// TestBashOutput: K27, and outputs that are too large or no text.
func TestBashOutput(t *testing.T) {
	eachShell(t, func(t *testing.T, c workspace.Config) {
		r := newRig(t, c)
		got, _ := r.bash(`printf 'a%.0s' {1..15359}; printf 'é%.0s' {1..20000}; printf 'b%.0s' {1..15359}`)
		require.True(t, utf8.ValidString(got))
		require.Equal(t, strings.Repeat("a", 15359)+"\n[cut: 40000 of 70718 bytes are missing here]\n"+strings.Repeat("b", 15359)+"\n", got)
		got, _ = r.bash("yes | head -c 50000000")
		require.Less(t, len(got), 31<<10)
		require.Contains(t, got, "of 50000000 bytes are missing here")
		got, isError := r.bashFor(1, "yes")
		require.True(t, isError)
		require.Less(t, len(got), 31<<10)
		require.Contains(t, got, "[stopped after 1s; everything that it started was killed]")
		got, _ = r.bash(`printf '\xff\xfe caf\xe9 \x00 \xc3('`)
		require.Equal(t, "\uFFFD caf\uFFFD \x00 \uFFFD(\n", got)
	})
}

// sleeper is an argument of sleep that tells the processes of this test from all others.
func sleeper() string { return fmt.Sprintf("9%d", time.Now().UnixNano()%1e9) }

// running returns the processes of this machine that have the argument.
func running(argument string) []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range dirs {
		line, _ := os.ReadFile(file)
		if args := bytes.Split(line, []byte{0}); len(args) > 1 && string(args[0]) == "sleep" && string(args[1]) == argument {
			found = append(found, filepath.Dir(file))
		}
	}
	return found
}

// requireRunning waits until lasting has started all that it starts.
func requireRunning(t *testing.T, s string, c workspace.Config) {
	t.Helper()
	want := len(stayers(s, c.Bash == workspace.BashSandboxed)) + 1 // one of them starts two
	require.Eventually(t, func() bool { return len(running(s)) == want }, 20*time.Second, 10*time.Millisecond)
}

func requireGone(t *testing.T, argument string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(running(argument)) == 0 }, 20*time.Second, 5*time.Millisecond, "processes are left")
}

// stayers start processes that would outlive the command. The last ones leave its process group, so that only a sandbox
// ends them.
func stayers(s string, sandboxed bool) []string {
	list := []string{
		"sleep %[1]s & echo started",
		"sleep %[1]s & disown; echo started",
		"nohup sleep %[1]s >/dev/null 2>&1 & echo started",
		"(trap '' TERM HUP INT; sleep %[1]s) & (sleep %[1]s &) ; echo started",
		"coproc sleep %[1]s; echo started",
	}
	if sandboxed {
		list = append(list,
			"setsid sleep %[1]s & echo started",
			"setsid -f sleep %[1]s; echo started",
			"(setsid bash -c '(setsid sleep %[1]s >/dev/null 2>&1 </dev/null &) &' &); echo started",
			"set -m; sleep %[1]s & echo started",
		)
	}
	for i := range list {
		list[i] = fmt.Sprintf(list[i], s)
	}
	return list
}

// lasting is all that stayers does, by a command that does not end and ignores SIGTERM.
func lasting(s string, c workspace.Config) string {
	return "trap '' TERM; " + strings.Join(stayers(s, c.Bash == workspace.BashSandboxed), "; ") + "; while :; do sleep 0.1; done"
}

func TestNothingOutlivesItsCall(t *testing.T) {
	eachShell(t, func(t *testing.T, c workspace.Config) {
		r := newRig(t, c)
		s := sleeper()
		for _, command := range stayers(s, c.Bash == workspace.BashSandboxed) {
			began := time.Now()
			got, isError := r.bash(command)
			require.False(t, isError, got)
			require.Equal(t, "started\n", got, command)
			require.Less(t, time.Since(began), 30*time.Second)
			requireGone(t, s)
		}
		got, isError := r.bashFor(1, lasting(s, c))
		require.True(t, isError, got)
		require.Contains(t, got, "started\n[stopped after 1s", "what it printed is kept")
		requireGone(t, s)
	})
}

// TestCancellationKillsAll: SIGTERM is ignored, so that only SIGKILL ends the processes. The best of three counts, for
// the machine may be busy.
func TestCancellationKillsAll(t *testing.T) {
	eachShell(t, func(t *testing.T, c workspace.Config) {
		r := newRig(t, c)
		best := time.Hour
		for try := 0; try < 3 && best > time.Second; try++ {
			s := sleeper()
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("the user cancelled")
			result := make(chan error, 1)
			go func() {
				_, err := r.call(ctx, "bash", arguments("command", lasting(s, c)))
				result <- err
			}()
			requireRunning(t, s, c)
			began := time.Now()
			cancel(cause)
			require.ErrorIs(t, <-result, cause)
			requireGone(t, s)
			best = min(best, time.Since(began))
		}
		require.LessOrEqual(t, best, time.Second)
	})
}

// TestWhoLeavesTheGroupIsNotWaitedFor: without a sandbox such a process stays, but the call ends although it could print.
func TestWhoLeavesTheGroupIsNotWaitedFor(t *testing.T) {
	r := newRig(t, workspace.Config{Bash: workspace.BashUnconfined})
	s := sleeper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, err := r.call(ctx, "bash", arguments("command", "setsid sleep "+s+" & echo started; until pgrep -f 'sleep "+s+"' >/dev/null; do :; done"))
	for _, dir := range running(s) {
		pid, convErr := strconv.Atoi(filepath.Base(dir))
		require.NoError(t, convErr)
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	require.NoError(t, err)
	require.Equal(t, "started\n", out.Content[0].Text)
}

func TestTheGroupIsAskedFirst(t *testing.T) {
	r := newRig(t, workspace.Config{Bash: workspace.BashUnconfined})
	got, isError := r.bashFor(1, "trap 'echo bye > asked; exit' TERM; while :; do sleep 0.05; done")
	require.True(t, isError, got)
	require.Equal(t, "bye\n", r.content("asked"))
}

// TestForkBomb: the bomb is stopped long before its timeout. It would burn out at 2048 processes.
func TestForkBomb(t *testing.T) {
	eachSandbox(t, func(t *testing.T, c workspace.Config) {
		r := newRig(t, c)
		s := sleeper()
		got, isError := r.bashFor(30, `bomb() { (($1)) || exec sleep `+s+`; bomb $(($1 - 1)) & bomb $(($1 - 1)); }; bomb 11; sleep 60`)
		require.True(t, isError, got)
		require.NotContains(t, got, "stopped after", "it was stopped by its number of processes")
		requireGone(t, s)
	})
}

func TestLimitsOfFiles(t *testing.T) {
	eachShell(t, func(t *testing.T, c workspace.Config) {
		r := newRig(t, c)
		got, isError := r.bash("truncate -s 1G fine && ulimit -c && trap '' XFSZ && truncate -s 3G large")
		require.True(t, isError, got)
		require.Contains(t, got, "0\n")
		require.Contains(t, got, "File too large")
	})
}

// serveOneCall is a server that runs one command in the named sandbox.
func serveOneCall(dir, sandbox, command string) {
	named := slices.DeleteFunc(workspace.Sandboxes(), func(s workspace.Sandbox) bool { return s.Name != sandbox })
	tools, err := workspace.New(workspace.Config{Dir: dir, Bash: workspace.BashSandboxed, Sandboxes: named})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = tools.Execute(context.Background(), ports.ToolInvocation{
		Ref: domain.SessionRef{Tenant: "t", Session: "s"}, Name: "bash", Arguments: arguments("command", command),
	})
	os.Exit(0)
}

// TestServerIsKilled: what a sandbox runs ends with the server, however that ends.
func TestServerIsKilled(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	eachSandbox(t, func(t *testing.T, c workspace.Config) {
		s := sleeper()
		p, err := os.StartProcess(program, []string{program}, &os.ProcAttr{
			Env: []string{
				"KEEL_TEST_SERVER=" + t.TempDir(), "KEEL_TEST_SANDBOX=" + c.Sandboxes[0].Name, "KEEL_TEST_COMMAND=" + lasting(s, c),
				"PATH=" + os.Getenv("PATH"),
			},
			Files: []*os.File{nil, os.Stderr, os.Stderr},
		})
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.Kill() })
		requireRunning(t, s, c)
		require.NoError(t, p.Signal(syscall.SIGKILL))
		_, err = p.Wait()
		require.NoError(t, err)
		requireGone(t, s)
	})
}
