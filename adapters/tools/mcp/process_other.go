//go:build !unix

package mcp

import "os/exec"

// Without process groups what a server started itself is left to end by the end of its input.

func leadGroup(*exec.Cmd) {}

func terminateGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
