package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/tools/output"
)

// link is a way to a server: a process, or sockets.
type link struct {
	transport mcp.Transport
	stop      func(ctx context.Context) // gives the peer time to end well until ctx ends, then cuts
}

// connection is a session with a server, from its handshake to its end.
type connection struct {
	session *mcp.ClientSession
	link    link
	log     *zap.Logger
	hidden  output.Hidden
	ended   chan struct{} // closed when the session is over

	tokens  atomic.Int64
	mu      sync.Mutex
	waiting map[string]func() // by progress token: what a sign of progress does
}

// legacy is the last protocol version whose sessions begin with initialize.
const legacy = "2025-11-25"

// handshake opens a session over a link. It returns when ctx ends, even if the peer never answers; the caller stops the
// link of one that failed.
func (s *server) handshake(ctx context.Context, l link, protocol string) (*connection, error) {
	c := &connection{link: l, log: s.log, hidden: s.hidden, ended: make(chan struct{}), waiting: map[string]func(){}}
	client := mcp.NewClient(&mcp.Implementation{Name: "keel", Version: s.version}, &mcp.ClientOptions{
		Logger:                      slog.New(slog.DiscardHandler),
		Capabilities:                &mcp.ClientCapabilities{},
		MultiRoundTrip:              &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { s.doubt() },
		ProgressNotificationHandler: c.progressed,
	})
	type opened struct {
		session *mcp.ClientSession
		err     error
	}
	result := make(chan opened, 1)
	go func() {
		session, err := client.Connect(ctx, l.transport, &mcp.ClientSessionOptions{ProtocolVersion: protocol})
		result <- opened{session, err}
	}()
	select {
	case o := <-result:
		if o.err != nil {
			return nil, o.err
		}
		c.session = o.session
	case <-ctx.Done():
		go func() { // it ends with the link
			if o := <-result; o.session != nil {
				_ = o.session.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
	go func() {
		_ = c.session.Wait()
		close(c.ended)
	}()
	return c, nil
}

// close ends the session and its link within the time of ctx, and a little more when the peer must be killed.
func (c *connection) close(ctx context.Context) {
	closed := make(chan struct{})
	go func() { defer close(closed); _ = c.session.Close() }()
	polite, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	select {
	case <-closed:
	case <-polite.Done():
	}
	c.link.stop(ctx)
	<-closed
	<-c.ended
}

func (c *connection) progressed(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
	token, _ := req.Params.ProgressToken.(string)
	c.log.Debug("progress", zap.String("token", c.hidden.In(token)),
		zap.Float64("progress", req.Params.Progress), zap.Float64("total", req.Params.Total))
	c.mu.Lock()
	defer c.mu.Unlock()
	if sign := c.waiting[token]; sign != nil {
		sign()
	}
}

// expect makes signs of progress of one call, with the token that it returns, call sign until forget is called.
func (c *connection) expect(sign func()) (token string, forget func()) {
	token = strconv.FormatInt(c.tokens.Add(1), 10)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[token] = sign
	return token, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, token)
	}
}

// Ends of a call.
var (
	errSilent  = errors.New("the server was silent for too long")
	errTooLong = errors.New("the call took too long")
)

// call runs one tool. It returns as soon as ctx ends; the server is told.
func (c *connection) call(ctx context.Context, tool, args string, sign func()) (*mcp.CallToolResult, error) {
	token, forget := c.expect(sign)
	defer forget()
	params := &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)}
	params.SetProgressToken(token)
	type answered struct {
		result *mcp.CallToolResult
		err    error
	}
	answer := make(chan answered, 1)
	go func() {
		result, err := c.session.CallTool(ctx, params)
		answer <- answered{result, err}
	}()
	select {
	case a := <-answer:
		if a.err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return a.result, a.err
	case <-ctx.Done(): // the goroutine may be held up by a peer that does not read
		return nil, context.Cause(ctx)
	}
}

// patience ends a context after a time without a sign of life, and after a longest time whatever happens.
func patience(ctx context.Context, silence, longest time.Duration) (_ context.Context, sign, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	silent := time.AfterFunc(silence, func() { cancel(errSilent) })
	late := time.AfterFunc(longest, func() { cancel(errTooLong) })
	return ctx, func() { silent.Reset(silence) }, func() { silent.Stop(); late.Stop(); cancel(nil) }
}

func impatient(err error, d Server) error {
	switch {
	case errors.Is(err, errSilent):
		return fmt.Errorf("it gave no answer and no sign of progress for %s, and was cancelled", d.Timeout)
	case errors.Is(err, errTooLong):
		return fmt.Errorf("it did not end within %s, and was cancelled", d.MaxTimeout)
	}
	return err
}
