package runner_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// process is a simulated server process.
type process struct {
	*link
	runner  *runner.Runner
	drained bool // or being drained; guarded by the simulation's mu
}

// start starts a process. One that cannot reach the store gives up.
func (s *simulation) start() {
	s.mu.Lock()
	p := &process{link: s.newLink(fmt.Sprintf("p%d", len(s.processes)))}
	s.processes = append(s.processes, p)
	s.mu.Unlock()
	s.note("%s starts", p.name)
	providers, err := runner.NewProviders(simProvider{p, backends[0]}, simProvider{p, backends[1]})
	if err != nil {
		s.fault("%v", err)
	}
	log := zap.NewNop()
	if testing.Verbose() && *seedCount == 1 {
		log = zaptest.NewLogger(s.t).Named(p.name)
	}
	p.runner = runner.New(runner.Deps{
		Ledger: p.link, Runs: linkRuns{p.link}, Processes: linkProcesses{p.link}, Wakeups: s.hub, Partials: simPartials{p},
		Providers: providers, Models: simModels{p, providers}, Compactor: s.compactor(), Tools: []ports.Tools{simTools{p}}, Clock: clock{}, IDs: p.ids, Log: log,
	}, runner.Config{
		Workers: s.weather.workers, Budget: s.weather.budget, MaxTurns: s.weather.turns, SummaryModel: s.weather.summarer,
		// Prime, so that hardly any two of them tick at one instant.
		Heartbeat: 4999 * time.Millisecond, Poll: 5003 * time.Millisecond, BuryEvery: 1999 * time.Millisecond, CascadeEvery: 14983 * time.Millisecond,
	})
	if err := p.runner.Start(context.Background()); err != nil {
		s.note("%s could not start: %v", p.name, err)
		s.mu.Lock()
		p.drained = true
		s.mu.Unlock()
	}
}

func (p *process) gone() bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.drained || p.killed()
}

// drain ends the process in an orderly way.
func (p *process) drain(grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	_ = p.runner.Drain(ctx) // whether it could deregister does not matter
	p.s.note("%s is down", p.name)
}

// chaos is what can happen to a process; none of it waits.
var chaos = []func(*simulation, *process){
	(*simulation).freezes, (*simulation).dies, (*simulation).isCutOff, (*simulation).drains, (*simulation).isJoined,
}

func (s *simulation) freezes(p *process) {
	d := 3*time.Second + upTo(s.plan, 40*time.Second)
	s.note("%s freezes for %v", p.name, d)
	thaw := p.freeze()
	time.AfterFunc(d, thaw)
}

func (s *simulation) dies(p *process) {
	s.note("%s dies", p.name)
	p.kill()
}

func (s *simulation) isCutOff(p *process) {
	d := upTo(s.plan, 30*time.Second)
	s.note("%s is cut off for %v", p.name, d)
	p.cut()
	time.AfterFunc(d, p.mend)
}

func (s *simulation) drains(p *process) {
	grace := one(s.plan, 0, time.Second, 10*time.Second, 30*time.Second)
	s.note("%s drains within %v", p.name, grace)
	s.mu.Lock()
	p.drained = true
	s.mu.Unlock()
	s.users.Go(func() { p.drain(grace) })
}

func (s *simulation) isJoined(*process) { s.start() }

// link is a way to the store. Each call takes time both ways, gets lost, or stalls; what was sent arrives, even when
// its sender has given it up.
type link struct {
	s    *simulation
	name string
	ids  *ids

	mu     sync.Mutex
	calls  map[string]int
	cuts   int           // the link is cut while it is positive
	frozen chan struct{} // nil, or open until the process thaws
	point  func()        // what happens at each point where something can, or nil
	dead   bool
}

func (s *simulation) newLink(name string) *link {
	return &link{s: s, name: name, ids: &ids{prefix: name}, calls: map[string]int{}}
}

// ids are those of one process or user: who mints first at one instant does not matter.
type ids struct {
	counter
	prefix string
}

func (i *ids) New() string { return i.prefix + i.counter.New()[2:] }

func (l *link) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func (l *link) cut()  { l.change(func() { l.cuts++ }) }
func (l *link) mend() { l.change(func() { l.cuts = max(l.cuts-1, 0) }) }
func (l *link) kill() { l.change(func() { l.dead = true }) }

// freeze stops all that the process does to the outside world, as a stopped process would, until thaw.
func (l *link) freeze() (thaw func()) {
	frozen := make(chan struct{})
	l.change(func() {
		if l.frozen == nil {
			l.frozen = frozen
		}
	})
	return func() { l.thaw(frozen) }
}

func (l *link) thaw(frozen chan struct{}) {
	l.change(func() {
		if l.frozen == frozen && frozen != nil {
			close(frozen)
			l.frozen = nil
		}
	})
}

// recover undoes all but death.
func (l *link) recover() {
	l.mu.Lock()
	frozen := l.frozen
	l.cuts = 0
	l.mu.Unlock()
	l.thaw(frozen)
}

// awake waits while the process is frozen.
func (l *link) awake() {
	for {
		l.mu.Lock()
		frozen := l.frozen
		l.mu.Unlock()
		if frozen == nil {
			return
		}
		<-frozen
	}
}

func (l *link) killed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

func (l *link) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead || l.cuts > 0
}

// made is how many calls of a kind were made.
func (l *link) made(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[what]
}

// chance is that of the next call of a kind.
func (l *link) chance(what string) *rand.Rand {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[what]++
	return l.s.roll(l.name+"/"+what, l.calls[what])
}

func (s *simulation) travel(r *rand.Rand) time.Duration {
	switch {
	case s.calm.Load():
		return upTo(r, time.Millisecond)
	case r.Float64() < s.weather.storms:
		return upTo(r, stormy)
	default:
		return upTo(r, s.weather.latency)
	}
}

var errShut = errors.New("the simulation is over")

var errLost = fmt.Errorf("the reply got lost: %w", ports.ErrUnavailable)

// through makes a call over the link, unless ctx ended before.
func through[T any](ctx context.Context, l *link, what string, f func() (T, error)) (none T, _ error) {
	if ctx.Err() != nil {
		return none, ctx.Err()
	}
	if l.s.shut.Load() {
		return none, errShut
	}
	r := l.chance(what)
	there, back, lost := l.s.travel(r), l.s.travel(r), r.Float64() < l.s.weather.loss
	l.awake()
	if l.isCut() {
		time.Sleep(there)
		return none, fmt.Errorf("cut: %w", ports.ErrUnavailable)
	}
	if !wait(ctx, there) {
		time.AfterFunc(there, func() { _, _ = f() })
		return none, ctx.Err()
	}
	l.passes()
	v, err := f()
	l.passes()
	arrived := wait(ctx, back)
	l.awake()
	switch {
	case !arrived:
		return none, ctx.Err()
	case l.isCut(), lost && !l.s.calm.Load():
		return none, errLost
	}
	return v, err
}

// passes tells that the process is at one more point where it can be disturbed.
func (l *link) passes() {
	l.mu.Lock()
	point := l.point
	l.mu.Unlock()
	if point != nil {
		point()
	}
}

// wait returns false when ctx ended before d had passed.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (l *link) Do(ctx context.Context, ref domain.SessionRef, cmd domain.Command) (domain.Outcome, error) {
	return through(ctx, l, "do/"+ref.Session, func() (domain.Outcome, error) { return l.s.do(l.name, ref, cmd) })
}

func (l *link) Events(ctx context.Context, ref domain.SessionRef, after domain.Seq, limit int) ([]domain.Event, error) {
	return through(ctx, l, "events/"+ref.Session, func() ([]domain.Event, error) {
		return l.s.store.Events(context.Background(), ref, after, limit)
	})
}

type linkRuns struct{ *link }

func (l linkRuns) Claim(ctx context.Context, c ports.ClaimRequest) ([]ports.Claim, error) {
	return through(ctx, l.link, "claim", func() ([]ports.Claim, error) { return l.s.claim(l.name, c) })
}

func (l linkRuns) Get(ctx context.Context, ref domain.SessionRef, run string) (domain.Run, error) {
	return through(ctx, l.link, "run/"+ref.Session, func() (domain.Run, error) {
		return l.s.store.Runs().Get(context.Background(), ref, run)
	})
}

func (l linkRuns) List(ctx context.Context, ref domain.SessionRef, before *ports.RunCursor, limit int) ([]domain.Run, error) {
	return l.s.store.Runs().List(ctx, ref, before, limit)
}

func (l linkRuns) Forsaken(ctx context.Context, parent domain.SessionRef, limit int) ([]ports.RunRef, error) {
	return through(ctx, l.link, "forsaken", func() ([]ports.RunRef, error) {
		return l.s.store.Runs().Forsaken(context.Background(), parent, limit)
	})
}

func (l linkRuns) Active(ctx context.Context, tenant string, sessions []string) ([]domain.Run, error) {
	return l.s.store.Runs().Active(ctx, tenant, sessions)
}

func (l linkRuns) OpenCalls(ctx context.Context, ref domain.SessionRef) ([]domain.ToolCall, error) {
	return through(ctx, l.link, "open/"+ref.Session, func() ([]domain.ToolCall, error) {
		return l.s.store.Runs().OpenCalls(context.Background(), ref)
	})
}

type linkProcesses struct{ *link }

func (l linkProcesses) Register(ctx context.Context, id, address string, ttl time.Duration) error {
	sent := time.Now()
	_, err := through(ctx, l.link, "register", func() (any, error) { return nil, l.s.register(id, address, ttl) })
	if err == nil {
		l.s.renewed(id, sent.Add(ttl))
	}
	return err
}

func (l linkProcesses) Renew(ctx context.Context, id string, ttl time.Duration) ([]ports.Owned, error) {
	sent := time.Now()
	owned, err := through(ctx, l.link, "renew", func() ([]ports.Owned, error) { return l.s.renew(id, ttl) })
	if err == nil {
		l.s.renewed(id, sent.Add(ttl))
	}
	return owned, err
}

func (l linkProcesses) Owned(ctx context.Context, id string) ([]ports.Owned, error) {
	return through(ctx, l.link, "owned", func() ([]ports.Owned, error) {
		return l.s.store.Processes().Owned(context.Background(), id)
	})
}

func (l linkProcesses) SetDraining(ctx context.Context, id string) error {
	_, err := through(ctx, l.link, "draining", func() (any, error) { return nil, l.s.setDraining(id) })
	return err
}

func (l linkProcesses) Deregister(ctx context.Context, id string) error {
	_, err := through(ctx, l.link, "deregister", func() (any, error) { return nil, l.s.deregister(id) })
	return err
}

func (l linkProcesses) Bury(ctx context.Context) ([]ports.RunRef, time.Duration, error) {
	type reply struct {
		orphans []ports.RunRef
		next    time.Duration
	}
	v, err := through(ctx, l.link, "bury", func() (v reply, err error) {
		v.orphans, v.next, err = l.s.store.Processes().Bury(context.Background())
		return v, err
	})
	return v.orphans, v.next, err
}

func (l linkProcesses) List(ctx context.Context) ([]ports.Process, error) {
	return l.s.store.Processes().List(ctx)
}
