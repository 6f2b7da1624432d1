package main

import (
	"bytes"
	"context"
	_ "embed" // the library's source
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed slowsync/fsync.c
var slowSyncSource []byte

// slowCluster is a second server, made on demand, whose fsync costs a fixed time.
type slowCluster struct {
	url  string
	err  error
	dir  string
	proc *exec.Cmd
}

// slowServer returns the URL of the second server, which lives until the end of the run.
func (b *bench) slowServer(ctx context.Context) (string, error) {
	if b.slow.url == "" && b.slow.err == nil {
		b.slow.err = b.slow.open(ctx)
	}
	return b.slow.url, b.slow.err
}

func (b *bench) closeSlowCluster() {
	c := &b.slow
	if c.proc != nil {
		_ = c.proc.Process.Signal(syscall.SIGQUIT)
		_ = c.proc.Wait()
	}
	if c.dir != "" {
		_ = os.RemoveAll(c.dir)
	}
}

// open builds the library, makes a cluster and starts it. It needs gcc, the server's programs and a user to run them
// as, which scripts/with-postgres.sh names.
func (c *slowCluster) open(ctx context.Context) error {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return skipped{"there is no gcc to build the library that makes fsync cost a fixed time"}
	}
	bin := os.Getenv("KEEL_TEST_POSTGRES_BIN")
	if bin == "" {
		return skipped{"KEEL_TEST_POSTGRES_BIN does not name the server's programs"}
	}
	as, err := serverUser()
	if err != nil {
		return skipped{err.Error()}
	}
	if c.dir, err = os.MkdirTemp("", "keel-bench-cluster-"); err != nil {
		return err
	}
	source, library, data := filepath.Join(c.dir, "fsync.c"), filepath.Join(c.dir, "fsync.so"), filepath.Join(c.dir, "data")
	if err := os.WriteFile(source, slowSyncSource, 0o644); err != nil {
		return err
	}
	if err := as.owns(c.dir); err != nil {
		return err
	}
	for _, cmd := range []*exec.Cmd{
		exec.CommandContext(ctx, gcc, "-O2", "-shared", "-fPIC", "-o", library, source),
		as.command(exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")),
	} {
		cmd.Dir = c.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return skipped{fmt.Sprintf("%s: %v: %s", filepath.Base(cmd.Path), err, bytes.TrimSpace(out))}
		}
	}
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	c.proc = as.command(exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(bin, "postgres"), "-D", data, "-p", strconv.Itoa(port), "-k", "",
		"-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300"))
	c.proc.Env = append(c.proc.Env, "LD_PRELOAD="+library)
	c.proc.Dir = c.dir
	if err := c.proc.Start(); err != nil {
		c.proc = nil
		return err
	}
	url := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
	if err := answers(ctx, url); err != nil {
		return err
	}
	c.url = url
	return nil
}

// answers waits until a server takes connections.
func answers(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the second server does not answer: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// account is the operating system's user that the server runs as; nil when that is the present one.
type account struct{ uid, gid int }

// serverUser returns whom KEEL_TEST_POSTGRES_USER names. Postgres refuses to run as root.
func serverUser() (*account, error) {
	if os.Getuid() != 0 {
		return nil, nil //nolint:nilnil // the present user will do
	}
	name := os.Getenv("KEEL_TEST_POSTGRES_USER")
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("no user to run a second server as: %w", err)
	}
	uid, errUser := strconv.Atoi(u.Uid)
	gid, errGroup := strconv.Atoi(u.Gid)
	return &account{uid, gid}, errors.Join(errUser, errGroup)
}

func (a *account) owns(dir string) error {
	if a == nil {
		return nil
	}
	return os.Chown(dir, a.uid, a.gid)
}

func (a *account) command(cmd *exec.Cmd) *exec.Cmd {
	cmd.Env = withoutPostgres(os.Environ())
	if a != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}}
	}
	return cmd
}

// withoutPostgres drops what would steer a server or its tools.
func withoutPostgres(env []string) []string {
	var kept []string
	for _, e := range env {
		if !strings.HasPrefix(e, "PG") {
			kept = append(kept, e)
		}
	}
	return kept
}
