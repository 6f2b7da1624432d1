// Package e2e runs real server processes against real stores and a real local backend, over HTTP, as a user would.
package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
)

var keel string // the program under test

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	// Servers would inherit that it is ignored, where the tests run detached, and leave it so.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	dir, err := os.MkdirTemp("", "keel-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	keel = filepath.Join(dir, "keel")
	args := []string{"build", "-o", keel}
	if raceEnabled {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "../cmd/keel")...)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot build keel:", err)
		return 1
	}
	return m.Run()
}

// stores are the stores that every behaviour is shown on.
var stores = []string{"memory", "sqlite", "postgres", threeProcesses}

// onEachStore runs f as a subtest per store, with a fresh one each.
func onEachStore(t *testing.T, f func(t *testing.T, store string)) {
	t.Parallel()
	for _, kind := range stores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f(t, newStore(t, kind))
		})
	}
}

// newStore returns the --store value of a fresh store. KEEL_TEST_STORE takes the place of kind for those that survive
// their process: `make three` runs all cases so.
func newStore(t *testing.T, kind string) string {
	t.Helper()
	if instead := os.Getenv("KEEL_TEST_STORE"); instead != "" && kind != "memory" {
		kind = instead
	}
	switch kind {
	case "memory":
		return "memory:"
	case "sqlite":
		return "sqlite:" + filepath.Join(t.TempDir(), "keel.db")
	}
	store := postgrestest.Database(t, "")
	if kind == threeProcesses {
		crowded.Store(store, true)
	}
	return store
}

// process is one running server.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	own  string // url, or what leads past those that share it
	logs logFile
	done chan error

	peers []*process // others that serve the same store behind the same url
}

// serve starts what serves a store and waits until it is ready. Flags are added to the usual ones.
func serve(t *testing.T, store string, env []string, flags ...string) *process {
	t.Helper()
	if _, several := crowded.Load(store); several {
		return serveThree(t, store, env, flags...)
	}
	return serveOne(t, store, env, flags...)
}

func serveOne(t *testing.T, store string, env []string, flags ...string) *process {
	t.Helper()
	p := launch(t, store, env, flags...)
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		if p.url == "" {
			p.url = p.logs.find(`ready at (http://\S+)`)
			p.own = p.url
		}
		if p.url != "" && p.status("/readyz") == http.StatusOK {
			return p
		}
		select {
		case err := <-p.done:
			t.Fatalf("the server ended: %v\n%s", err, p.logs)
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatalf("the server did not become ready\n%s", p.logs)
	return nil
}

// launch starts a server without waiting for it.
func launch(t *testing.T, store string, env []string, flags ...string) *process {
	t.Helper()
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--store", store, "--auth", "off"}, flags...)
	cmd := exec.Command(keel, args...)
	cmd.Env = append(withoutSettings(os.Environ()), env...)
	return begin(t, cmd)
}

// begin starts cmd, which ends with the test, and its successors with it.
func begin(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, logs: newLogFile(t), cmd: cmd, done: make(chan error, 1)}
	cmd.Stdout, cmd.Stderr = p.logs.File, p.logs.File
	require.NoError(t, cmd.Start())
	go func() { p.done <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for _, successor := range regexp.MustCompile(`started a successor\t\{"pid": (\d+)\}`).FindAllStringSubmatch(p.logs.String(), -1) {
			if pid, err := strconv.Atoi(successor[1]); err == nil && alive(pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if t.Failed() {
			t.Logf("server log:\n%s", p.logs)
		}
	})
	return p
}

func withoutSettings(env []string) []string {
	var kept []string
	for _, e := range env {
		if !strings.HasPrefix(e, "OPENAI_") && !strings.HasPrefix(e, "ANTHROPIC_") && !strings.HasPrefix(e, "GEMINI_") && !strings.HasPrefix(e, "GOOGLE_") && !(strings.HasPrefix(e, "KEEL_") && !strings.HasPrefix(e, "KEEL_TEST_")) {
			kept = append(kept, e)
		}
	}
	return kept
}

func (p *process) status(path string) int {
	res, err := http.Get(p.url + path)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// stop ends the server with SIGTERM and wants a clean exit.
func (p *process) stop() {
	p.t.Helper()
	all := append(p.peers, p)
	for _, each := range all {
		require.NoError(p.t, each.cmd.Process.Signal(syscall.SIGTERM))
	}
	for _, each := range all {
		each.ended()
	}
}

func (p *process) ended() {
	p.t.Helper()
	select {
	case err := <-p.done:
		require.NoError(p.t, err, "exit code\n%s", p.logs)
	case <-time.After(30 * time.Second):
		p.t.Fatalf("the server did not end\n%s", p.logs)
	}
}

// kill ends the server as a crash does.
func (p *process) kill() {
	p.t.Helper()
	for _, each := range append(p.peers, p) {
		require.NoError(p.t, each.cmd.Process.Kill())
		require.Error(p.t, <-each.done, "it was killed")
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// logFile keeps what a process and its successors say.
type logFile struct{ *os.File }

func newLogFile(t *testing.T) logFile {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return logFile{f}
}

func (l logFile) String() string {
	text, err := os.ReadFile(l.Name())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (l logFile) find(pattern string) string {
	m := regexp.MustCompile(pattern).FindStringSubmatch(l.String())
	if m == nil {
		return ""
	}
	return m[1]
}
