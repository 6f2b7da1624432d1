package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// local returns the path that a model gave, cleaned, or says why it is none of the workspace. "" is the workspace.
func (d directory) local(name string) (string, error) {
	switch {
	case strings.ContainsRune(name, 0):
		return "", fmt.Errorf("the path %q has a NUL character", name)
	case filepath.IsAbs(name) || strings.HasPrefix(name, "/"):
		return "", fmt.Errorf("the path %q is absolute: paths are relative to the workspace, such as src/main.go", name)
	}
	clean := path.Clean(name)
	if !filepath.IsLocal(clean) {
		return "", fmt.Errorf("the path %q leads out of the workspace", name)
	}
	return clean, nil
}

// explain says to a model why something could not be done with a path, without paths of the server.
func explain(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no %q in the workspace", name)
	case strings.Contains(err.Error(), "path escapes from parent"):
		return fmt.Errorf("the path %q leads out of the workspace", name)
	}
	return fmt.Errorf("%q: %w", name, reason(err))
}

// reason is err without the path in it.
func reason(err error) error {
	var at *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &at):
		return at.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// open opens something to read without ever waiting for it, as the opening of a named pipe would.
func (d directory) open(name string) (*os.File, fs.FileInfo, error) {
	f, err := d.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, explain(name, err)
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, nil, explain(name, err)
	}
	return f, info, nil
}

// openText opens a file that is neither a directory nor special, not larger than limit, and looks like text.
func (d directory) openText(name string, limit int64) (*os.File, fs.FileInfo, error) {
	f, info, err := d.open(name)
	if err != nil {
		return nil, nil, err
	}
	if err := textual(name, f, info, limit); err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func textual(name string, f *os.File, info fs.FileInfo, limit int64) error {
	switch {
	case info.IsDir():
		return fmt.Errorf("%q is a directory; ls lists it", name)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%q is no regular file", name)
	case info.Size() > limit:
		return fmt.Errorf("%q has %d bytes, more than the %d that this tool reads", name, info.Size(), limit)
	}
	binary, err := isBinary(f)
	if err != nil {
		return explain(name, err)
	}
	if binary {
		return fmt.Errorf("%q is a binary file of %d bytes", name, info.Size())
	}
	return nil
}

const sniffed = 8 << 10 // bytes in which a NUL tells a binary file

func isBinary(f *os.File) (bool, error) {
	start := make([]byte, sniffed)
	n, err := f.ReadAt(start, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return strings.IndexByte(string(start[:n]), 0) >= 0, nil
}

// list returns the entries of a directory, at most limit of them, in no order.
func (d directory) list(name string, limit int) ([]fs.DirEntry, error) {
	f, info, err := d.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if !info.IsDir() {
		return nil, fmt.Errorf("%q is no directory; read shows a file", name)
	}
	entries, err := f.ReadDir(limit)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, explain(name, err)
	}
	return entries, nil
}
