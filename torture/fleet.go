package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/keel-agent/keel/torture/check"
)

// Settings of the servers. They are short, so that a takeover does not take long.
const (
	leaseTTL   = 2 * time.Second
	heartbeat  = 500 * time.Millisecond
	drainGrace = 200 * time.Millisecond
	idleLimit  = 3 * time.Second
)

// fleet is the servers: each slot has an address and is one process after the other.
type fleet struct {
	binary  string
	dir     string
	store   string
	backend string
	effects string
	shaky   bool // the database fails: a server may end while it starts
	journal *journal
	slots   []*slot
}

// slot is one address. Whoever does something to its process holds the lock.
type slot struct {
	*fleet
	number int
	port   int

	mu   sync.Mutex
	proc *process
}

// process is one server.
type process struct {
	cmd   *exec.Cmd
	point string        // its KEEL_CRASH_AT
	done  chan struct{} // closed when it has ended
	meant bool          // we are about to end it, or it is to end itself; guarded by the slot's lock
}

func (f *fleet) open(ctx context.Context, servers int) error {
	for i := range servers {
		port, err := freePort(ctx)
		if err != nil {
			return err
		}
		f.slots = append(f.slots, &slot{fleet: f, number: i, port: port})
	}
	var lines strings.Builder
	for _, tenant := range tenants {
		fmt.Fprintln(&lines, tokenOf(tenant), tenant)
	}
	return os.WriteFile(f.tokens(), []byte(lines.String()), 0o600)
}

func (f *fleet) tokens() string { return filepath.Join(f.dir, "tokens") }

func (f *fleet) urls() []string {
	var urls []string
	for _, s := range f.slots {
		urls = append(urls, s.url())
	}
	return urls
}

func (s *slot) url() string { return fmt.Sprintf("http://127.0.0.1:%d", s.port) }

func (s *slot) logPath() string { return filepath.Join(s.dir, fmt.Sprintf("server-%d.log", s.number)) }

// start starts a server that kills itself at point, if that is set. It does not wait for it.
func (s *slot) start(point string) error {
	log, err := os.OpenFile(s.logPath(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	fmt.Fprintf(log, "---- started %s, to end at %q\n", time.Now().UTC().Format(time.RFC3339Nano), point)
	cmd := exec.Command(s.binary, "serve", "--listen", fmt.Sprintf("127.0.0.1:%d", s.port), "--store", s.store, //nolint:noctx // it ends by signals
		"--auth", "tokens:"+s.tokens(), "--provider", "openai", "--idle-limit", idleLimit.String(),
		"--lease-ttl", leaseTTL.String(), "--heartbeat", heartbeat.String(), "--drain-grace", drainGrace.String())
	cmd.Env = append(plainEnvironment(), "OPENAI_BASE_URL="+s.backend, "OPENAI_MODEL=torture", "KEEL_CRASH_AT="+point, "KEEL_EFFECTS_LOG="+s.effects)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a signal from the terminal is for us alone
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{cmd: cmd, point: point, done: make(chan struct{}), meant: point != ""}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	s.proc = p
	return nil
}

// plainEnvironment is ours without what would steer a server.
func plainEnvironment() []string {
	var kept []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "OPENAI_") && !strings.HasPrefix(e, "KEEL_") && !strings.HasPrefix(e, "PG") {
			kept = append(kept, e)
		}
	}
	return kept
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// killed reports whether an ended process was ended by SIGKILL.
func (p *process) killed() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// within waits for the end of the process.
func (p *process) within(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

func (p *process) kill() {
	p.meant = true
	_ = p.cmd.Process.Kill()
	<-p.done
}

// readyWithin is how long a server may take to become ready.
const readyWithin = 60 * time.Second

// ready waits until the server is ready, starting it again when it ended. A server that ended though nobody made it is
// written down. It returns false without an error when the process that is to kill itself did so first.
func (s *slot) ready(ctx context.Context) (bool, error) {
	deadline := time.Now().Add(readyWithin)
	for time.Now().Before(deadline) {
		if s.proc.ended() {
			if s.proc.point != "" && s.proc.killed() {
				return false, nil
			}
			if !s.proc.meant && !s.shaky {
				s.died("ended by itself")
			}
			if err := s.start(s.proc.point); err != nil {
				return false, err
			}
		}
		if s.isReady(ctx) {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false, fmt.Errorf("server %d was not ready after %v; its log is %s", s.number, readyWithin, s.logPath())
}

func (s *slot) isReady(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url()+"/readyz", nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

func (s *slot) died(how string) {
	s.journal.fail(check.ServerDied, "", "", fmt.Sprintf("server %d %s (%v); the end of its log:\n%s", s.number, how, s.proc.cmd.ProcessState, tail(s.logPath(), 3000)))
}

// tail returns the last n bytes of a file.
func tail(path string, n int64) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-n), io.SeekStart)
	}
	text, err := io.ReadAll(f)
	return string(text) + errText(err)
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// allReady gets every slot a server that is ready and does not kill itself.
func (f *fleet) allReady(ctx context.Context) error {
	var group sync.WaitGroup
	errs := make([]error, len(f.slots))
	for i, s := range f.slots {
		group.Go(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.proc.point != "" {
				s.proc.kill()
				if errs[i] = s.start(""); errs[i] != nil {
					return
				}
			}
			_, errs[i] = s.ready(ctx)
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// close ends every server with SIGTERM, and with SIGKILL what does not end by it.
func (f *fleet) close() {
	for _, s := range f.slots {
		if s.proc != nil {
			s.proc.meant = true
			_ = s.proc.cmd.Process.Signal(syscall.SIGCONT)
			_ = s.proc.cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	for _, s := range f.slots {
		if s.proc != nil && !s.proc.within(drainLimit) {
			s.proc.kill()
		}
	}
}

// drainLimit is how long a server may take to end after SIGTERM.
const drainLimit = drainGrace + 20*time.Second
