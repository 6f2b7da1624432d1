package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/tools/output"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Config is what a set is made of.
type Config struct {
	Servers map[string]Server           // by name
	Lookup  func(string) (string, bool) // of environment variables, as os.LookupEnv
	Vault   ports.Vault                 // of the secrets that headers name; nil when there are none
	Version string                      // of this program, as servers see it
	Log     *zap.Logger
}

// Tools is the set of all tools of all declared servers. It is a ports.LoadingTools.
type Tools struct {
	servers map[string]*server               // that all tenants share, by name
	tenants map[string]*tenants              // of which each tenant has its own, by name
	known   atomic.Pointer[[]ports.ToolSpec] // sorted by name

	publishing sync.Mutex
	beginning  sync.Mutex
	running    sync.WaitGroup
	alive      context.Context // until Close
	stop       context.CancelFunc
	goodbye    context.Context // for as long as servers may take to end well
	hurry      context.CancelFunc
}

// New returns the set, or what is wrong with a declaration. Nothing is contacted before Start.
func New(c Config) (*Tools, error) {
	t := &Tools{servers: map[string]*server{}, tenants: map[string]*tenants{}}
	t.known.Store(new([]ports.ToolSpec))
	t.alive, t.stop = context.WithCancel(context.Background())
	t.goodbye, t.hurry = context.WithCancel(context.Background())
	for _, name := range slices.Sorted(maps.Keys(c.Servers)) {
		d, headers, err := c.Servers[name].prepared(name, c.Lookup, c.Vault)
		if err != nil {
			return nil, fmt.Errorf("server %s: %w", name, err)
		}
		log := c.Log.With(zap.String("server", name))
		if headers.PerTenant() {
			t.tenants[name] = t.ofTenants(name, d, headers, c.Version, log)
			continue
		}
		s := newServer(name, d, c.Version, log, opener(d, headers.Fixed(), d.environment(c.Lookup), log))
		s.publish = t.publish
		t.servers[name] = s
	}
	return t, nil
}

// opener returns how a way to the server is opened.
func opener(d Server, header http.Header, env []string, log *zap.Logger) func() (link, error) {
	if d.Command == "" {
		return func() (link, error) {
			r := newRemote(d.URL, header)
			return link{r, func(context.Context) { r.cut() }}, nil
		}
	}
	return func() (link, error) {
		p, err := startProcess(d, env, log)
		if err != nil {
			return link{}, err
		}
		return link{p.transport(), p.stop}, nil
	}
}

// Start connects to the servers that all tenants share in the background. Others are connected when they are needed.
func (t *Tools) Start() {
	for _, s := range t.servers {
		t.begin(t.alive, s)
	}
}

// begin runs a server in the background until ctx ends, and reports whether it does: not once all of them end.
func (t *Tools) begin(ctx context.Context, s *server) bool {
	t.beginning.Lock()
	defer t.beginning.Unlock()
	if t.alive.Err() != nil {
		return false
	}
	t.running.Go(func() { s.run(ctx, t.goodbye) })
	return true
}

// Close ends all connections and the processes behind them. When ctx ends they are killed.
func (t *Tools) Close(ctx context.Context) {
	t.beginning.Lock()
	t.stop()
	t.beginning.Unlock()
	ended := make(chan struct{})
	go func() { defer close(ended); t.running.Wait() }()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	t.hurry()
	<-ended
}

// publish makes known which tools there are for all tenants.
func (t *Tools) publish() {
	t.publishing.Lock()
	defer t.publishing.Unlock()
	var known []ports.ToolSpec
	for _, s := range t.servers {
		s.mu.Lock()
		for _, one := range s.tools {
			known = append(known, one.spec)
		}
		s.mu.Unlock()
	}
	slices.SortFunc(known, func(a, b ports.ToolSpec) int { return strings.Compare(a.Name, b.Name) })
	t.known.Store(&known)
}

// Specs returns the tools of the servers that all tenants share as they were last listed, sorted by name, without waiting
// for any server. A server that is away keeps its tools: calls of them tell that it is.
func (t *Tools) Specs() []ports.ToolSpec { return slices.Clone(*t.known.Load()) }

// Load implements ports.LoadingTools. It waits until each server that one of the names belongs to was listed for the first
// time, or could not be. In place of a tool of a server that the tenant lacks a secret for it returns one whose calls say
// so.
func (t *Tools) Load(ctx context.Context, tenant string, names []string) []ports.ToolSpec {
	var specs []ports.ToolSpec
	for _, name := range names {
		if spec, ok := t.load(ctx, tenant, name); ok {
			specs = append(specs, spec)
		}
	}
	return specs
}

func (t *Tools) load(ctx context.Context, tenant, name string) (ports.ToolSpec, bool) {
	s, release, err := t.server(ctx, tenant, name)
	if err != nil {
		return standIn(name, err)
	}
	defer release()
	s.listed(ctx)
	found, err := s.find(name)
	return found.spec, err == nil
}

// server returns the server that a tool belongs to, which the caller releases. The error is for the model: errUnusable
// when the tenant has no secret for it.
func (t *Tools) server(ctx context.Context, tenant, name string) (s *server, release func(), err error) {
	of := serverOf(name)
	if s := t.servers[of]; s != nil {
		return s, func() {}, nil
	}
	if own := t.tenants[of]; own != nil {
		return own.server(ctx, tenant)
	}
	return nil, nil, errNoTool(name)
}

func errNoTool(name string) error { return fmt.Errorf("there is no tool named %q", name) }

// Known implements ports.LoadingTools.
func (t *Tools) Known(ctx context.Context, tenant string) []string {
	var names []string
	for _, spec := range *t.known.Load() {
		names = append(names, spec.Name)
	}
	for _, own := range t.tenants {
		if s := own.current(ctx, tenant); s != nil {
			names = append(names, s.names()...)
		}
	}
	slices.Sort(names)
	return names
}

// MayHave implements ports.LoadingTools: a name that its server listed last, or any below a server that was not listed yet.
func (t *Tools) MayHave(ctx context.Context, tenant, name string) bool {
	of := serverOf(name)
	if own := t.tenants[of]; own != nil {
		s := own.current(ctx, tenant)
		return s == nil || s.mayHave(name)
	}
	s := t.servers[of]
	return s != nil && s.mayHave(name)
}

// Execute runs one call; see ports.Tools.
func (t *Tools) Execute(ctx context.Context, call ports.ToolInvocation) (ports.ToolOutput, error) {
	if ctx.Err() != nil {
		return ports.ToolOutput{}, context.Cause(ctx)
	}
	out, err := t.execute(ctx, call)
	if err != nil && ctx.Err() != nil {
		return ports.ToolOutput{}, context.Cause(ctx)
	}
	if err != nil {
		text := output.Cap(err.Error(), 0)
		return ports.ToolOutput{IsError: true, Content: []domain.Block{{Type: domain.TextBlock, Text: text}}}, nil
	}
	return out, nil
}

func (t *Tools) execute(ctx context.Context, call ports.ToolInvocation) (ports.ToolOutput, error) {
	s, release, err := t.server(ctx, call.Ref.Tenant, call.Name)
	if err != nil {
		return ports.ToolOutput{}, err
	}
	defer release()
	s.listed(ctx) // it may have been begun for this call
	found, err := s.find(call.Name)
	if err != nil {
		return ports.ToolOutput{}, err
	}
	args, err := found.arguments(call.Arguments)
	if err != nil {
		return ports.ToolOutput{}, err
	}
	return s.execute(ctx, found, args)
}

// arguments returns the arguments as they are sent: unchanged, once they were found to be right.
func (t tool) arguments(raw string) (string, error) {
	if t.schema != nil {
		_, err := t.schema.Parse(t.spec.Name, raw)
		return raw, err
	}
	if _, err := domain.ParsePayload([]byte(raw), 0); err != nil {
		return "", errors.Join(errors.New("bad arguments"), err)
	}
	return raw, nil
}
