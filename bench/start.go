package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// start times a server on SQLite from its execution to the first yes of /readyz.
func start(ctx context.Context, b *bench) ([]row, error) {
	keel := filepath.Join(b.dir, "keel")
	if err := buildKeel(ctx, keel); err != nil {
		return nil, err
	}
	var fresh, again, help []float64
	for range pick(b, 10, 5) {
		store := "sqlite:" + filepath.Join(b.dir, newID()+".db")
		for _, into := range []*[]float64{&fresh, &again} {
			took, err := startOnce(ctx, keel, store)
			if err != nil {
				return nil, err
			}
			*into = append(*into, millis(took))
		}
		at := time.Now()
		if out, err := keelCommand(ctx, keel, "--help").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("keel --help: %w: %s", err, out)
		}
		help = append(help, millis(time.Since(at)))
	}
	g := atMost(300, "≤ 300 ms")
	var rows []row
	for _, found := range []struct {
		name string
		took []float64
	}{{"new file", fresh}, {"file that is there", again}} {
		took := median(found.took)
		rows = append(rows, row{
			measure: "`keel serve` on SQLite to ready, " + found.name, ours: ms(took), limit: "`keel --help` " + ms(median(help)),
			ratio: times(took / median(help)), goal: g.text, met: g.met(took),
		})
	}
	return rows, nil
}

// buildKeel builds the server from the module that this program was built from.
func buildKeel(ctx context.Context, to string) error {
	dir, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "github.com/keel-agent/keel/app").Output()
	if err != nil {
		return fmt.Errorf("where is the module of the server: %w", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-C", strings.TrimSpace(string(dir)), "-o", to, "./cmd/keel")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build keel: %w: %s", err, out)
	}
	return nil
}

// keelCommand is keel with nothing of this process's settings.
func keelCommand(ctx context.Context, keel string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, keel, args...)
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "KEEL_") && !strings.HasPrefix(e, "OPENAI_") && !strings.HasPrefix(e, "ANTHROPIC_") && !strings.HasPrefix(e, "GEMINI_") && !strings.HasPrefix(e, "GOOGLE_") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	return cmd
}

// startOnce starts a server, waits until it is ready, and stops it.
func startOnce(ctx context.Context, keel, store string) (took time.Duration, err error) {
	began := time.Now()
	s, err := serveKeel(ctx, keel, "--store", store)
	took = time.Since(began)
	if err == nil {
		s.stop()
	}
	return took, err
}

// served is a `keel serve` of its own process.
type served struct {
	url  string // http://host:port
	cmd  *exec.Cmd
	log  bytes.Buffer
	rest sync.WaitGroup
}

// serveKeel starts a server with further flags, and returns when it is ready. The caller stops it.
func serveKeel(ctx context.Context, keel string, flags ...string) (*served, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	flags = append([]string{"serve", "--listen", "127.0.0.1:0", "--auth", "off", "--provider", "fake"}, flags...)
	s := &served{cmd: keelCommand(context.WithoutCancel(ctx), keel, flags...)}
	s.cmd.Stderr = &s.log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.url, err = announced(out)
	s.rest.Go(func() { _, _ = io.Copy(io.Discard, out) })
	if err == nil {
		err = ready(ctx, s.url)
	}
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(s.log.Bytes()))
	}
	return s, nil
}

// stop ends the server; how it ends is not the question.
func (s *served) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	s.rest.Wait()
	_ = s.cmd.Wait()
}

var readyAt = regexp.MustCompile(`ready at (http://\S+)`)

// announced reads a server's output up to the line that names its address.
func announced(out io.Reader) (url string, err error) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if found := readyAt.FindStringSubmatch(lines.Text()); found != nil {
			return found[1], nil
		}
	}
	return "", fmt.Errorf("the server ended before it was ready (%w)", cmp.Or(lines.Err(), io.EOF))
}

// ready waits until the server says that it is.
func ready(ctx context.Context, url string) error {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}
