package httpapi

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// vanished is how long what was written may stay unacknowledged before a connection counts as dead. A stream writes
// at least every 15 s, so a client that is gone without a word is noticed within two of its comments.
const vanished = 15 * time.Second

// Listen listens on a TCP address for connections that the kernel gives up once their peer has vanished. Where the
// system has no such limit, its own, much longer ones hold. With reusePort other processes may listen on the address
// too: the kernel then deals connections out among them, and resets those that wait for one that closes.
func Listen(ctx context.Context, address string, reusePort bool) (net.Listener, error) {
	cfg := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		err := control(c, limitUnacknowledged)
		if err == nil && reusePort {
			err = control(c, sharePort)
		}
		return err
	}}
	return cfg.Listen(ctx, "tcp", address)
}

// Adopt gives a listener that came from elsewhere the limit of those that Listen makes, unless its protocol has none.
func Adopt(l *net.TCPListener) error {
	c, err := l.SyscallConn()
	if err != nil {
		return err
	}
	if err := control(c, limitUnacknowledged); !errors.Is(err, syscall.ENOPROTOOPT) {
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
