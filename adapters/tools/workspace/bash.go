package workspace

import (
	"time"

	"github.com/keel-agent/keel/ports"
)

var bashSpec = ports.ToolSpec{
	Name: "bash",
	Description: "Runs a command with bash in the workspace and returns what it prints, standard error included. A long output loses its " +
		"middle. Each call begins in the workspace with an empty environment; when the command ends, so does everything that it started.",
	Schema: `{"type":"object","properties":{"command":{"type":"string","minLength":1,"maxLength":100000},` +
		`"timeout":{"type":"integer","minimum":1,"maximum":600,"description":"seconds after which everything is killed; 120 when absent"}},` +
		`"required":["command"],"additionalProperties":false}`,
	Sequential: true,
}

const (
	defaultTimeout = 120 * time.Second
	maxPrinted     = 30 << 10               // bytes of output that are kept
	grace          = 300 * time.Millisecond // between SIGTERM and SIGKILL
	drain          = 200 * time.Millisecond // for what a process outside of the group may still print
	watchInterval  = 50 * time.Millisecond
	maxProcesses   = 512 // of one command, at a time
)
