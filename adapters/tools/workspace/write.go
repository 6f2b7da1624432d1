package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/keel-agent/keel/adapters/tools/toolset"
	"github.com/keel-agent/keel/ports"
)

var writeSpec = ports.ToolSpec{
	Name:        "write",
	Description: "Writes a file of the workspace, new or in the place of what is there, and makes the directories that it needs.",
	Schema: `{"type":"object","properties":{"path":{"type":"string","minLength":1,"maxLength":4096,"description":"relative to the workspace"},` +
		`"content":{"type":"string","description":"the whole content"}},"required":["path","content"],"additionalProperties":false}`,
	// The same content at the same path: writing it once more changes nothing.
	ReplaySafe: true, Sequential: true,
}

func write(_ context.Context, dir directory, args toolset.Arguments) (string, error) {
	name, err := dir.local(args.Text("path"))
	if err != nil {
		return "", err
	}
	content := args.Text("content")
	if err := dir.replace(name, content); err != nil {
		return "", err
	}
	return fmt.Sprintf("wrote %d bytes to %s", len(content), name), nil
}

var editSpec = ports.ToolSpec{
	Name: "edit",
	Description: "Replaces text in a file of the workspace. old must be in the file exactly as given, white space included, and only once " +
		"unless replaceAll is true.",
	Schema: `{"type":"object","properties":{"path":{"type":"string","minLength":1,"maxLength":4096,"description":"relative to the workspace"},` +
		`"old":{"type":"string","minLength":1,"description":"the text to replace"},"new":{"type":"string","description":"what takes its place"},` +
		`"replaceAll":{"type":"boolean","description":"replace every occurrence"}},"required":["path","old","new"],"additionalProperties":false}`,
	Sequential: true,
}

const maxEditFile = 16 << 20 // bytes

func edit(_ context.Context, dir directory, args toolset.Arguments) (string, error) {
	name, err := dir.local(args.Text("path"))
	if err != nil {
		return "", err
	}
	f, _, err := dir.openText(name, maxEditFile)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxEditFile+1))
	_ = f.Close()
	switch {
	case err != nil:
		return "", explain(name, err)
	case len(data) > maxEditFile:
		return "", fmt.Errorf("%q is growing", name)
	}
	from, to := args.Text("old"), args.Text("new")
	count := strings.Count(string(data), from)
	switch {
	case from == to:
		return "", errors.New("old and new are the same")
	case count == 0:
		return "", fmt.Errorf("old is not in %q; read the file and give the text exactly, white space included", name)
	case count > 1 && !args.Flag("replaceAll"):
		return "", fmt.Errorf("old is in %q %d times; give more of the text around it, or set replaceAll", name, count)
	}
	if err := dir.replace(name, strings.ReplaceAll(string(data), from, to)); err != nil {
		return "", err
	}
	return fmt.Sprintf("replaced %d in %s", count, name), nil
}

// replace puts content at name in one step: readers see the old file or the new one, and what else has a hard link to
// the old one keeps it.
func (d directory) replace(name, content string) error {
	name, err := d.target(name)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	switch info, err := d.Lstat(name); {
	case err == nil && info.IsDir():
		return fmt.Errorf("%q is a directory", name)
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%q is no regular file", name)
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return explain(name, err)
	}
	if err := d.MkdirAll(path.Dir(name), 0o755); err != nil {
		return explain(path.Dir(name), err)
	}
	temp := path.Join(path.Dir(name), ".keel-"+rand.Text())
	if err := d.create(temp, content, mode); err != nil {
		_ = d.Remove(temp)
		return explain(name, err)
	}
	if err := d.Rename(temp, name); err != nil {
		_ = d.Remove(temp)
		return explain(name, err)
	}
	return nil
}

func (d directory) create(name, content string, mode fs.FileMode) error {
	f, err := d.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return errors.Join(err, f.Chmod(mode), f.Close())
}

const maxLinks = 8

// target follows the symbolic links at name, so that the file is replaced and not the link. That it leads nowhere else
// is seen to by the root that gets the path.
func (d directory) target(name string) (string, error) {
	for range maxLinks {
		info, err := d.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return name, nil
		case err != nil:
			return "", explain(name, err)
		case info.Mode()&fs.ModeSymlink == 0:
			return name, nil
		}
		to, err := d.Readlink(name)
		if err != nil {
			return "", explain(name, err)
		}
		next, err := d.local(path.Join(path.Dir(name), to))
		if err != nil || path.IsAbs(to) {
			return "", fmt.Errorf("%q is a symbolic link that leads out of the workspace", name)
		}
		name = next
	}
	return "", fmt.Errorf("%q leads through too many symbolic links", name)
}
