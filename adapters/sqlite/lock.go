//go:build unix

package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ErrLocked is returned when another process serves the database.
var ErrLocked = errors.New("sqlite: another process serves this database")

// fileLock is the right to serve a database. The kernel takes it back when the process ends, however it ends.
type fileLock struct{ file *os.File }

// lockFile takes the lock of the database at path, or returns ErrLocked. The lock file itself stays for ever: removing
// it would let two processes lock two files of one name.
func lockFile(path string) (*fileLock, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // one database, one lock, by whatever link it is reached
	}
	name := path + ".lock"
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		return &fileLock{f}, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: %s is locked", ErrLocked, name)
	}
	return nil, fmt.Errorf("sqlite: lock %s: %w", name, err)
}

func (l *fileLock) release() { _ = l.file.Close() }
