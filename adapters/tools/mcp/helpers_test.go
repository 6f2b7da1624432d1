package mcp

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// deadline is how long a test waits for real processes.
const deadline = 20 * time.Second

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, deadline, 5*time.Millisecond, what)
}

// run declares one server, s, starts it and waits until it was listed or failed.
func run(t *testing.T, d Server) (*Tools, *observer.ObservedLogs) {
	t.Helper()
	return runWith(t, d, nil)
}

// runWith is run with secrets of tenants.
func runWith(t *testing.T, d Server, v ports.Vault) (*Tools, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	tools, err := New(Config{Servers: map[string]Server{"s": d}, Lookup: os.LookupEnv, Vault: v, Version: "test", Log: zap.New(core)})
	require.NoError(t, err)
	tools.Start()
	t.Cleanup(func() { closeSoon(t, tools) })
	tools.Load(t.Context(), "", []string{"s__any"})
	return tools, logs
}

func closeSoon(t *testing.T, tools *Tools) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	tools.Close(ctx)
	require.NoError(t, ctx.Err(), "the end takes too long")
}

// itself declares this test's binary as a server with a habit.
func itself(t *testing.T, mode string) Server {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return Server{Command: path, Env: map[string]string{peerMode: mode}}
}

// inMemory starts tools with one server, s, that lives in this process. Connections fail while refuse returns true.
func inMemory(t *testing.T, d Server, s func() *mcp.Server, refuse func() bool) *Tools {
	t.Helper()
	d.Command = "true" // it is not started
	tools, err := New(Config{Servers: map[string]Server{"s": d}, Lookup: os.LookupEnv, Version: "test", Log: zap.NewNop()})
	require.NoError(t, err)
	tools.servers["s"].open = func() (link, error) {
		if refuse != nil && refuse() {
			return link{}, errors.New("refused")
		}
		return linkTo(s())
	}
	tools.Start()
	t.Cleanup(func() { closeSoon(t, tools) })
	return tools
}

// linkTo is a way to a server that lives in this process.
func linkTo(s *mcp.Server) (link, error) {
	here, there := mcp.NewInMemoryTransports()
	session, err := s.Connect(context.Background(), there, nil)
	if err != nil {
		return link{}, err
	}
	return link{here, func(context.Context) { _ = session.Close() }}, nil
}

// door is what connections to a server in memory must pass.
type door struct {
	mu     sync.Mutex
	closed bool
	tries  []time.Time
}

func (d *door) refuses() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tries = append(d.tries, time.Now())
	return d.closed
}

// set opens or closes the door and returns the tries since it was set.
func (d *door) set(closed bool) []time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	tries := d.tries
	d.closed, d.tries = closed, nil
	return tries
}

func newPeer() *mcp.Server {
	return mcp.NewServer(&mcp.Implementation{Name: "peer", Version: "1"}, nil)
}

func execute(t *testing.T, tools ports.Tools, name, args string) ports.ToolOutput {
	t.Helper()
	return executeFor(t, "", tools, name, args)
}

// executeFor is execute for a tenant.
func executeFor(t *testing.T, tenant string, tools ports.Tools, name, args string) ports.ToolOutput {
	t.Helper()
	out, err := tools.Execute(t.Context(), ports.ToolInvocation{
		Ref: domain.SessionRef{Tenant: tenant, Session: "s"}, ID: "c1", Name: name, Arguments: args,
	})
	require.NoError(t, err, "a tool's failure is a result")
	require.NotEmpty(t, out.Content)
	return out
}

// said is the text of a result that is no error.
func said(t *testing.T, tools ports.Tools, name, args string) string {
	t.Helper()
	out := execute(t, tools, name, args)
	require.False(t, out.IsError, "%v", out.Content)
	return out.Content[0].Text
}

// failure is the text of a result that is one.
func failure(t *testing.T, tools ports.Tools, name, args string) string {
	t.Helper()
	out := execute(t, tools, name, args)
	require.True(t, out.IsError, "%v", out.Content)
	return out.Content[0].Text
}

func names(tools ports.Tools) []string {
	var list []string
	for _, s := range tools.Specs() {
		list = append(list, s.Name)
	}
	return list
}
