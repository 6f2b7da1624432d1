package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keel-agent/keel/adapters/tools/output"
	"github.com/keel-agent/keel/adapters/tools/toolset"
)

// shell runs commands.
type shell struct {
	sandbox string // its name
	bash    string // path of the program
	wrap    func(command) command
}

// command is a program to start. Its environment is all that it gets.
type command struct {
	args      []string // with the path of the program first
	name      string   // args[0] as the program sees it, when that differs
	env       []string
	workspace string // absolute path
	dir       string // to start in
	network   bool
	attr      syscall.SysProcAttr
}

// newShell returns nil when bash is off.
func newShell(c Config) (*shell, error) {
	if c.Bash == "" || c.Bash == BashOff {
		return nil, nil
	}
	bash, err := findBash()
	if err != nil {
		return nil, err
	}
	switch c.Bash {
	case BashUnconfined:
		return &shell{BashUnconfined, bash, func(c command) command { return c }}, nil
	case BashSandboxed:
		candidates := c.Sandboxes
		if candidates == nil {
			candidates = sandboxes(bash, c.BashNetwork)
		}
		s, err := choose(candidates)
		return &shell{s.Name, bash, s.wrap}, err
	}
	return nil, fmt.Errorf("bash %q: want off, sandboxed or unconfined", c.Bash)
}

func findBash() (string, error) {
	for _, path := range []string{"/bin/bash", "/usr/bin/bash"} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", errors.New("there is no /bin/bash and no /usr/bin/bash to run commands with")
}

// limits are set by a shell around the command: no core files, files of at most 2 GiB (in KiB), data of at most 4 GiB.
// A sandbox counts processes apart from those of the server's user, so it can limit them, above what is watched. The shell outlives SIGTERM, so
// that the command has the time until SIGKILL.
const (
	limits    = `ulimit -c 0 -f 2097152 -d 4194304 || exit 125; `
	crowd     = `ulimit -u 1024 || exit 125; `
	wrapped   = `trap : TERM; "$0" --norc --noprofile -c "$1" </dev/null; exit $?`
	searched  = "/usr/local/bin:/usr/bin:/bin"
	inSandbox = "/workspace" // where a sandbox shows the workspace
)

func (s *shell) command(workspace, line string) command {
	script := limits + crowd + wrapped
	if s.sandbox == BashUnconfined {
		script = limits + wrapped
	}
	return s.wrap(command{
		args:      []string{s.bash, "--norc", "--noprofile", "-c", script, s.bash, line},
		env:       []string{"PATH=" + searched, "HOME=" + workspace, "LANG=C.UTF-8"},
		workspace: workspace, dir: workspace,
		// A session of its own has no terminal, and one process group that can be killed as a whole.
		attr: syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
}

// bash is the tool.
func (t *Tools) bash(s *shell) func(context.Context, toolset.Call) (string, error) {
	return func(ctx context.Context, call toolset.Call) (string, error) {
		line := call.Args.Text("command")
		if strings.ContainsRune(line, 0) {
			return "", errors.New("the command has a NUL character")
		}
		dir, err := t.dirs.open(call.Ref)
		if err != nil {
			return "", fmt.Errorf("the workspace cannot be opened: %w", reason(err))
		}
		defer func() { _ = dir.Close() }()
		timeout := defaultTimeout
		if n := call.Args.Integer("timeout"); n > 0 {
			timeout = time.Duration(n) * time.Second
		}
		return s.run(ctx, dir.path, line, timeout)
	}
}

// run runs one command line. When it returns, everything that the command started has been killed; without a sandbox
// that excepts processes that began a session of their own.
func (s *shell) run(ctx context.Context, workspace, line string, timeout time.Duration) (string, error) {
	// The kernel kills the command when the thread that started it ends: it must be there until the command has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	p, err := start(s.command(workspace, line))
	if err != nil {
		return "", fmt.Errorf("the command cannot be started: %w", reason(err))
	}
	why := p.await(ctx, timeout)
	p.kill()
	state := p.reap()
	printed := p.printed.String()
	if printed != "" && !strings.HasSuffix(printed, "\n") {
		printed += "\n"
	}
	switch {
	case why != nil:
		return "", fmt.Errorf("%s[%w; everything that it started was killed]", printed, why)
	case !state.Success():
		return "", fmt.Errorf("%s[%s]", printed, ending(state))
	case printed == "":
		return "[no output]", nil
	}
	return printed, nil
}

func ending(state *os.ProcessState) string {
	if state.Exited() {
		return fmt.Sprintf("exit code %d", state.ExitCode())
	}
	return state.String()
}

// process is a command that runs.
type process struct {
	cmd     *exec.Cmd
	exited  chan struct{} // closed when the command has ended; it stays a zombie until it is reaped
	pipe    *os.File
	printed *output.Ends // to be read when copied is closed
	copied  chan struct{}
}

func start(c command) (*process, error) {
	// The server may have inherited descriptors that its own children would inherit.
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(c.args[0], c.args[1:]...) //nolint:noctx // killing one process is not enough
	if c.name != "" {
		cmd.Args[0] = c.name
	}
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = c.env, c.dir, w, w, &c.attr
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	p := &process{
		cmd: cmd, exited: make(chan struct{}), pipe: r, printed: output.NewEnds(maxPrinted), copied: make(chan struct{}),
	}
	go func() {
		defer close(p.copied)
		_, _ = io.Copy(p.printed, r)
	}()
	go func() {
		defer close(p.exited)
		for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
			continue
		}
	}()
	return p, nil
}

// await returns nil when the command ended, else why it must be stopped.
func (p *process) await(ctx context.Context, timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	watch := time.NewTicker(watchInterval)
	defer watch.Stop()
	for {
		select {
		case <-p.exited:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return fmt.Errorf("stopped after %s", timeout)
		case <-watch.C:
			if descendants(p.cmd.Process.Pid, maxProcesses) > maxProcesses {
				return fmt.Errorf("stopped because it had more than %d processes", maxProcesses)
			}
		}
	}
}

// kill ends the process group of the command: what still runs is asked first. The command is not reaped yet, so the
// number of the group is still its own.
func (p *process) kill() {
	group := -p.cmd.Process.Pid
	select {
	case <-p.exited:
	default:
		_ = unix.Kill(group, unix.SIGTERM)
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.exited:
		case <-timer.C:
		}
	}
	_ = unix.Kill(group, unix.SIGKILL)
	<-p.exited
}

// reap waits for what is left of the command, and a moment for what others print in its name.
func (p *process) reap() *os.ProcessState {
	_ = p.cmd.Wait()
	_ = p.pipe.SetReadDeadline(time.Now().Add(drain))
	<-p.copied
	_ = p.pipe.Close()
	return p.cmd.ProcessState
}

// descendants counts the processes below pid until there are more than most.
func descendants(pid, most int) int {
	count := 0
	for queue := []string{fmt.Sprint(pid)}; len(queue) > 0 && count <= most; queue = queue[1:] {
		tasks, _ := os.ReadDir("/proc/" + queue[0] + "/task")
		for _, task := range tasks {
			children, _ := os.ReadFile("/proc/" + queue[0] + "/task/" + task.Name() + "/children")
			found := strings.Fields(string(children))
			count += len(found)
			queue = append(queue, found...)
		}
	}
	return count
}
