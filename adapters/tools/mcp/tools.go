package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	Version string                      // of this program, as servers see it
	Log     *zap.Logger
}

// Tools is the set of all tools of all declared servers. It is a ports.LoadingTools.
type Tools struct {
	servers map[string]*server
	first   map[string]*attempt         // to connect, by server
	known   atomic.Pointer[[]knownTool] // sorted by name

	publishing sync.Mutex
	running    sync.WaitGroup
	stop       context.CancelFunc // of what Start began
	goodbye    context.Context    // for as long as servers may take to end well
	hurry      context.CancelFunc
}

type knownTool struct {
	tool
	of *server
}

// New returns the set, or what is wrong with a declaration. Nothing is contacted before Start.
func New(c Config) (*Tools, error) {
	t := &Tools{servers: map[string]*server{}, first: map[string]*attempt{}}
	t.known.Store(new([]knownTool))
	t.goodbye, t.hurry = context.WithCancel(context.Background())
	for _, name := range slices.Sorted(maps.Keys(c.Servers)) {
		d, err := c.Servers[name].prepared(name, c.Lookup)
		if err != nil {
			return nil, fmt.Errorf("server %s: %w", name, err)
		}
		log := c.Log.With(zap.String("server", name))
		t.add(&server{name: name, decl: d, version: c.Version, log: log, open: opener(d, d.environment(c.Lookup), log)})
	}
	return t, nil
}

func (t *Tools) add(s *server) {
	s.publish, s.doubted, s.next = t.publish, make(chan struct{}, 1), newAttempt()
	t.servers[s.name], t.first[s.name] = s, s.next
}

// opener returns how a way to the server is opened.
func opener(d Server, env []string, log *zap.Logger) func() (link, error) {
	if d.Command == "" {
		return func() (link, error) {
			r := newRemote(d)
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

// Start connects to the servers in the background.
func (t *Tools) Start() {
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	for _, s := range t.servers {
		t.running.Go(func() { s.run(ctx, t.goodbye) })
	}
}

// Close ends all connections and the processes behind them. When ctx ends they are killed.
func (t *Tools) Close(ctx context.Context) {
	if t.stop == nil {
		return
	}
	t.stop()
	ended := make(chan struct{})
	go func() { defer close(ended); t.running.Wait() }()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	t.hurry()
	<-ended
}

// publish makes known which tools there are.
func (t *Tools) publish() {
	t.publishing.Lock()
	defer t.publishing.Unlock()
	var known []knownTool
	for _, s := range t.servers {
		s.mu.Lock()
		for _, one := range s.tools {
			known = append(known, knownTool{one, s})
		}
		s.mu.Unlock()
	}
	slices.SortFunc(known, func(a, b knownTool) int { return strings.Compare(a.spec.Name, b.spec.Name) })
	t.known.Store(&known)
}

// Specs returns the tools as they were last listed, sorted by name, without waiting for any server. A server that is
// away keeps its tools: calls of them tell that it is.
func (t *Tools) Specs() []ports.ToolSpec {
	known := *t.known.Load()
	specs := make([]ports.ToolSpec, 0, len(known))
	for _, k := range known {
		specs = append(specs, k.spec)
	}
	return specs
}

// Load waits until each server that one of the names belongs to was listed for the first time, or could not be, or
// until ctx ends.
func (t *Tools) Load(ctx context.Context, names []string) {
	for _, name := range names {
		if first := t.first[serverOf(name)]; first != nil {
			select {
			case <-first.done:
			case <-ctx.Done():
				return
			}
		}
	}
}

// MayHave implements ports.LoadingTools: a name below one of the servers, whatever that server lists just now.
func (t *Tools) MayHave(name string) bool { return t.servers[serverOf(name)] != nil }

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
	known := *t.known.Load()
	i := slices.IndexFunc(known, func(k knownTool) bool { return k.spec.Name == call.Name })
	if i < 0 {
		return ports.ToolOutput{}, fmt.Errorf("there is no tool named %q", call.Name)
	}
	args, err := known[i].arguments(call.Arguments)
	if err != nil {
		return ports.ToolOutput{}, err
	}
	return known[i].of.execute(ctx, known[i].tool, args)
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
