// Package workspace holds tools for coding agents: read, write, edit, ls, glob, grep and, when enabled, bash. They are
// confined to one directory per session.
package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/keel-agent/keel/adapters/tools/toolset"
)

// Config says where the workspaces are and what bash may do.
type Config struct {
	// Dir holds every session's workspace, as Dir/TENANT/SESSION. It is made with mode 0700 when it is not there.
	Dir string

	// Bash is off (the default, also when empty), sandboxed or unconfined.
	Bash string

	// BashNetwork gives sandboxed commands the network of the server.
	BashNetwork bool

	// Sandboxes are tried in this order when Bash is sandboxed; nil means those of this system.
	Sandboxes []Sandbox
}

// Values of Config.Bash.
const (
	BashOff        = "off"
	BashSandboxed  = "sandboxed"
	BashUnconfined = "unconfined"
)

// Sandbox is a way to confine commands.
type Sandbox struct {
	Name  string
	Probe func() error // runs something in the sandbox; nil when it works here
	wrap  func(command) command
}

// Tools is the set of workspace tools.
type Tools struct {
	*toolset.Set
	dirs    *directories
	sandbox string
}

const fileTimeout = 30 * time.Second // of one call of a tool other than bash

// New opens the directory of the workspaces and, when bash must be sandboxed, finds a sandbox that works; it fails when
// there is none.
func New(c Config) (*Tools, error) {
	if c.Dir == "" {
		return nil, errors.New("workspace: no directory")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	t := &Tools{dirs: &directories{root: root, path: dir}}
	tools := []toolset.Tool{
		t.file(readSpec, read), t.file(writeSpec, write), t.file(editSpec, edit), t.file(lsSpec, ls), t.file(globSpec, glob),
		t.file(grepSpec, grep),
	}
	sh, err := newShell(c)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	if sh != nil {
		t.sandbox = sh.sandbox
		tools = append(tools, toolset.Tool{Spec: bashSpec, Run: t.bash(sh)})
	}
	t.Set = toolset.New(tools...)
	return t, nil
}

// Sandbox names the sandbox of bash: unconfined when it has none, "" when there is no bash.
func (t *Tools) Sandbox() string { return t.sandbox }

// Close gives back what the set holds. Calls that run may fail.
func (t *Tools) Close() error { return t.dirs.root.Close() }

// choose returns the first sandbox that works.
func choose(sandboxes []Sandbox) (Sandbox, error) {
	err := errors.New("commands must be sandboxed, and no sandbox works here")
	for _, s := range sandboxes {
		why := s.Probe()
		if why == nil {
			return s, nil
		}
		err = fmt.Errorf("%w; %s: %w", err, s.Name, why)
	}
	return Sandbox{}, err
}
