package httpapi

import "syscall"

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h, in milliseconds. Accepted connections inherit it.
const tcpUserTimeout = 0x12

func limitUnacknowledged(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(vanished.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
