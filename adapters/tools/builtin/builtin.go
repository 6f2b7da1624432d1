// Package builtin holds a few harmless tools: time, calculator and sleep.
package builtin

import (
	"github.com/keel-agent/keel/adapters/tools/toolset"
	"github.com/keel-agent/keel/ports"
)

// New returns the built-in tools. The clock tells the time to the time tool.
func New(clock ports.Clock) ports.Tools {
	return toolset.New(
		toolset.Tool{Spec: timeSpec, Run: zoned{clock}.time},
		toolset.Tool{Spec: calculatorSpec, Run: calculate},
		toolset.Tool{Spec: sleepSpec, Run: sleep},
	)
}
