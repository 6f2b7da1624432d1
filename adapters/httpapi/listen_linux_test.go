package httpapi

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestAcceptedConnectionsHaveTheLimit(t *testing.T) {
	made, err := Listen(t.Context(), "127.0.0.1:0", false)
	require.NoError(t, err)
	requireLimit(t, made)
	var plain net.ListenConfig
	plain.SetMultipathTCP(false)
	adopted, err := plain.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, Adopt(adopted.(*net.TCPListener)))
	requireLimit(t, adopted)
	multipath, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, Adopt(multipath.(*net.TCPListener)))
	require.NoError(t, multipath.Close())
}

func requireLimit(t *testing.T, l net.Listener) {
	t.Helper()
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
		got, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
		require.NoError(t, err)
		require.Equal(t, unsent, got)
	}))
}

func TestPortsAreSharedOnlyWhenAsked(t *testing.T) {
	for _, share := range []bool{true, false} {
		first, err := Listen(t.Context(), "127.0.0.1:0", share)
		require.NoError(t, err)
		second, err := Listen(t.Context(), first.Addr().String(), share)
		require.Equal(t, share, err == nil, err)
		require.NoError(t, first.Close())
		if share {
			require.NoError(t, second.Close())
		}
	}
}
