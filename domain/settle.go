package domain

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// The decisions of the commands that end an attempt (protocol.md §6, commands.md).

const (
	endedSettle   = "settle"
	endedPark     = "park"
	endedHandBack = "handback"
	endedRescue   = "rescue"
)

// holding is rule X of commands.md: retry is true when the named attempt was already ended by the same command.
func (v View) holding(run string, t Token, command string) (retry bool, err error) {
	if v.Session == nil {
		return false, ErrNotFound
	}
	if r := v.Run; r != nil && r.ID == run && r.Ended.Epoch == t.Epoch && r.Ended.Command == command {
		return true, nil
	}
	return false, v.fence(run, t)
}

func (c ParkRun) decide(v View) (Effects, error) {
	retry, err := v.holding(c.Run, c.Token, endedPark)
	switch {
	case err != nil:
		return Effects{}, err
	case retry:
		return v.unchanged(), nil
	case v.Run.CancelSeq != nil:
		return Effects{}, ErrCancelled
	}
	for _, call := range v.Calls {
		if call.Open() && call.StartedEpoch != nil && !slices.Contains(c.ReplaySafe, call.ID) {
			return Effects{}, ErrOpenCalls.With("call " + quoteJSON(call.ID) + " is running")
		}
	}
	if v.Run.Signals != c.SeenSignals {
		fx := v.unchanged()
		fx.Outcome.Signalled = true
		return fx, nil
	}
	ch := v.change()
	ch.endAttempt(endedPark, StatusPending)
	ch.run.Parked, ch.run.Wait, ch.run.Attempts = true, storable(c.Wait), 0
	return ch.done(nil), nil
}

func (c HandBack) decide(v View) (Effects, error) {
	retry, err := v.holding(c.Run, c.Token, endedHandBack)
	if err != nil {
		return Effects{}, err
	}
	if retry {
		return v.unchanged(), nil
	}
	ch := v.change()
	ch.endAttempt(endedHandBack, StatusPending)
	ch.run.Attempts, ch.run.Reason = ch.run.Attempts-1, ReasonHandBack
	ch.dueIn(0)
	ch.fx.Wake.Queue = true
	return ch.done(nil), nil
}

func (c Rescue) decide(v View) (Effects, error) {
	if v.Session == nil {
		return Effects{}, ErrNotFound
	}
	if v.Run == nil || v.Run.ID != c.Run || v.Run.Status != StatusRunning || v.OwnerLive {
		return v.unchanged(), nil
	}
	ch := v.change()
	wait := time.Duration(0)
	if ch.run.Ended.Command == endedRescue {
		wait = time.Duration(c.Jitter * float64(MaxRescueWait))
	}
	ch.endAttempt(endedRescue, StatusPending)
	ch.run.Reason = ReasonRescued
	ch.dueIn(wait)
	ch.fx.Wake.Queue = true
	return ch.done(nil), nil
}

func (c Settle) decide(v View) (Effects, error) {
	retry, err := v.holding(c.Run, c.Token, endedSettle)
	if err != nil {
		return Effects{}, err
	}
	if retry {
		return v.unchanged(), nil
	}
	end := finishStatus(v, c)
	if v.Session.OpenCalls > 0 && (end.run != StatusPending || end.finished == finishedDone) {
		return Effects{}, ErrOpenCalls
	}
	ch := v.change()
	ch.append(Event{
		Kind: RunFinished, Payload: c.Summary.payload(end.finished), CreatedAt: c.At, RunID: c.Run, Epoch: c.Token.Epoch,
	}, fact{status: end.finished})
	ch.endAttempt(endedSettle, end.run)
	ch.run.ClaimSeq, ch.run.Reason, ch.run.Error = nil, end.reason, ""
	switch end.finished {
	case finishedFailed:
		ch.run.Error = storable(c.Error)
	case finishedDone:
		ch.run.ReadWatermark = max(ch.run.ReadWatermark, ch.s.answeredUpTo())
	}
	if end.run == StatusPending {
		if end.finished == finishedDone {
			ch.run.Attempts = 0
		}
		ch.dueIn(end.wait)
		ch.fx.Wake.Queue = true
		return ch.done(nil), nil
	}
	closing := ch.s.State == SessionClosing
	ch.endRun(end.run, end.reason, c.At)
	if end.run == StatusFailed && !closing && ch.wantsSuccessor(c, end, *v.Run.ClaimSeq) {
		ch.insertRun(cmp.Or(ch.run.NextRunID, c.NewRun), c.At, ch.run.Compact)
	}
	return ch.done(nil), nil
}

// ending is a row of the settlement table.
type ending struct {
	finished string // run.finished.status
	run      RunStatus
	reason   string
	wait     time.Duration
}

// finishStatus is the settlement table: the first case that holds wins (protocol.md §6).
func finishStatus(v View, c Settle) ending {
	run := v.Run
	switch failed := c.Result != Success || v.Session.Owed == OwedFailure; {
	case run.CancelSeq != nil:
		return ending{finishedCancelled, StatusFailed, ReasonCancelled, 0}
	case failed && c.Result == Permanent:
		return ending{finishedFailed, StatusFailed, ReasonPermanent, 0}
	case failed && run.Attempts >= budgetOr(c.Budget):
		return ending{finishedFailed, StatusFailed, ReasonExhausted, 0}
	case failed:
		return ending{finishedFailed, StatusPending, ReasonFailed, c.Backoff}
	case len(v.Session.Unanswered) > 0 || run.Compact:
		return ending{finishedDone, StatusPending, ReasonMoreInput, 0}
	default:
		return ending{finishedDone, StatusDone, "", 0}
	}
}

// wantsSuccessor reports whether a failed run leaves input behind that it never took: one accepted after the cancel,
// or beyond the claim and not presented. A claimed input shares its run's failure.
func (c *change) wantsSuccessor(cmd Settle, end ending, claim Seq) bool {
	if c.run.NextRunID != "" {
		return true
	}
	return end.finished != finishedCancelled && slices.ContainsFunc(c.s.Unanswered, func(seq Seq) bool {
		return seq > claim && !slices.Contains(cmd.Presented, seq)
	})
}

// answeredUpTo returns the highest seq at or below which no input is unanswered.
func (s *Session) answeredUpTo() Seq {
	if len(s.Unanswered) > 0 {
		return s.Unanswered[0] - 1
	}
	return s.HeadSeq
}

// storable returns s as text that every store can keep in a column: valid UTF-8 without U+0000.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
