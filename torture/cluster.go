package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
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

// Variables that scripts/with-postgres.sh sets.
const (
	urlVariable  = "KEEL_TEST_POSTGRES_URL"
	binVariable  = "KEEL_TEST_POSTGRES_BIN"
	userVariable = "KEEL_TEST_POSTGRES_USER"
)

// freshDatabase makes an empty database on a server.
func freshDatabase(ctx context.Context, server string) (at string, drop func(), err error) {
	parsed, err := url.Parse(server)
	if err != nil {
		return "", nil, err
	}
	name := "torture_" + strings.ToLower(rand.Text()[:12])
	if err := execute(ctx, server, "CREATE DATABASE "+name); err != nil {
		return "", nil, err
	}
	parsed.Path = "/" + name
	return parsed.String(), func() {
		_ = execute(context.WithoutCancel(ctx), server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	}, nil
}

func execute(ctx context.Context, at, statement string) error {
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, statement)
	return err
}

// terminate ends every other connection of a database.
func terminate(ctx context.Context, at string) error {
	return execute(ctx, at, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
}

// cluster is a Postgres server of our own, which may be stopped in the middle of its work.
type cluster struct {
	bin, dir string
	port     int
	as       *syscall.Credential
	proc     *exec.Cmd
	log      *os.File
}

func (c *cluster) url() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", c.port)
}

// newCluster makes and starts a server, whose log is in dir. It keeps the durable defaults.
func newCluster(ctx context.Context, dir string) (*cluster, error) {
	c := &cluster{bin: os.Getenv(binVariable)}
	if c.bin == "" {
		return nil, fmt.Errorf("%s does not name the programs of a Postgres server: use scripts/with-postgres.sh go run ./torture", binVariable)
	}
	var err error
	if c.as, err = serverUser(); err != nil {
		return nil, err
	}
	if c.dir, err = os.MkdirTemp("", "keel-torture-postgres-"); err != nil {
		return nil, err
	}
	if c.as != nil {
		if err := os.Chown(c.dir, int(c.as.Uid), int(c.as.Gid)); err != nil {
			return nil, err
		}
	}
	made := c.command(ctx, "initdb", "-D", filepath.Join(c.dir, "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	if out, err := made.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, bytes.TrimSpace(out))
	}
	if c.port, err = freePort(ctx); err != nil {
		return nil, err
	}
	if c.log, err = os.Create(filepath.Join(dir, "postgres.log")); err != nil {
		return nil, err
	}
	return c, c.start(ctx)
}

func (c *cluster) start(ctx context.Context) error {
	c.proc = c.command(context.WithoutCancel(ctx), "postgres", "-D", filepath.Join(c.dir, "data"), "-p", strconv.Itoa(c.port), "-k", "",
		"-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300")
	c.proc.Stdout, c.proc.Stderr = c.log, c.log
	if err := c.proc.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for {
		err := execute(ctx, c.url(), "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("postgres does not answer: %w", err)
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// stop stops the server at once: it has to recover when it starts again.
func (c *cluster) stop() {
	_ = c.proc.Process.Signal(syscall.SIGQUIT)
	_ = c.proc.Wait()
}

func (c *cluster) close() {
	c.stop()
	_ = c.log.Close()
	_ = os.RemoveAll(c.dir)
}

func (c *cluster) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, program), args...)
	cmd.Dir = c.dir
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "PG") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as, Setpgid: true}
	return cmd
}

// serverUser returns whom to run a server as; nil when that is the present user. Postgres refuses to run as root.
func serverUser() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil //nolint:nilnil // the present user will do
	}
	u, err := user.Lookup(os.Getenv(userVariable))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", userVariable, err)
	}
	uid, errUser := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGroup := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(errUser, errGroup)
}

// freePort returns a port that is free now, below those that the kernel gives to outgoing connections and that
// scripts/with-postgres.sh takes: it is used again by each successor.
func freePort(ctx context.Context) (int, error) {
	for range 100 {
		n, err := rand.Int(rand.Reader, big.NewInt(10_000))
		if err != nil {
			return 0, err
		}
		port := 10_000 + int(n.Int64())
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port")
}
