//go:build !linux

package workspace

import (
	"context"
	"fmt"

	"github.com/keel-agent/keel/adapters/tools/toolset"
)

type shell struct{ sandbox string }

type command struct{}

// newShell knows no way to end all that a command started, but on Linux.
func newShell(c Config) (*shell, error) {
	if c.Bash == "" || c.Bash == BashOff {
		return nil, nil
	}
	return nil, fmt.Errorf("bash %q: commands run on Linux only", c.Bash)
}

func (t *Tools) bash(*shell) func(context.Context, toolset.Call) (string, error) { return nil }
