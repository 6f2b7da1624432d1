package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/keel-agent/keel/ports"
)

// acquire returns the connection, after one attempt to connect if there is none. The caller releases it.
func (s *server) acquire(ctx context.Context) (*connection, error) {
	s.mu.Lock()
	if s.conn != nil {
		defer s.mu.Unlock()
		s.calls++
		return s.conn, nil
	}
	next := s.next
	s.mu.Unlock()
	next.want()
	select {
	case <-next.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if next.err != nil {
		return nil, next.err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return nil, errLost
	}
	s.calls++
	return s.conn, nil
}

// lose gives a connection on which a call failed to no other call until it was looked at.
func (s *server) lose(conn *connection) {
	s.mu.Lock()
	if s.conn == conn {
		s.conn = nil
	}
	s.mu.Unlock()
	s.doubt()
}

func (s *server) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	s.used = time.Now()
}

// listed waits until the server was listed for the first time, or could not be, or until ctx ends.
func (s *server) listed(ctx context.Context) {
	select {
	case <-s.first.done:
	case <-ctx.Done():
	}
}

// find returns a tool by the name by which models call it. The error is for the model.
func (s *server) find(name string) (tool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.tools, func(t tool) bool { return t.spec.Name == name })
	switch {
	case i >= 0:
		return s.tools[i], nil
	case s.tools == nil:
		return tool{}, fmt.Errorf("the server %s cannot be reached, so its tools are not known", s.name)
	}
	return tool{}, errNoTool(name)
}

// execute runs a tool. An error that is not of ctx is for the model.
func (s *server) execute(ctx context.Context, t tool, args string) (ports.ToolOutput, error) {
	out, err := s.try(ctx, t, args)
	return out, s.hidden.Error(err)
}

func (s *server) try(ctx context.Context, t tool, args string) (ports.ToolOutput, error) {
	limited, sign, stop := patience(ctx, s.decl.Timeout, s.decl.MaxTimeout)
	defer stop()
	conn, err := s.acquire(limited)
	if err != nil {
		return ports.ToolOutput{}, fmt.Errorf("the server %s cannot be reached, so the call was not made: %w", s.name, impatient(err, s.decl))
	}
	defer s.release()
	got, err := conn.call(limited, t.remote, args, sign)
	switch {
	case err == nil:
		return result(got, s.decl.MaxOutput, s.hidden), nil
	case refusedByServer(err):
		return ports.ToolOutput{}, fmt.Errorf("the server %s refused the call: %w", s.name, err)
	case limited.Err() == nil:
		s.lose(conn)
		return ports.ToolOutput{}, fmt.Errorf("the connection to the server %s failed during the call, whose outcome is unknown: %w", s.name, err)
	}
	return ports.ToolOutput{}, fmt.Errorf("the call of the server %s failed: %w", s.name, impatient(err, s.decl))
}

// refusedByServer reports whether err is a server's answer that says nothing against the connection. (Codes from -32099
// to -32000 are the servers' own; some say with one that they do not know the session any more.)
func refusedByServer(err error) bool {
	wire, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && (wire.Code < -32099 || wire.Code > -32000)
}
