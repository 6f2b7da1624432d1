package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"

	"github.com/keel-agent/keel/adapters/httpapi"
)

// socket is the listening socket of the process. It outlives the listeners that are taken from it, so that connections
// wait in it while nobody accepts, and so that it can be handed to a successor.
type socket struct {
	mu     sync.Mutex
	file   *os.File // a descriptor of its own; nil before anything listens
	origin string   // who made it; "" when this process did
}

// errNoSocket is what comes from outside and cannot be listened on.
var errNoSocket = errors.New("the inherited descriptor is no listening TCP socket")

// listen returns a listener on the socket, which it makes according to c unless there is one.
func (s *socket) listen(ctx context.Context, c Config) (net.Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		return net.FileListener(s.file)
	}
	l, err := httpapi.Listen(ctx, c.Listen, c.ReusePort)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %w", c.Listen, err)
	}
	if s.file, err = duplicate(l.(*net.TCPListener)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// close gives the socket up. Unless somebody else has it, it is closed once its listeners are.
func (s *socket) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		_ = s.file.Close()
		s.file = nil
	}
}

// duplicate returns another descriptor of the socket. Unlike (*net.TCPListener).File it stays in non-blocking mode,
// which all descriptors of the socket share.
func duplicate(l *net.TCPListener) (*os.File, error) {
	c, err := l.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, failed := 0, error(nil)
	if err := c.Control(func(of uintptr) { fd, failed = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 3) }); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, os.NewSyscallError("fcntl", failed)
	}
	return os.NewFile(uintptr(fd), "listener"), nil
}

// adopt takes over a listening socket that origin made, and returns its address. It closes f.
func (s *socket) adopt(f *os.File, origin string) (string, error) {
	defer func() { _ = f.Close() }()
	accepts, err := unix.GetsockoptInt(int(f.Fd()), unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil || accepts == 0 {
		return "", fmt.Errorf("%w: %s from %s", errNoSocket, f.Name(), origin)
	}
	l, err := net.FileListener(f)
	if err != nil {
		return "", fmt.Errorf("%w: %s from %s: %w", errNoSocket, f.Name(), origin, err)
	}
	defer func() { _ = l.Close() }()
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return "", fmt.Errorf("%w: %s from %s is of the kind %s", errNoSocket, f.Name(), origin, l.Addr().Network())
	}
	if err := httpapi.Adopt(tcp); err != nil {
		return "", err
	}
	s.file, err = duplicate(tcp)
	s.origin = origin
	return l.Addr().String(), err
}

// activated returns the socket that the service manager passed (LISTEN_FDS), nil when it passed none.
func activated() (*os.File, error) {
	files := activation.Files(true)
	if len(files) > 1 {
		return nil, fmt.Errorf("%d sockets were passed (LISTEN_FDS): want one", len(files))
	}
	if len(files) == 0 {
		return nil, nil
	}
	return files[0], nil
}
