package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/tools/output"
)

const (
	// settled is how long a connection must last for the next failure to count as the first.
	settled = 10 * time.Second

	// lazyIdle is how long a lazy server is kept without a call.
	lazyIdle = time.Minute
)

// server keeps the connection to one server, and what is known of its tools.
type server struct {
	name    string
	decl    Server
	version string
	log     *zap.Logger
	open    func() (link, error) // opens a way to the server
	publish func()               // is called when the tools changed
	hidden  output.Hidden        // what nothing that the server says may show
	dropped func() bool          // reports whether the server is given up since nobody needs it; nil when it never is

	doubted chan struct{} // asks for a look whether the tools changed and the connection works
	first   *attempt      // to connect

	mu    sync.Mutex
	conn  *connection // nil when there is none
	calls int         // that use the connection
	used  time.Time   // when the last call ended, or the connection began
	next  *attempt    // the attempt that is under way, else the next one
	tools []tool
	known bool // the tools were listed
}

func newServer(name string, d Server, version string, log *zap.Logger, open func() (link, error)) *server {
	first := newAttempt()
	return &server{
		name: name, decl: d, version: version, log: log, open: open, publish: func() {}, doubted: make(chan struct{}, 1),
		first: first, next: first,
	}
}

// run keeps the server connected until ctx ends. Then it may end well for as long as goodbye lasts.
func (s *server) run(ctx, goodbye context.Context) {
	failures, legacyFirst := 0, false
	for ctx.Err() == nil {
		conn, err := s.connect(ctx, legacyFirst)
		began := time.Now()
		if err == nil {
			err = s.attend(ctx, conn)
			s.leave(goodbye, conn)
		} else {
			legacyFirst = !legacyFirst
			s.finish(nil, err)
		}
		if ctx.Err() != nil || s.dropped != nil && s.dropped() {
			break
		}
		failures++
		if time.Since(began) >= settled || errors.Is(err, errIdle) {
			failures = 0
		}
		s.pause(ctx, failures, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next.err = errClosed
	close(s.next.done)
}

var (
	errIdle   = errors.New("nobody used it")
	errLost   = errors.New("the connection was lost")
	errClosed = errors.New("this process is ending")
)

// connect opens a session and lists the tools.
func (s *server) connect(ctx context.Context, legacyFirst bool) (*connection, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.decl.Connect, fmt.Errorf("it did not answer within %s", s.decl.Connect))
	defer cancel()
	way, err := s.open()
	if err != nil {
		return nil, err
	}
	protocol := "" // the newest, which begins otherwise
	if legacyFirst {
		protocol = legacy
	}
	conn, err := s.handshake(ctx, way, protocol)
	if err != nil {
		way.stop(ctx)
		return nil, err
	}
	tools, err := s.list(ctx, conn.session)
	if err != nil {
		conn.close(ctx)
		return nil, causeOf(ctx, err)
	}
	s.log.Info("connected", zap.Strings("tools", namesOf(tools)))
	s.replaceTools(tools)
	s.finish(conn, nil)
	return conn, nil
}

// finish ends the attempt that is under way: those who wait for it go on.
func (s *server) finish(conn *connection, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn, s.next.err = conn, err
	if conn != nil {
		s.used = time.Now()
	}
	close(s.next.done)
	s.next = newAttempt()
}

func (s *server) replaceTools(tools []tool) {
	s.mu.Lock()
	s.tools, s.known = tools, true
	s.mu.Unlock()
	s.publish()
}

// mayHave reports whether the server listed a tool of that name last, or was not listed yet.
func (s *server) mayHave(name string) bool {
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	return !known || slices.Contains(s.names(), name)
}

func (s *server) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return namesOf(s.tools)
}

// doubt lets the server be looked at soon.
func (s *server) doubt() {
	select {
	case s.doubted <- struct{}{}:
	default:
	}
}

// attend follows a connection and returns why it is over.
func (s *server) attend(ctx context.Context, conn *connection) error {
	var idle <-chan time.Time
	if s.decl.Startup == lazy {
		ticker := time.NewTicker(lazyIdle / 4)
		defer ticker.Stop()
		idle = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return errClosed
		case <-conn.ended:
			return errLost
		case <-s.doubted:
			if err := s.relist(ctx, conn); err != nil {
				return err
			}
		case <-idle:
			if s.letGo() {
				return errIdle
			}
		}
	}
}

func (s *server) relist(ctx context.Context, conn *connection) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.decl.Connect, fmt.Errorf("it did not answer within %s", s.decl.Connect))
	defer cancel()
	tools, err := s.list(ctx, conn.session)
	if err != nil {
		return causeOf(ctx, err)
	}
	s.log.Debug("tools listed anew", zap.Strings("tools", namesOf(tools)))
	s.replaceTools(tools)
	s.mu.Lock()
	lost := s.conn == nil
	s.mu.Unlock()
	if lost { // by a call, for a reason that has passed
		s.finish(conn, nil)
	}
	return nil
}

// letGo takes the connection of a lazy server away when nobody used it for a while.
func (s *server) letGo() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls > 0 || time.Since(s.used) < lazyIdle {
		return false
	}
	s.conn = nil
	return true
}

// leave ends a connection. Calls that still use it fail.
func (s *server) leave(ctx context.Context, conn *connection) {
	s.mu.Lock()
	s.conn = nil
	s.mu.Unlock()
	polite, cancel := context.WithTimeout(ctx, 2*farewell)
	defer cancel()
	conn.close(polite)
}

// causeOf returns why ctx ended if it did, else err.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func namesOf(tools []tool) []string {
	names := make([]string, 0, len(tools))
	for _, t := range tools {
		names = append(names, t.spec.Name)
	}
	return names
}
