package httpapi

import "syscall"

// Options of the kernel that package syscall does not name. Accepted connections inherit the first.
const (
	tcpUserTimeout = 0x12 // TCP_USER_TIMEOUT of linux/tcp.h, in milliseconds
	soReusePort    = 0xf  // SO_REUSEPORT of asm-generic/socket.h
)

func limitUnacknowledged(fd int) error {
	return syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, tcpUserTimeout, int(vanished.Milliseconds()))
}

func sharePort(fd int) error {
	return syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, soReusePort, 1)
}
