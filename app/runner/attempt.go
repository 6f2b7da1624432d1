package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// attempt plays one claimed attempt of a run to its settlement.
type attempt struct {
	r     *Runner
	lease *lease
	claim ports.Claim
	ref   domain.SessionRef
	token domain.Token
	log   *zap.Logger

	// ctx ends when the attempt must stop, with the reason as its cause. Commits go by the lease's context instead: a
	// cancelled or drained attempt still has something to write, one that lost its lease has not.
	ctx  context.Context
	stop context.CancelCauseFunc

	t         *domain.Transcript // nil until the ledger was read
	told      told
	whole     bool              // t could be read; it is kept for the next attempt
	compact   bool              // a compaction was asked for
	compacted bool              // there was one because a request was refused, and no answer since
	unsummed  bool              // a compaction that nobody asked for failed; this attempt goes on without
	again     *domain.Presented // what a request presented that is made again
	presented []domain.Seq      // guides injected by this attempt
	summary   domain.Summary
	began     time.Time
}

// told is what the store's latest reply said of the session.
type told struct {
	asked time.Time // when the command was sent: the reply is at least as young
	head  domain.Seq
	open  int // calls without a result; only this attempt's own commits change that
}

// freshFor is how long after a command was sent its reply stands for a look at the session. Of what others commit
// meanwhile a cancel comes by its wake-up, and a guide is seen at the next boundary.
const freshFor = 250 * time.Millisecond

func (t told) fresh() bool { return time.Since(t.asked) < freshFor }

// newAttempt returns the attempt that c, which was asked for at asked, began.
func newAttempt(r *Runner, l *lease, c ports.Claim, asked time.Time) *attempt {
	a := &attempt{
		r: r, lease: l, claim: c, ref: c.Session.Ref,
		token:   domain.Token{Process: l.id, Epoch: c.Run.Epoch},
		log:     r.Log.With(zap.String("session", c.Session.Ref.Session), zap.String("run", c.Run.ID), zap.Int64("epoch", c.Run.Epoch)),
		t:       r.remembered(&c.Session),
		told:    told{asked, c.Session.HeadSeq, c.Session.OpenCalls},
		compact: c.Run.Compact,
		began:   r.Clock.Now(),
	}
	a.ctx, a.stop = context.WithCancelCause(l.ctx)
	return a
}

func (a *attempt) key() attemptKey { return attemptKey{a.claim.Run.ID, a.token.Epoch} }

// run plays the attempt. Whatever happens in it, it ends in exactly one of three ways: settled, handed back, or
// without another write because the lease was lost.
func (a *attempt) run() {
	defer a.stop(nil)
	v, err := a.guarded()
	defer a.keep()
	cause := context.Cause(a.ctx)
	switch {
	case errors.Is(err, domain.ErrFenced), errors.Is(cause, errLeaseLost):
		a.log.Info("attempt stopped: lease lost")
	case err == nil:
		a.settle(v)
	case errors.Is(err, errCancelRequested):
		a.settle(verdict{result: domain.Failure, stopReason: domain.StopAborted})
	case errors.Is(err, errDrain):
		a.handBack()
	default:
		a.log.Warn("attempt failed", zap.Error(err))
		a.settle(judge(err))
	}
}

// keep leaves the transcript for the next attempt of the session in this process. This one must not use it any more.
func (a *attempt) keep() {
	if a.whole {
		a.r.cache.put(a.ref, a.t)
	}
	a.t, a.whole = nil, false
}

// end carries out the command that ends the attempt. The next one may begin before it has returned.
func (a *attempt) end(cmd domain.Command) (domain.Outcome, error) {
	a.keep()
	return retried(a, func(ctx context.Context) (domain.Outcome, error) {
		return a.r.Ledger.Do(ctx, a.ref, cmd)
	})
}

// guarded plays the attempt and turns a panic into a failure of it.
func (a *attempt) guarded() (v verdict, err error) {
	defer func() {
		if p := recover(); p != nil {
			a.whole = false
			a.log.Error("attempt panicked", zap.Any("panic", p), zap.Stack("stack"))
			err = fmt.Errorf("internal error: %v", p)
		}
	}()
	if err := a.catchUp(); err != nil {
		return verdict{}, err
	}
	a.whole = true
	switch a.claim.Mode {
	case domain.ClaimCancelled:
		return verdict{result: domain.Failure, fault: "cancelled"}, nil
	case domain.ClaimExhausted:
		return verdict{result: domain.Failure, fault: "all attempts are used up"}, nil
	default:
		return a.play()
	}
}

// play goes from request boundary to request boundary until the turn is over (protocol.md §4, §5).
func (a *attempt) play() (verdict, error) {
	if err := a.resumeCalls(); err != nil {
		return verdict{}, err
	}
	for {
		if err := a.look(); err != nil {
			return verdict{}, err
		}
		p := a.boundary()
		if !a.compact && a.t.Idle(p) {
			return verdict{result: domain.Success, stopReason: a.summary.StopReason}, nil
		}
		if !a.compact && a.again == nil && a.summary.Turns >= a.r.cfg.MaxTurns {
			return verdict{result: domain.Success, stopReason: domain.StopTurnLimit}, nil
		}
		req, err := a.prepare(p)
		if err != nil {
			a.inject(p)
			return verdict{}, err
		}
		if looked, err := a.makeRoom(req); err != nil {
			return verdict{}, err
		} else if !looked {
			continue
		}
		a.inject(p)
		a.again = nil
		v, over, err := a.turn(req)
		if err != nil || over {
			return v, err
		}
	}
}

// inject notes the guide of p, which this attempt answers for from now on.
func (a *attempt) inject(p domain.Presented) {
	if p.Guide != 0 {
		a.presented = append(a.presented, p.Guide)
	}
}

// boundary returns what the next request presents.
func (a *attempt) boundary() domain.Presented {
	if a.again != nil {
		return *a.again
	}
	return a.t.Present(*a.claim.Run.ClaimSeq, a.presented)
}

// look makes sure that the attempt knows what happened up to this request boundary: new events, and whether a cancel
// was asked for. The latest reply said both, and unless something was waited for since then it is taken at its word.
func (a *attempt) look() error {
	if err := context.Cause(a.ctx); err != nil {
		return err
	}
	if a.told.fresh() {
		return a.catchUp()
	}
	run, err := retried(a, func(ctx context.Context) (domain.Run, error) {
		return a.r.Runs.Get(ctx, a.ref, a.claim.Run.ID)
	})
	if err != nil {
		return err
	}
	a.note(&run)
	if err := context.Cause(a.ctx); err != nil {
		return err
	}
	return a.sync()
}

// catchUp reads the events up to what the latest reply told of, if there are any that the transcript has not seen.
func (a *attempt) catchUp() error {
	if a.t != nil && a.t.Head() >= a.told.head {
		return nil
	}
	return a.sync()
}

const pageSize = 500

// sync applies the events that the transcript has not seen.
func (a *attempt) sync() error {
	if a.t == nil {
		return a.load()
	}
	for {
		events, err := retried(a, func(ctx context.Context) ([]domain.Event, error) {
			return a.r.Ledger.Events(ctx, a.ref, a.t.Head(), pageSize)
		})
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := a.t.Apply(e); err != nil {
				return fmt.Errorf("event %d: %w", e.Seq, err)
			}
		}
		if ports.IsLastPage(events, pageSize) {
			return nil
		}
	}
}

// note takes from a run row what concerns the attempt.
func (a *attempt) note(run *domain.Run) {
	if run == nil || run.ID != a.claim.Run.ID {
		return
	}
	a.compact = run.Compact
	if run.CancelSeq != nil {
		a.stop(errCancelRequested)
	}
}

// do carries out a command of this attempt, however often the store has to be asked, until the lease is lost. It keeps
// the transcript and the knowledge of a cancel up to date.
func (a *attempt) do(cmd domain.Command) (domain.Outcome, error) {
	var asked time.Time
	out, err := retried(a, func(ctx context.Context) (domain.Outcome, error) {
		asked = time.Now()
		return a.r.Ledger.Do(ctx, a.ref, cmd)
	})
	if err != nil {
		return out, err
	}
	a.told = told{asked, out.Session.HeadSeq, out.Session.OpenCalls}
	a.note(out.Run)
	if e := out.Event; e != nil && e.Seq == a.t.Head()+1 {
		err = a.t.Apply(*e)
	}
	return out, err
}

// retried calls f under the lease's context until the store can be reached.
func retried[T any](a *attempt, f func(context.Context) (T, error)) (T, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		v, err := f(a.lease.ctx)
		if !errors.Is(err, ports.ErrUnavailable) {
			return v, err
		}
		a.log.Warn("the store is unavailable, trying again", zap.Duration("in", wait), zap.Error(err))
		select {
		case <-a.lease.ctx.Done():
			return v, errLeaseLost
		case <-time.After(wait):
		}
	}
}

// settle ends the attempt. Calls that are still open get their stand-ins first.
func (a *attempt) settle(v verdict) {
	if err := a.standInForOpen(); err != nil {
		a.log.Warn("could not commit stand-ins", zap.Error(err))
		v = verdict{result: domain.Failure, fault: err.Error()}
	}
	a.summary.StopReason = v.stopReason
	a.summary.Error = v.fault
	a.summary.DurationMS = a.r.Clock.Now().Sub(a.began).Milliseconds()
	cmd := domain.Settle{
		At: a.r.Clock.Now(), Run: a.claim.Run.ID, Token: a.token, Result: v.result, Error: v.fault, Summary: a.summary,
		Backoff:   domain.Backoff(a.claim.Run.Attempts, a.r.IDs.Jitter(), v.retryAfter),
		Presented: a.presented, Budget: a.r.cfg.Budget, NewRun: a.r.IDs.New(),
	}
	out, err := a.end(cmd)
	if err != nil {
		a.log.Warn("could not settle", zap.Error(err))
		return
	}
	if out.Run != nil && out.Run.Status == domain.StatusPending && v.result != domain.Success {
		time.AfterFunc(cmd.Backoff, a.r.lookForWork)
	}
	a.log.Debug("settled", zap.String("result", string(v.result)), zap.String("fault", v.fault))
}

func (a *attempt) handBack() {
	if _, err := a.end(domain.HandBack{Run: a.claim.Run.ID, Token: a.token}); err != nil {
		a.log.Warn("could not hand back", zap.Error(err))
		return
	}
	a.log.Info("handed back")
}
