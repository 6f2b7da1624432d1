package httpapi

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// unsent is how many bytes wait at most, or one segment more, in the system for one connection before it tries to send
// them. What a peer is slow to take stays with its writer, instead of megabytes in the system's buffers.
const unsent = 64 << 10

// Listen listens on a TCP address for connections with a bounded queue of what is not sent yet, where the system can do
// that. With reusePort other processes may listen on the address too: the kernel then deals connections out among them,
// and resets those that wait for one that closes.
func Listen(ctx context.Context, address string, reusePort bool) (net.Listener, error) {
	cfg := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		err := control(c, limitUnsent)
		if err == nil && reusePort {
			err = control(c, sharePort)
		}
		return err
	}}
	cfg.SetMultipathTCP(false) // its connections do not inherit the option
	return cfg.Listen(ctx, "tcp", address)
}

// Adopt gives a listener that came from elsewhere the limit of those that Listen makes, unless its protocol has none.
func Adopt(l *net.TCPListener) error {
	c, err := l.SyscallConn()
	if err != nil {
		return err
	}
	if err := control(c, limitUnsent); !errors.Is(err, syscall.ENOPROTOOPT) {
		return err
	}
	return nil
}

// control calls set with the descriptor of c.
func control(c syscall.RawConn, set func(fd int) error) error {
	var failed error
	err := c.Control(func(fd uintptr) { failed = set(int(fd)) })
	return errors.Join(err, failed)
}
