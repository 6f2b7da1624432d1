package httpapi

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAcceptedConnectionsHaveTheLimit(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	accepted, err := l.Accept()
	require.NoError(t, err)
	defer accepted.Close()
	raw, err := accepted.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		got, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout)
		require.NoError(t, err)
		require.Equal(t, 15000, got)
	}))
}
