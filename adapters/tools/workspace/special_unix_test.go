//go:build unix

package workspace_test

import (
	"net"
	"path/filepath"
	"syscall"

	"github.com/stretchr/testify/require"
)

// plantSpecial plants a pipe that nobody writes to, and a socket.
func (p *prison) plantSpecial() {
	require.NoError(p.t, syscall.Mkfifo(filepath.Join(p.dir, "pipe"), 0o600))
	p.t.Chdir(p.dir) // the path of a socket must be short
	listener, err := net.Listen("unix", "socket")
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = listener.Close() })
}
