package domain

import "time"

// Decide is the one place where the rules of the ledger stand: it says what must be written for c to happen to the
// session in v, or refuses. It is pure; it never changes v. The refusals come in the order of commands.md, rule 6, as
// errors of this package.
//
// Empty effects with a nil error mean that there is nothing to do: a replay, or a command whose effect is there
// already. Their Outcome is the answer.
func Decide(v View, c Command) (Effects, error) { return c.decide(v) }

// change collects the effects of one command on one session.
type change struct {
	s          *Session
	run        *Run // the named or active run, a copy; nil when none
	runChanged bool
	due        *time.Duration // of run, when it changes
	fx         Effects
}

// change begins a change of the session in v, whose row must be there.
func (v View) change() *change {
	c := &change{s: v.Session.clone()}
	c.s.Version++
	if v.Run != nil {
		c.run = v.Run.clone()
	}
	return c
}

// unchanged is the answer of a command that writes nothing.
func (v View) unchanged() Effects {
	var out Outcome
	if v.Session != nil {
		out.Session = *v.Session.clone()
	}
	if v.Run != nil {
		out.Run = v.Run.clone()
	}
	if v.Event != nil {
		e := *v.Event
		out.Event = &e
	}
	return Effects{Outcome: out}
}

// first is the answer to the retry of a command whose event was found under its key.
func (v View) first(sent, stored Payload) (Effects, error) {
	if !sent.Equal(stored) {
		return Effects{}, ErrIdempotencyConflict
	}
	return v.unchanged(), nil
}

// append adds e, whose payload says said, to the ledger and to the folds. It sets seq and hash, and the time to what is
// stored: never before the head's.
func (c *change) append(e Event, said fact) {
	e.Seq, e.CreatedAt = c.s.HeadSeq+1, Millis(e.CreatedAt)
	if e.CreatedAt.Before(c.s.HeadAt) {
		e.CreatedAt = c.s.HeadAt
	}
	e.Hash = NextHash(c.s.HeadHash, e)
	c.s.Fold.add(e.Seq, e.Kind, said)
	c.s.HeadSeq, c.s.HeadAt, c.s.HeadHash = e.Seq, e.CreatedAt, e.Hash
	c.fx.Events = append(c.fx.Events, e)
	c.fx.Wake.Readers = true
}

// writeRun makes the effects write the run.
func (c *change) writeRun() { c.runChanged = true }

// dueIn makes the run claimable d from now.
func (c *change) dueIn(d time.Duration) {
	c.due = &d
	c.writeRun()
}

// insertRun makes a new pending run the session's active one.
func (c *change) insertRun(id string, at time.Time, compact bool) *Run {
	now := time.Duration(0)
	run := Run{ID: id, Ref: c.s.Ref, CreatedAt: Millis(at), Status: StatusPending, Compact: compact}
	c.fx.Runs = append(c.fx.Runs, RunChange{Run: run, Insert: true, Due: &now})
	c.s.ActiveRun = id
	c.fx.Wake.Queue = true
	return &run
}

// endAttempt clears the lease and records how the attempt ended.
func (c *change) endAttempt(command string, status RunStatus) {
	c.s.Owner, c.run.Owner = "", ""
	c.run.Status = status
	c.run.Ended = Ended{Epoch: c.s.Epoch, Command: command, Status: status}
	c.writeRun()
}

// endRun makes the run final and the session free for the next one.
func (c *change) endRun(status RunStatus, reason string, at time.Time) {
	c.run.Status, c.run.Reason, c.run.SettledAt = status, reason, Millis(at)
	c.s.ActiveRun = ""
	if c.s.State == SessionClosing {
		c.s.State = SessionClosed
	}
	c.fx.Wake.Readers = true
	if c.s.Parent != nil {
		c.fx.Wake.Parent = &SessionRef{Tenant: c.s.Ref.Tenant, Session: c.s.Parent.Session}
	}
	c.writeRun()
}

// cancel asks the active run to end as cancelled; it does nothing when that was asked before.
func (c *change) cancel() {
	if c.run.CancelSeq != nil {
		return
	}
	head := c.s.HeadSeq
	c.run.CancelSeq = &head
	if c.run.Status == StatusPending {
		c.unpark()
	}
	c.writeRun()
	c.fx.Wake.Owner, c.fx.Wake.Queue = c.s.Owner, true
}

func (c *change) unpark() {
	c.run.Parked, c.run.Wait = false, ""
	c.dueIn(0)
}

// done returns the effects. The outcome names run, or the changed run when run is nil.
func (c *change) done(run *Run) Effects {
	if c.runChanged {
		c.fx.Runs = append([]RunChange{{Run: *c.run, Due: c.due}}, c.fx.Runs...)
	}
	if run == nil {
		run = c.run
	}
	c.fx.Session = c.s
	c.fx.Outcome.Created = true
	c.fx.Outcome.Session = *c.s
	c.fx.Outcome.Run = run
	c.fx.Outcome.Wake = c.fx.Wake
	if n := len(c.fx.Events); n > 0 {
		c.fx.Outcome.Event = &c.fx.Events[n-1]
	}
	return c.fx
}
