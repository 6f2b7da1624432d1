package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// command runs keel to its end.
func command(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, keel, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = withoutSettings(os.Environ()), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// talk is a keel chat over pipes.
type talk struct {
	t         *testing.T
	in        io.WriteCloser
	cmd       *exec.Cmd
	out, errs *lockedBuffer
	ended     chan struct{}
}

func chat(t *testing.T, url string, args ...string) *talk {
	t.Helper()
	c := &talk{t: t, out: &lockedBuffer{}, errs: &lockedBuffer{}, ended: make(chan struct{})}
	c.cmd = exec.CommandContext(t.Context(), keel, append([]string{"chat", "--server", url}, args...)...)
	c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = withoutSettings(os.Environ()), c.out, c.errs
	in, err := c.cmd.StdinPipe()
	require.NoError(t, err)
	c.in = in
	require.NoError(t, c.cmd.Start())
	go func() {
		defer close(c.ended)
		_ = c.cmd.Wait()
	}()
	return c
}

func (c *talk) say(line string) {
	c.t.Helper()
	_, err := io.WriteString(c.in, line+"\n")
	require.NoError(c.t, err)
}

// sees waits until the output, or what is said beside it, matches.
func (c *talk) sees(pattern string) {
	c.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !regexp.MustCompile(pattern).MatchString(c.out.String() + c.errs.String()); {
		if time.Now().After(deadline) {
			c.t.Fatalf("never seen: %s\n%s\n%s", pattern, c.out, c.errs)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// ends waits for the end and wants the exit code.
func (c *talk) ends(code int) {
	c.t.Helper()
	select {
	case <-c.ended:
		require.Equal(c.t, code, c.cmd.ProcessState.ExitCode(), "%s\n%s", c.out, c.errs)
	case <-time.After(30 * time.Second):
		c.t.Fatalf("the chat does not end\n%s\n%s", c.out, c.errs)
	}
}

// script writes a script of the fake provider: each turn sleeps, then says that it rested.
func script(t *testing.T, ms int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script.json")
	text := fmt.Sprintf(`[{"text":"let me see","toolCalls":[{"name":"sleep","arguments":{"ms":%d}}]},{"text":"rested\nwell"}]`, ms)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestChat(t *testing.T) {
	t.Parallel()
	p := serve(t, "memory:", nil, "--provider", "fake", "--script", script(t, 1500))
	c := chat(t, p.url, "s1", "--create", "--tools", "sleep")
	c.say("go")
	c.sees(`call sleep`)
	c.say("/guide be brief")
	c.sees(`\[6\] run done`)
	c.say("/guide again")
	c.sees(`\* no turn is running, so this begins one`)
	c.sees(`\[8\] call sleep`)
	c.say("/cancel")
	c.sees(`\[10\] run cancelled`)
	c.say("/cancel")
	c.sees(`\* no run to cancel`)
	c.say("/nonsense")
	c.sees(`\* not understood: /nonsense`)
	c.say("never mind")
	c.sees(`\[12\] call sleep`)
	require.NoError(t, c.in.Close()) // the rest is waited for
	c.ends(0)
	text := regexp.MustCompile(`, \d+\.?\d*m?s\n`).ReplaceAllString(c.out.String(), ", a while\n")
	require.Equal(t, `[1] you: go
[2] agent: let me see
[2] call sleep {"ms":1500}
[3] you (guide): be brief
[4] sleep → waited 1500 ms
[5] agent: rested
    well
[6] run done, 2 turns, a while
[7] you: again
[8] agent: let me see
[8] call sleep {"ms":1500}
[9] sleep failed → The call was interrupted: the user cancelled.
[10] run cancelled, 1 turn, a while
[11] you: never mind
[12] agent: let me see
[12] call sleep {"ms":1500}
[13] sleep → waited 1500 ms
[14] agent: rested
    well
[15] run done, 2 turns, a while
`, text)
	events := p.events("s1")
	require.Contains(t, string(events[4].Payload), `"inputSeqs":[1,3]`, "the guide joined the turn")

	again := chat(t, p.url, "s1") // sees the same, and leaves at once although nothing was asked
	again.sees(`\[15\] run done`)
	again.say("/quit")
	again.ends(0)
	require.Equal(t, c.out.String(), again.out.String())

	p.create(`{"id":"s2"}`)
	p.input("s2", `{"text":"hi","requestId":"r1","selection":{"script":[{"text":"half an ans","error":{"status":401,"message":"no"}},{"text":"whole"}]}}`)
	p.finished("s2", 1)
	retried := chat(t, p.url, "s2")
	retried.sees(`\[2\] agent \(error\): half an ans — .*\n\[3\] run failed, 1 turn, .*: .*no`)
	retried.say("/retry")
	retried.sees(`\[4\] agent: whole`)
	require.NoError(t, retried.in.Close())
	retried.ends(0)
	p.stop()
}

func TestChatExits(t *testing.T) {
	t.Parallel()
	p := serve(t, "memory:", nil, "--provider", "fake")
	echo := chat(t, p.url)
	echo.say("hello")
	echo.sees(`\[3\] run done`)
	echo.say("/retry")
	echo.sees(`\* nothing waits for an answer`)
	require.NoError(t, echo.in.Close())
	echo.ends(0)
	require.Contains(t, echo.out.String(), "[2] agent: echo: hello\n[3] run done")
	require.Regexp(t, `^\* session [0-9a-f-]{36}, new; `, echo.errs.String())

	interrupted := chat(t, p.url)
	interrupted.say("hello")
	interrupted.sees(`run done`)
	require.NoError(t, interrupted.cmd.Process.Signal(os.Interrupt))
	interrupted.ends(0)

	missing := chat(t, p.url, "nowhere")
	missing.ends(1)
	require.Contains(t, missing.errs.String(), "--create")

	p.create(`{"id":"s1","tools":["sleep"]}`)
	p.input("s1", `{"text":"go","requestId":"r1","selection":{"script":[{"toolCalls":[{"name":"sleep","arguments":{"ms":60000}}]}]}}`)
	quit := chat(t, p.url, "s1")
	quit.say("after that")
	quit.say("/quit")
	quit.ends(0)
	require.Equal(t, 2, count(p.events("s1"), "user.message"), "what was said before /quit is sent")
	unanswered := chat(t, p.url, "s1")
	unanswered.say("and that")
	unanswered.say("/cancel")
	require.NoError(t, unanswered.in.Close())
	unanswered.ends(1)
	require.Contains(t, unanswered.errs.String(), "1 of what was said is unanswered")

	require.Equal(t, http.StatusOK, p.call("POST", "/v1/sessions/s1/close", "").status)
	closed := chat(t, p.url, "s1")
	closed.say("too late")
	require.NoError(t, closed.in.Close())
	closed.ends(1)
	require.Contains(t, closed.errs.String(), "session_closed")
	p.stop()

	down := chat(t, p.url, "s1")
	down.ends(1)
}

// A chat goes on across a restart: each event is shown once and what was said in between is said once.
func TestChatAcrossARestart(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*process){"kill": (*process).kill, "drain": (*process).stop} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t, "sqlite")
			flags := []string{
				"--provider", "fake", "--script", script(t, 3000), "--auth", "token",
				"--lease-ttl", "1s", "--heartbeat", "300ms", "--drain-grace", "100ms",
			}
			first := serve(t, store, nil, flags...)
			c := chat(t, first.url, "s1", "--create", "--tools", "sleep", "--store", store)
			c.say("go")
			c.sees(`call sleep`)
			end(first)
			c.say("typed meanwhile")
			c.sees(`\* not sent yet: .*trying again`)
			second := serve(t, store, nil, append(flags, "--listen", strings.TrimPrefix(first.url, "http://"))...)
			require.NoError(t, c.in.Close())
			c.ends(0)
			var seqs []string
			for _, m := range regexp.MustCompile(`(?m)^\[(\d+)\] (you|agent|sleep|run)`).FindAllStringSubmatch(c.out.String(), -1) {
				seqs = append(seqs, m[1])
			}
			for i, seq := range seqs {
				require.Equal(t, fmt.Sprint(i+1), seq, c.out)
			}
			require.Equal(t, 1, strings.Count(c.out.String(), "you: typed meanwhile"), c.out)
			code, out, errs := command(t, "events", "tail", "s1", "--store", store, "--server", "http://127.0.0.1:1", "--once")
			require.Equal(t, 1, code, out+errs)
			tail := exec.CommandContext(t.Context(), keel, "events", "tail", "s1", "--store", store, "--server", second.url, "--once")
			tail.Env = withoutSettings(os.Environ())
			tailed, err := tail.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, tail.Start())
			for i, d := 0, json.NewDecoder(tailed); i < len(seqs); i++ {
				var e event
				require.NoError(t, d.Decode(&e))
				require.EqualValues(t, i+1, e.Seq)
			}
			second.stop()
			require.NoError(t, tail.Wait(), "a stream that ends in order is no failure")
			code, out, errs = command(t, "verify", "--store", store)
			require.Equal(t, 0, code, out+errs)
		})
	}
}
