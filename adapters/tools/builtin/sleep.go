package builtin

import (
	"context"
	"fmt"
	"time"

	"github.com/keel-agent/keel/adapters/tools/toolset"
	"github.com/keel-agent/keel/ports"
)

var sleepSpec = ports.ToolSpec{
	Name:        "sleep",
	Description: "Waits for a number of milliseconds.",
	Schema: `{"type":"object","properties":{"ms":{"type":"integer","minimum":0,"maximum":3600000,"description":"how long to wait, in milliseconds"},` +
		`"ignoreCancel":{"type":"boolean","description":"go on waiting when the run is cancelled"}},"required":["ms"],"additionalProperties":false}`,
}

func sleep(ctx context.Context, call toolset.Call) (string, error) {
	ms := call.Args.Integer("ms")
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	cancelled := ctx.Done()
	if call.Args.Flag("ignoreCancel") {
		cancelled = nil
	}
	select {
	case <-timer.C:
		return fmt.Sprintf("waited %d ms", ms), nil
	case <-cancelled:
		return "", context.Cause(ctx)
	}
}
