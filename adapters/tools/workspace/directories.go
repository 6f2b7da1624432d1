package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/keel-agent/keel/adapters/tools/toolset"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// directories finds the workspace of each session.
type directories struct {
	root *os.Root
	path string // of root, absolute and free of symbolic links
}

// directory is the workspace of one session. Whatever path its root gets, the kernel resolves it step by step, and no
// step leads out.
type directory struct {
	*os.Root
	path string
}

// open returns the workspace of a session, made with mode 0700 on first use. The caller closes it.
func (d *directories) open(ref domain.SessionRef) (directory, error) {
	name := filepath.Join(encode(ref.Tenant), encode(ref.Session))
	if err := d.root.MkdirAll(name, 0o700); err != nil {
		return directory{}, err
	}
	for _, part := range []string{filepath.Dir(name), name} { // a link might lead to the workspace of another session
		info, err := d.root.Lstat(part)
		if err != nil {
			return directory{}, err
		}
		if !info.IsDir() {
			return directory{}, fmt.Errorf("%s is no directory", part)
		}
	}
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return directory{}, err
	}
	return directory{root, filepath.Join(d.path, name)}, nil
}

const maxName = 200 // bytes of an encoded id, below what file systems allow

// encode makes a file name of an id, another one for each id, also where case does not count.
func encode(id string) string {
	var b strings.Builder
	for _, c := range []byte(id) {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	if b.Len() == 0 {
		return "%"
	}
	if b.Len() > maxName {
		sum := sha256.Sum256([]byte(id))
		return b.String()[:maxName/2] + "~" + hex.EncodeToString(sum[:])
	}
	return b.String()
}

// file makes a tool of a function that works on the files of one workspace.
func (t *Tools) file(spec ports.ToolSpec, run func(context.Context, directory, toolset.Arguments) (string, error)) toolset.Tool {
	return toolset.Tool{Spec: spec, Timeout: fileTimeout, Run: func(ctx context.Context, call toolset.Call) (string, error) {
		dir, err := t.dirs.open(call.Ref)
		if err != nil {
			return "", fmt.Errorf("the workspace cannot be opened: %w", reason(err))
		}
		defer func() { _ = dir.Close() }()
		return run(ctx, dir, call.Args)
	}}
}
