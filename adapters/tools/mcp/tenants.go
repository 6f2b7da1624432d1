package mcp

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/tools/declared"
	"github.com/keel-agent/keel/adapters/tools/output"
	"github.com/keel-agent/keel/ports"
)

// tenants has the servers of a declaration whose headers hold secrets of tenants: each tenant that lately used it has its
// own, and so has each value of the secrets. No connection serves two.
type tenants struct {
	headers declared.Headers
	alive   context.Context
	create  func(header http.Header, tenant string) *server
	begin   func(ctx context.Context, s *server) bool

	mu  sync.Mutex
	own map[string]*ownServer // by tenant
}

// ownServer is the server of one tenant, as long as the secrets in its headers are those.
type ownServer struct {
	*server
	header  http.Header
	end     context.CancelFunc
	retired bool // it ends when no call uses it; server.mu guards it
}

func (t *Tools) ofTenants(name string, d Server, headers declared.Headers, version string, log *zap.Logger) *tenants {
	d.Startup = lazy
	return &tenants{
		headers: headers, alive: t.alive, begin: t.begin, own: map[string]*ownServer{},
		create: func(header http.Header, tenant string) *server {
			log := log.With(zap.String("tenant", tenant))
			return newServer(name, d, version, log, opener(d, header, nil, log))
		},
	}
}

// errUnusable is a reason why a tenant cannot use a server, for the model.
type errUnusable struct{ error }

// server returns the tenant's own server, begun when there is none that has the secrets as they are now. It lasts at least
// until it is released.
func (t *tenants) server(ctx context.Context, tenant string) (*server, func(), error) {
	header, hidden, err := t.headers.For(ctx, tenant)
	if err != nil {
		return nil, nil, errUnusable{err}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	have := t.own[tenant]
	if have == nil || !have.has(header) {
		next := t.open(tenant, header, hidden)
		if next == nil {
			return nil, nil, errClosed
		}
		if have != nil {
			have.retire()
		}
		t.own[tenant], have = next, next
	}
	have.hold()
	return have.server, have.release, nil
}

// current returns the tenant's own server if there is one that has the secrets as they are now, else nil.
func (t *tenants) current(ctx context.Context, tenant string) *server {
	header, _, err := t.headers.For(ctx, tenant)
	if err != nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if have := t.own[tenant]; have != nil && have.has(header) {
		return have.server
	}
	return nil
}

func (s *ownServer) has(header http.Header) bool {
	return maps.EqualFunc(s.header, header, slices.Equal)
}

// open begins a server for a tenant; nil once all of them end.
func (t *tenants) open(tenant string, header http.Header, hidden output.Hidden) *ownServer {
	s := &ownServer{server: t.create(header, tenant), header: header}
	s.hidden, s.used = hidden, time.Now()
	s.dropped = func() bool { return t.drop(tenant, s) }
	ctx, end := context.WithCancel(t.alive)
	s.end = end
	if !t.begin(ctx, s.server) {
		end()
		return nil
	}
	return s
}

// drop gives up a server that nobody used for a while, and reports whether it did.
func (t *tenants) drop(tenant string, s *ownServer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls > 0 || time.Since(s.used) < lazyIdle {
		return false
	}
	if t.own[tenant] == s {
		delete(t.own, tenant)
	}
	s.end()
	return true
}

func (s *ownServer) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
}

func (s *ownServer) release() {
	s.server.release()
	s.endIfRetired()
}

// retire lets the server end when the calls that use it have.
func (s *ownServer) retire() {
	s.mu.Lock()
	s.retired = true
	s.mu.Unlock()
	s.endIfRetired()
}

func (s *ownServer) endIfRetired() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired && s.calls == 0 {
		s.end()
	}
}

var goodName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// standIn is what a model is offered in place of a tool that the tenant cannot use, so that somebody gets to know why.
func standIn(name string, why error) (ports.ToolSpec, bool) {
	_, unusable := errors.AsType[errUnusable](why)
	return ports.ToolSpec{
		Name: name, Description: "Cannot be used for now: " + why.Error(), Schema: `{"type":"object","properties":{}}`,
	}, unusable && goodName.MatchString(name)
}
