package runner

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Why an attempt must stop; the cause of its context.
var (
	errCancelRequested = errors.New("the run was cancelled")
	errLeaseLost       = errors.New("the process lost its lease")
	errDrain           = errors.New("the process drains")
)

// attemptKey names an attempt: a run and the epoch of its claim.
type attemptKey struct {
	run   string
	epoch int64
}

// lease is one life of the process: its row's id, and the attempts that depend on it. When it is lost its context
// ends, and with it every commit of every attempt.
type lease struct {
	id    string
	ctx   context.Context
	end   context.CancelCauseFunc
	timer *time.Timer // ends the lease one ttl after the last renewal was sent, by the process's own clock

	doubt  atomic.Bool // a claim failed, and what it asked for may be owned
	looked time.Time   // when the process last looked for what it owns

	mu       sync.Mutex
	attempts map[attemptKey]*attempt
}

func (l *lease) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.attempts)
}

func (l *lease) add(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts[a.key()] = a
}

func (l *lease) remove(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.attempts, a.key())
}

func (l *lease) get(k attemptKey) *attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attempts[k]
}

func (l *lease) stopAll(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.attempts {
		a.stop(cause)
	}
}

// register begins a new life of the process under a new id.
func (r *Runner) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.LeaseTTL)
	defer cancel()
	sent := time.Now()
	id := r.IDs.New()
	if err := r.Processes.Register(ctx, id, r.cfg.Address, r.cfg.LeaseTTL); err != nil {
		return err
	}
	l := &lease{id: id, looked: sent, attempts: map[attemptKey]*attempt{}}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	l.timer = time.AfterFunc(time.Until(sent.Add(r.cfg.LeaseTTL)), func() {
		r.lose(l, "no renewal came through within its lifetime")
	})
	r.mu.Lock()
	r.lease = l
	r.mu.Unlock()
	r.Log.Info("registered", zap.String("process", id))
	return nil
}

// lose ends a life of the process. Its attempts stop at once and write nothing more.
func (r *Runner) lose(l *lease, why string) {
	if l.ctx.Err() == nil {
		r.Log.Warn("lease lost", zap.String("process", l.id), zap.String("why", why))
	}
	l.timer.Stop()
	l.end(errLeaseLost)
	l.stopAll(errLeaseLost)
}

// beatLoop renews the lease at each heartbeat and whenever something concerns a run of this process.
func (r *Runner) beatLoop() {
	tick := time.NewTicker(r.cfg.Heartbeat)
	defer tick.Stop()
	for {
		l := r.current()
		owner, unsubscribe := r.Wakeups.Subscribe(ports.Topic{Process: l.id})
		r.beatLife(l, owner, tick.C)
		unsubscribe()
		if !r.reborn(tick.C) {
			l.timer.Stop()
			return
		}
	}
}

// minBeatGap bounds how often wake-ups may cause a beat.
const minBeatGap = 50 * time.Millisecond

// beatLife beats until the lease is lost or the Runner stops.
func (r *Runner) beatLife(l *lease, owner <-chan struct{}, tick <-chan time.Time) {
	for {
		select {
		case <-r.stop:
			return
		case <-l.ctx.Done():
			return
		case <-tick:
		case <-owner:
		}
		r.beat(l)
		select {
		case <-time.After(minBeatGap):
		case <-r.stop:
			return
		}
	}
}

// reborn registers a new life after the old one was lost, however long that takes. It returns false when the Runner
// stops.
func (r *Runner) reborn(tick <-chan time.Time) bool {
	for {
		select {
		case <-r.stop:
			return false
		default:
		}
		if r.isDraining() {
			<-r.stop
			return false
		}
		err := r.register(context.Background())
		if err == nil {
			r.lookForWork()
			return true
		}
		r.Log.Warn("could not register", zap.Error(err))
		select {
		case <-r.stop:
			return false
		case <-tick:
		}
	}
}

// beat renews the lease, stops attempts whose cancel was requested, and hands back what the process owns and does not run.
func (r *Runner) beat(l *lease) {
	ctx, cancel := context.WithTimeout(l.ctx, r.cfg.LeaseTTL)
	defer cancel()
	sent := time.Now()
	cancelled, err := r.Processes.Renew(ctx, l.id, r.cfg.LeaseTTL)
	switch {
	case errors.Is(err, ports.ErrProcessDead):
		r.lose(l, "the store says that the process is dead")
		return
	case err != nil:
		if l.ctx.Err() == nil {
			r.Log.Warn("renewal failed", zap.Error(err))
		}
		return
	}
	l.timer.Reset(time.Until(sent.Add(r.cfg.LeaseTTL)))
	for _, o := range cancelled {
		if a := l.get(attemptKey{o.Run, o.Epoch}); a != nil {
			a.stop(errCancelRequested)
		}
	}
	if l.doubt.Load() || time.Since(l.looked) >= lookEvery {
		r.handBackLost(ctx, l)
	}
}

// lookEvery is how often a process looks for runs that it owns and does not play without having reason to.
const lookEvery = time.Minute

// handBackLost gives back the runs that the process owns and does not play: of claims whose reply was lost, at once; of
// commits that came through after their connection was given up, and of attempts whose end the store refused, in time.
func (r *Runner) handBackLost(ctx context.Context, l *lease) {
	if !r.claiming.tryEnter() { // a claim is under way: more may be owned, and rightly
		return
	}
	defer r.claiming.leave()
	owned, err := r.Processes.Owned(ctx, l.id)
	for _, o := range owned {
		if l.get(attemptKey{o.Run, o.Epoch}) != nil {
			continue
		}
		cmd := domain.HandBack{Run: o.Run, Token: domain.Token{Process: l.id, Epoch: o.Epoch}}
		if _, fault := r.Ledger.Do(ctx, o.Ref, cmd); !errors.Is(fault, domain.ErrFenced) { // else it ended meanwhile
			err = errors.Join(err, fault)
		}
	}
	if err != nil {
		r.Log.Warn("could not hand back what this process owns and does not run", zap.Error(err))
		return
	}
	l.doubt.Store(false)
	l.looked = time.Now()
}

// buryLoop rescues the runs of dead processes. It looks again when the next lease runs out, but within a heartbeat, so
// that nobody who registers meanwhile can expire unseen, and not at once: others look too, and a look may come to nothing.
func (r *Runner) buryLoop() {
	next := time.NewTimer(r.cfg.BuryEvery)
	defer next.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-next.C:
			expires := r.bury()
			next.Reset(max(min(expires+buryAfter, r.cfg.Heartbeat), r.cfg.BuryEvery))
		}
	}
}

// buryAfter is how long after the end of a lease a process looks for it: clocks do not run alike.
const buryAfter = 20 * time.Millisecond

// bury returns when the next lease runs out; 0 is unknown.
func (r *Runner) bury() (next time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.LeaseTTL)
	defer cancel()
	orphans, next, err := r.Processes.Bury(ctx)
	if err != nil {
		r.Log.Warn("could not look for dead processes", zap.Error(err))
		return 0
	}
	if len(orphans) > 0 { // nothing wakes anybody when those that wait are due
		time.AfterFunc(domain.MaxRescueWait, r.lookForWork)
	}
	for _, o := range orphans {
		out, err := r.Ledger.Do(ctx, o.Ref, domain.Rescue{Run: o.Run, Jitter: r.IDs.Jitter()})
		switch {
		case err != nil:
			r.Log.Warn("could not rescue a run", zap.String("run", o.Run), zap.Error(err))
		case out.Created:
			r.Log.Info("rescued a run", zap.String("run", o.Run))
		}
	}
	return next
}
