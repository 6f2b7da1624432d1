package mcp

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/tools/output"
	"github.com/keel-agent/keel/ports"
	"github.com/keel-agent/keel/ports/portstest"
)

func TestConformance(t *testing.T) {
	d := itself(t, "plain")
	d.Tools = []string{"echo", "env", "pid", "wait"}
	portstest.TestTools(t, portstest.ToolsHarness{
		New:  func(t *testing.T) ports.Tools { tools, _ := run(t, d); return waitless{tools} },
		Good: map[string]string{"s__echo": `{"text":"x"}`, "s__env": `{}`, "s__pid": `{}`},
		Bad:  map[string][]string{"s__echo": {`{}`, `{"text":7}`, `{"text":"a","text":"b"}`}},
		Slow: &ports.ToolInvocation{ID: "c1", Name: "s__wait", Arguments: `{}`},
	})
}

// waitless hides the tool that never answers, for which there are no good arguments.
type waitless struct{ ports.Tools }

func (w waitless) Specs() []ports.ToolSpec {
	var specs []ports.ToolSpec
	for _, s := range w.Tools.Specs() {
		if s.Name != "s__wait" {
			specs = append(specs, s)
		}
	}
	return specs
}

func TestArgumentsArriveAsTheModelWroteThem(t *testing.T) {
	tools, _ := run(t, itself(t, "plain"))
	const args = `{"text":"é\u2028","n":12345678901234567890.10,"deep":[{"a":null}]}`
	require.JSONEq(t, args, said(t, tools, "s__echo", args))
	require.Contains(t, said(t, tools, "s__echo", args), "12345678901234567890.10")
	text := failure(t, tools, "s__echo", `{"text":1}`)
	require.Contains(t, text, "/properties/text")
	require.Contains(t, text, `"required":["text"]`, "the schema helps the model")
}

func TestTheEnvironmentIsEmpty(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "s3cret")
	t.Setenv("GIVEN", "g")
	d := itself(t, "plain")
	d.Env["TOKEN"] = "t ${GIVEN}"
	tools, _ := run(t, d)
	env := strings.Split(said(t, tools, "s__env", `{}`), "\n")
	require.ElementsMatch(t, []string{
		"HOME=" + os.Getenv("HOME"), "PATH=" + os.Getenv("PATH"), peerMode + "=plain", "TOKEN=t g",
	}, env)
}

func TestNoiseOnStandardOutputIsLogged(t *testing.T) {
	tools, logs := run(t, itself(t, "chatty"))
	require.Equal(t, `{"text":"x"}`, said(t, tools, "s__echo", `{"text":"x"}`))
	require.Equal(t, 5, logs.FilterMessage("stdout: not a message").Len())
	eventually(t, "what it says on standard error is logged", func() bool { return logs.FilterMessage("stderr").Len() == 1 })
}

func TestADyingServerIsAnErrorAndComesBack(t *testing.T) {
	tools, _ := run(t, itself(t, "plain"))
	first := said(t, tools, "s__pid", `{}`)
	require.Contains(t, failure(t, tools, "s__die", `{}`), "outcome is unknown")
	require.Contains(t, names(tools), "s__pid", "its tools stay known")
	second := said(t, tools, "s__pid", `{}`)
	require.NotEqual(t, first, second, "the call waited for the new process")
}

func TestAServerThatCannotStart(t *testing.T) {
	for mode, want := range map[string]string{"quitter": "", "deaf": "did not answer within 100ms"} {
		d := itself(t, mode)
		d.Connect = 100 * time.Millisecond
		tools, logs := run(t, d)
		require.Empty(t, tools.Specs())
		require.Contains(t, failure(t, tools, "s__echo", `{}`), "its tools are not known")
		eventually(t, "the log tells", func() bool { return logs.FilterMessage("not connected").Len() > 0 })
		require.Contains(t, logs.FilterMessage("not connected").All()[0].ContextMap()["error"], want)
	}
	tools, _ := run(t, Server{Command: "/no/such/program", Startup: lazy})
	require.Empty(t, tools.Specs())
}

func TestOutputIsBounded(t *testing.T) {
	tools, _ := run(t, itself(t, "plain"))
	text := said(t, tools, "s__big", `{}`)
	require.Less(t, len(text), output.DefaultLimit+100)
	require.Contains(t, text, "[cut: the first 65536 of 2097152 bytes]")

	require.Contains(t, failure(t, tools, "s__huge", `{}`), "connection", "more than a message may have ends the connection")
	require.Equal(t, `{"text":"x"}`, said(t, tools, "s__echo", `{"text":"x"}`))

	d := itself(t, "endless")
	d.Connect = 5 * time.Second
	tools, _ = run(t, d)
	require.Empty(t, tools.Specs())
}

func TestServersThatKnowOnlyOldHandshakes(t *testing.T) {
	d := itself(t, "old")
	d.Connect = 500 * time.Millisecond
	tools, _ := run(t, d)
	eventually(t, "the second attempt begins otherwise", func() bool { return len(tools.Specs()) > 0 })
	require.Equal(t, `{"text":"x"}`, said(t, tools, "s__echo", `{"text":"x"}`))
}

func alive(pid int) bool {
	state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !errors.Is(err, os.ErrNotExist)
	}
	return !strings.Contains(string(state), ") Z ")
}

func TestTheWholeGroupEndsWithTheServer(t *testing.T) {
	for _, end := range []string{"close", "death"} {
		tools, _ := run(t, itself(t, "plain"))
		child, err := strconv.Atoi(said(t, tools, "s__child", `{}`))
		require.NoError(t, err)
		pid, err := strconv.Atoi(said(t, tools, "s__pid", `{}`))
		require.NoError(t, err)
		require.True(t, alive(child))
		if end == "close" {
			closeSoon(t, tools)
			require.False(t, alive(pid))
		} else {
			failure(t, tools, "s__die", `{}`)
		}
		eventually(t, "a child outlives its server", func() bool { return !alive(child) })
	}
}

func TestClosingNeverHangs(t *testing.T) {
	d := itself(t, "deaf")
	d.Connect = time.Hour
	tools, err := New(Config{Servers: map[string]Server{"s": d}, Lookup: os.LookupEnv, Log: zap.NewNop()})
	require.NoError(t, err)
	tools.Start()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tools.Close(ctx)
	require.Contains(t, failure(t, tools, "s__echo", `{}`), "its tools are not known")

	never, err := New(Config{Servers: map[string]Server{"s": d}, Lookup: os.LookupEnv, Log: zap.NewNop()})
	require.NoError(t, err)
	never.Close(t.Context())
}

func TestACallThatOutlivesTheServer(t *testing.T) {
	tools, _ := run(t, itself(t, "plain"))
	result := make(chan ports.ToolOutput, 1)
	pid, err := strconv.Atoi(said(t, tools, "s__pid", `{}`))
	require.NoError(t, err)
	go func() {
		out, _ := tools.Execute(t.Context(), ports.ToolInvocation{ID: "c1", Name: "s__wait", Arguments: `{}`})
		result <- out
	}()
	eventually(t, "the call is under way", func() bool {
		s := tools.servers["s"]
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.calls == 1
	})
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	out := <-result
	require.True(t, out.IsError)
	require.Contains(t, out.Content[0].Text, "failed")
}

func TestBoundedLines(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "\n\n": "", "a\nb": "a|b|", "a\r\nb\n": "a|b|", "abcd\nabcde\nx\n": "abcd|abcd!|x|", "abcdefghij": "abcd!|",
		strings.Repeat("x", 200<<10) + "\nab\n" + strings.Repeat("y", 70<<10): "xxxx!|ab|yyyy!|",
	} {
		var got strings.Builder
		for line := range boundedLines(strings.NewReader(in), 4) {
			got.Write(line.text)
			if line.cut {
				got.WriteString("!")
			}
			got.WriteString("|")
		}
		require.Equal(t, want, got.String())
	}
}

// A process that does not read holds up neither a call that is cancelled nor the end.
func TestAServerThatDoesNotRead(t *testing.T) {
	tools, _ := run(t, itself(t, "plain"))
	pid, err := strconv.Atoi(said(t, tools, "s__pid", `{}`))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	cause := errors.New("cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	result := make(chan error, 1)
	go func() {
		args := `{"text":"` + strings.Repeat("x", 512<<10) + `"}` // more than a pipe holds
		_, err := tools.Execute(ctx, ports.ToolInvocation{ID: "c1", Name: "s__echo", Arguments: args})
		result <- err
	}()
	eventually(t, "the call is under way", func() bool {
		s := tools.servers["s"]
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.calls == 1 && strings.Contains(stacks(), "mcp.(*ioConn).Write")
	})
	cancel(cause)
	select {
	case err := <-result:
		require.ErrorIs(t, err, cause)
	case <-time.After(deadline):
		t.Fatal("the call goes on")
	}
	closeSoon(t, tools)
	require.False(t, alive(pid))
}

func stacks() string {
	buffer := make([]byte, 1<<20)
	return string(buffer[:runtime.Stack(buffer, true)])
}
