//go:build nginx || pgbouncer

package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// front runs a program that stands between others until the test ends, and returns when it takes connections at port.
func front(t *testing.T, name string, as *syscall.Credential, port int, args ...string) {
	t.Helper()
	variable := "KEEL_TEST_" + strings.ToUpper(name)
	path := os.Getenv(variable)
	require.NotEmpty(t, path, "%s must name the program; scripts/with-program.sh %s does it", variable, name)
	output := &lockedBuffer{}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = output, output
	if as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", name, output)
		}
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, 10*time.Second, 10*time.Millisecond, "%s does not listen", name)
}
