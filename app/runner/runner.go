// Package runner drives sessions: it claims runs, plays their turns against providers and tools, commits what happens
// and settles. One Runner is one process in the sense of the ledger: one liveness row, any number of attempts.
package runner

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/ports"
)

// Config tunes a Runner. Zero fields take the defaults named.
type Config struct {
	Address      string        // where this process can be reached, for people
	Workers      int           // attempts at a time; 64
	LeaseTTL     time.Duration // how long the process lives without a beat; 15 s
	Heartbeat    time.Duration // between beats; a third of LeaseTTL
	Poll         time.Duration // between looks for due runs when nothing wakes; 5 s
	BuryEvery    time.Duration // at least, between looks for dead processes; 1 s
	CascadeEvery time.Duration // between looks for children of cancelled runs; 2 × LeaseTTL
	Budget       int           // attempts per run; domain.DefaultBudget
	MaxTurns     int           // provider calls per attempt; 50
	MaxBytes     int           // of one payload; domain.DefaultMaxPayload
	ImageBytes   int           // that the images of a request may take; 16 MiB
	SummaryModel string        // that writes summaries, named as sessions name theirs; "" is the model of the request
}

func (c Config) withDefaults() Config {
	setDefault(&c.Workers, 64)
	setDefault(&c.LeaseTTL, 15*time.Second)
	setDefault(&c.Heartbeat, c.LeaseTTL/3)
	setDefault(&c.Poll, 5*time.Second)
	setDefault(&c.BuryEvery, time.Second)
	setDefault(&c.CascadeEvery, 2*c.LeaseTTL)
	setDefault(&c.MaxTurns, 50)
	setDefault(&c.ImageBytes, 16<<20)
	return c
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Deps are the ports that a Runner uses.
type Deps struct {
	Ledger    ports.Ledger
	Runs      ports.Runs
	Processes ports.Processes
	Wakeups   ports.Wakeups
	Partials  ports.Partials
	Providers *Providers
	Models    Models // nil: any model may be asked for
	// Credentials are the tenants' own for providers. nil: they have none.
	Credentials Credentials
	Tools       []ports.Tools
	Compactor   ports.Compactor // nil: nothing is compacted
	Clock       ports.Clock
	IDs         ports.IDs
	Log         *zap.Logger
}

// Runner claims and plays runs from Start until Drain.
type Runner struct {
	Deps
	cfg   Config
	tools toolbox
	cache cache

	claiming gate // held while a claim, or a look for what is owned and not run, is under way
	wake     chan struct{}
	stop     chan struct{} // closed when the loops shall end
	loops    sync.WaitGroup
	attempts sync.WaitGroup

	mu       sync.Mutex
	lease    *lease
	draining bool
}

// gate is a lock that is held during calls of the store. It is a channel of one, for testing/synctest takes waiting for a
// mutex as work and would let no time pass meanwhile.
type gate chan struct{}

func (g gate) enter() { g <- struct{}{} }
func (g gate) leave() { <-g }

func (g gate) tryEnter() bool {
	select {
	case g <- struct{}{}:
		return true
	default:
		return false
	}
}

// New returns a Runner that does nothing before Start.
func New(d Deps, cfg Config) *Runner {
	if d.Models == nil {
		d.Models = anyModel{d.Providers}
	}
	return &Runner{
		Deps: d, cfg: cfg.withDefaults(), tools: d.Tools,
		claiming: make(gate, 1), wake: make(chan struct{}, 1), stop: make(chan struct{}),
	}
}

// Start registers the process and begins to claim. ctx bounds the registration alone.
func (r *Runner) Start(ctx context.Context) error {
	if err := r.register(ctx); err != nil {
		return err
	}
	for _, loop := range []func(){r.claimLoop, r.beatLoop, r.buryLoop, r.cascadeLoop} {
		r.loops.Go(loop)
	}
	return nil
}

// Committed implements ports.Notifier: an attempt that begins need not read what this process itself committed.
func (r *Runner) Committed(c ports.Commit) { r.cache.follow(c) }

// Drain stops claiming, lets the attempts end until ctx is done, hands back those that have not ended by then, and
// deregisters the process. It returns when nothing of the Runner runs any more.
func (r *Runner) Drain(ctx context.Context) error {
	r.mu.Lock()
	already := r.draining
	r.draining = true
	l := r.lease
	r.mu.Unlock()
	if already || l == nil {
		return nil
	}
	r.claiming.enter() // a claim under way may still start attempts
	r.claiming.leave() // it is over now, and no other will begin
	if err := r.briefly(ctx, r.Processes.SetDraining, l.id); err != nil && !errors.Is(err, ports.ErrProcessDead) {
		r.Log.Warn("could not mark the process as draining", zap.Error(err))
	}
	ended := make(chan struct{})
	go func() { r.attempts.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
		r.current().stopAll(errDrain)
		<-ended
	}
	close(r.stop)
	r.loops.Wait()
	err := r.briefly(ctx, r.Processes.Deregister, r.current().id)
	if errors.Is(err, ports.ErrProcessDead) {
		return nil
	}
	return err
}

// briefly calls f, which tells the store something that would become known without it too: it is not worth a long wait.
func (r *Runner) briefly(ctx context.Context, f func(context.Context, string) error, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return f(ctx, id)
}

// Ready reports whether the process holds a live lease and takes work.
func (r *Runner) Ready() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lease != nil && r.lease.ctx.Err() == nil && !r.draining
}

func (r *Runner) current() *lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lease
}

func (r *Runner) isDraining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining
}

// lookForWork makes the claim loop look for due runs.
func (r *Runner) lookForWork() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// claimLoop claims whenever a run may be due and a worker is free.
func (r *Runner) claimLoop() {
	queue, unsubscribe := r.Wakeups.Subscribe(ports.QueueTopic)
	defer unsubscribe()
	poll := time.NewTicker(r.cfg.Poll)
	defer poll.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-queue:
		case <-r.wake:
		case <-poll.C:
		}
		for !r.isDraining() && r.claim() {
		}
	}
}

// claim begins attempts for free workers, and reports whether there may be more due runs than it took.
func (r *Runner) claim() (more bool) {
	r.claiming.enter()
	defer r.claiming.leave()
	l := r.current()
	free := min(r.cfg.Workers-l.size(), claimBatch)
	if free <= 0 || r.isDraining() || l.ctx.Err() != nil {
		return false
	}
	asked := time.Now()
	claims, err := r.Runs.Claim(l.ctx, ports.ClaimRequest{Process: l.id, Max: free, Budget: r.cfg.Budget})
	if err != nil {
		r.claimFailed(l, err)
	}
	for _, c := range claims {
		a := newAttempt(r, l, c, asked)
		l.add(a)
		r.attempts.Go(func() {
			defer r.lookForWork()
			defer l.remove(a)
			a.run()
		})
	}
	return err == nil && len(claims) == free
}

const claimBatch = 64

func (r *Runner) claimFailed(l *lease, err error) {
	switch {
	case errors.Is(err, ports.ErrProcessDead):
		r.lose(l, "the store says that the process is dead")
	case l.ctx.Err() == nil:
		l.doubt.Store(true)
		r.Log.Warn("claim failed", zap.Error(err))
	}
}
