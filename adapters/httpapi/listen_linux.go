package httpapi

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitUnsent is inherited by accepted connections.
func limitUnsent(fd int) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsent)
}

func sharePort(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
}

// unacknowledged returns what tells how many bytes that were written to c its peer has not acknowledged; it says 0 when
// that cannot be known. It is asked before each write, so it allocates nothing.
func unacknowledged(c net.Conn) func() int {
	s, ok := c.(syscall.Conn)
	if !ok {
		return func() int { return 0 }
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return func() int { return 0 }
	}
	var queued uint32
	ask := func(fd uintptr) {
		if queued, err = unix.IoctlGetUint32(int(fd), unix.SIOCOUTQ); err != nil {
			queued = 0
		}
	}
	return func() int {
		if raw.Control(ask) != nil {
			return 0
		}
		return int(queued)
	}
}
