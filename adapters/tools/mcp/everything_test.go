package mcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// everything is the entry of the MCP project's own test server; see scripts/with-mcp-everything.sh.
func everything(t *testing.T) string {
	t.Helper()
	path := os.Getenv("KEEL_TEST_MCP_EVERYTHING")
	require.NotEmpty(t, path, "KEEL_TEST_MCP_EVERYTHING is not set: run make test, or scripts/with-mcp-everything.sh go test …")
	return path
}

// peerCase is a way to the test server.
type peerCase struct {
	declared Server
	kill     func(t *testing.T, logs *observer.ObservedLogs)
	restart  func(t *testing.T)
}

func TestEverythingOverStdio(t *testing.T) {
	testEverything(t, func(t *testing.T) peerCase {
		return peerCase{
			declared: Server{Command: "node", Args: []string{everything(t), "stdio"}},
			kill: func(t *testing.T, logs *observer.ObservedLogs) {
				started := logs.FilterMessage("process started").All()
				pid, _ := started[len(started)-1].ContextMap()["pid"].(int64)
				require.NoError(t, syscall.Kill(int(pid), syscall.SIGKILL))
			},
			restart: func(*testing.T) {}, // the tools do that
		}
	})
}

func TestEverythingOverHTTP(t *testing.T) {
	testEverything(t, func(t *testing.T) peerCase {
		node, port := serveEverything(t, 0)
		return peerCase{
			declared: Server{URL: fmt.Sprintf("http://127.0.0.1:%d/mcp", port)},
			kill: func(t *testing.T, _ *observer.ObservedLogs) {
				require.NoError(t, node.Process.Kill())
				_ = node.Wait()
			},
			restart: func(t *testing.T) { serveEverything(t, port) },
		}
	})
}

// serveEverything starts the test server on a port, any free one when it is 0, and waits until it listens.
func serveEverything(t *testing.T, port int) (*exec.Cmd, int) {
	t.Helper()
	for range 10 {
		at := port
		if at == 0 {
			l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			at = l.Addr().(*net.TCPAddr).Port
			require.NoError(t, l.Close())
		}
		node := exec.Command("node", everything(t), "streamableHttp")
		node.Env = []string{"PATH=" + os.Getenv("PATH"), fmt.Sprintf("PORT=%d", at)}
		require.NoError(t, node.Start())
		ended := make(chan struct{})
		t.Cleanup(func() { _ = node.Process.Kill(); <-ended })
		go func() { _, _ = node.Process.Wait(); close(ended) }()
		if listens(at, ended) {
			return node, at
		}
	}
	t.Fatal("the test server found no free port")
	return nil, 0
}

func listens(port int, ended <-chan struct{}) bool {
	for end := time.Now().Add(deadline); time.Now().Before(end); {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = c.Close()
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
	return false
}

func testEverything(t *testing.T, open func(t *testing.T) peerCase) {
	peer := open(t)
	d := peer.declared
	d.TrustReadOnly, d.Timeout, d.MaxTimeout = true, 2*time.Second, time.Hour
	tools, logs := run(t, d)

	t.Run("list", func(t *testing.T) {
		require.Subset(t, names(tools), []string{"s__echo", "s__get-sum", "s__get-env", "s__get-tiny-image", "s__trigger-long-running-operation"})
		for _, spec := range tools.Specs() {
			if spec.Name == "s__echo" || spec.Name == "s__toggle-simulated-logging" {
				require.Equal(t, spec.Name == "s__echo", spec.ReplaySafe, spec.Name)
			}
		}
	})
	t.Run("call", func(t *testing.T) {
		require.Equal(t, "Echo: hé", said(t, tools, "s__echo", `{"message":"hé"}`))
		require.Equal(t, "The sum of 2 and 40 is 42.", said(t, tools, "s__get-sum", `{"a":2,"b":40}`))
		require.Contains(t, failure(t, tools, "s__get-sum", `{"a":"2","b":40}`), "/properties/a")
		require.Contains(t, said(t, tools, "s__get-structured-content", `{"location":"New York"}`), "temperature")

		image := execute(t, tools, "s__get-tiny-image", `{}`)
		require.Equal(t, domain.ImageBlock, image.Content[1].Type)
		links := execute(t, tools, "s__get-resource-links", `{"count":2}`)
		require.Contains(t, links.Content[1].Text, "[link to a resource: demo://")
		reference := execute(t, tools, "s__get-resource-reference", `{"resourceType":"Text","resourceId":1}`)
		require.Contains(t, reference.Content[1].Text, "[resource demo://")
		require.NotContains(t, said(t, tools, "s__get-env", `{}`), "KEEL_TEST_MCP_EVERYTHING")
	})
	t.Run("progress", func(t *testing.T) {
		require.Contains(t, said(t, tools, "s__trigger-long-running-operation", `{"duration":3,"steps":12}`), "completed")
		require.Contains(t, failure(t, tools, "s__trigger-long-running-operation", `{"duration":60,"steps":1}`), "no sign of progress for 2s")
	})
	t.Run("cancellation", func(t *testing.T) {
		cause := errors.New("cancelled")
		ctx, cancel := context.WithCancelCause(t.Context())
		seen := tokens(logs)
		result := long(ctx, tools)
		underWay(t, logs, seen)
		cancel(cause)
		require.ErrorIs(t, (<-result).err, cause)
		require.Equal(t, "Echo: x", said(t, tools, "s__echo", `{"message":"x"}`))
	})
	t.Run("killed mid-call", func(t *testing.T) {
		seen := tokens(logs)
		result := long(t.Context(), tools)
		underWay(t, logs, seen)
		peer.kill(t, logs)
		r := <-result
		require.NoError(t, r.err, "a dead server is no dead run")
		require.True(t, r.out.IsError)
		require.Contains(t, r.out.Content[0].Text, "failed")
		require.Contains(t, names(tools), "s__echo")
		peer.restart(t)
		eventually(t, "the server is back", func() bool {
			out, err := tools.Execute(t.Context(), ports.ToolInvocation{ID: "c1", Name: "s__echo", Arguments: `{"message":"x"}`})
			return err == nil && !out.IsError && strings.Contains(out.Content[0].Text, "Echo: x")
		})
	})
}

type outcome struct {
	out ports.ToolOutput
	err error
}

func long(ctx context.Context, tools ports.Tools) <-chan outcome {
	result := make(chan outcome, 1)
	go func() {
		out, err := tools.Execute(ctx, ports.ToolInvocation{ID: "c1", Name: "s__trigger-long-running-operation", Arguments: `{"duration":600,"steps":3000}`})
		result <- outcome{out, err}
	}()
	return result
}

// tokens are those of the calls that showed progress.
func tokens(logs *observer.ObservedLogs) map[any]bool {
	seen := map[any]bool{}
	for _, entry := range logs.FilterMessage("progress").All() {
		seen[entry.ContextMap()["token"]] = true
	}
	return seen
}

// underWay waits until one more call than before shows progress.
func underWay(t *testing.T, logs *observer.ObservedLogs, before map[any]bool) {
	t.Helper()
	eventually(t, "the call is under way", func() bool { return len(tokens(logs)) > len(before) })
}
