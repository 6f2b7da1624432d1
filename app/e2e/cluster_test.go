package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// cluster is a Postgres server of the test's own, to be restarted at will.
type cluster struct {
	t    *testing.T
	bin  string
	dir  string
	as   *syscall.Credential // whom it runs as; nil for the present user
	port int
}

// newCluster starts a server that lives as long as the test. scripts/with-postgres.sh names its programs and its user.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, bin: os.Getenv("KEEL_TEST_POSTGRES_BIN")}
	require.NotEmpty(t, c.bin, "KEEL_TEST_POSTGRES_BIN must name the directory of initdb and pg_ctl; scripts/with-postgres.sh does it")
	c.dir, c.as = serverDir(t)
	c.port = freePort(t)
	c.run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	t.Cleanup(func() { c.run("pg_ctl", "stop", "-w", "-m", "immediate") })
	c.run("pg_ctl", "start", "-w", "-l", filepath.Join(c.dir, "log"), "-o", fmt.Sprintf("-p %d -k '' -c listen_addresses=127.0.0.1", c.port))
	return c
}

// serverDir returns a directory for a server that refuses to run as root, and whom to run it as: nil for the present user.
func serverDir(t *testing.T) (string, *syscall.Credential) {
	t.Helper()
	if os.Getuid() != 0 {
		return t.TempDir(), nil
	}
	u, err := user.Lookup(os.Getenv("KEEL_TEST_POSTGRES_USER"))
	require.NoError(t, err, "KEEL_TEST_POSTGRES_USER must name whom to run servers as; scripts/with-postgres.sh does it")
	uid, err := strconv.Atoi(u.Uid)
	require.NoError(t, err)
	gid, err := strconv.Atoi(u.Gid)
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "keel-server-") // that of the test lies within one of root's
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chown(dir, uid, gid))
	return dir, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().(*net.TCPAddr).Port
}

func (c *cluster) run(program string, args ...string) {
	c.t.Helper()
	cmd := exec.Command(filepath.Join(c.bin, program), append(args, "-D", filepath.Join(c.dir, "data"))...)
	cmd.Dir = c.dir
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "PG") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	if c.as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as}
	}
	out, err := cmd.CombinedOutput()
	require.NoError(c.t, err, "%s: %s", program, out)
}

// restart ends the server by fast or immediate and returns when it serves again.
func (c *cluster) restart(mode string) {
	c.t.Helper()
	c.run("pg_ctl", "restart", "-w", "-m", mode, "-l", filepath.Join(c.dir, "log"))
}

func (c *cluster) url() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", c.port)
}
