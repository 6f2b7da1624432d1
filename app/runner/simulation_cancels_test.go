package runner_test

import (
	"slices"
	"time"

	"github.com/keel-agent/keel/domain"
)

// checkCancels: a run was cancelled because somebody wanted it, and never goes on; a wish takes effect.
func (c *checker) checkCancels() {
	for _, run := range c.list {
		if run.CancelSeq != nil && (run.Status != domain.StatusFailed || run.Reason != domain.ReasonCancelled) {
			c.fault("run %s was cancelled and is %s (%s)", run.ID, run.Status, run.Reason)
		}
		if run.CancelSeq != nil && !c.wanted(run) {
			c.fault("run %s was cancelled, and nobody wanted it", run.ID)
		}
	}
	for i, a := range c.history[c.ref] {
		if run := a.out.Run; a.out.Created && run != nil && run.CancelSeq != nil && run.Status == domain.StatusRunning && a.out.Claim == "" {
			c.checkPrompt(run, c.history[c.ref][i:])
		}
		cmd, ok := a.cmd.(domain.RequestCancel)
		if !ok || a.err != nil || a.out.Run == nil || !a.out.Run.Status.Active() || cmd.Run != "" && cmd.Run != a.out.Run.ID {
			continue
		}
		if run := c.runByID[a.out.Run.ID]; run.CancelSeq == nil {
			c.fault("run %s was active when its cancel was acknowledged, and is %s", run.ID, run.Status)
		}
	}
	if s := c.rows.Session; s.State == domain.SessionClosing {
		c.fault("the session is closing at rest")
	}
}

// cancelWithin is how long a running attempt may outlive its cancel when nothing disturbs: the death of its owner, a
// look for the dead, a backend that is slow to stop.
const cancelWithin = 15*time.Second + 2*time.Second + 4*time.Second + 4*time.Second

// checkPrompt: an attempt that was cancelled ends soon. later begins with the act that cancelled it.
func (c *checker) checkPrompt(run *domain.Run, later []act) {
	since := slices.MaxFunc([]time.Time{later[0].at, c.calmAt}, time.Time.Compare)
	end := slices.IndexFunc(later, func(a act) bool {
		return a.err == nil && a.out.Created && a.out.Session.Owner == ""
	})
	if end < 0 || later[end].at.Sub(since) > cancelWithin {
		c.fault("epoch %d went on for more than %v after its cancel", run.Epoch, cancelWithin)
	}
}

// wanted reports whether a user wanted the end of a run, or it is a child of one that was cancelled.
func (c *checker) wanted(run domain.Run) bool {
	if slices.ContainsFunc(c.cancels[c.ref], func(w cancelled) bool { return w.run == "" || w.run == run.ID }) {
		return true
	}
	maker, ok := c.maker(c.rows.Session.Parent)
	return ok && maker.CancelSeq != nil
}

func (c *checker) maker(of *domain.Parent) (domain.Run, bool) {
	if of == nil {
		return domain.Run{}, false
	}
	_, list, _, err := c.audit(domain.SessionRef{Tenant: c.ref.Tenant, Session: of.Session})
	i := slices.IndexFunc(list, func(r domain.Run) bool { return r.ID == of.Run })
	return list[max(i, 0)], err == nil && i >= 0
}

// cascadeWithin is how long a child's run may outlive the cancel of its parent's when nothing disturbs.
const cascadeWithin = 15*time.Second + 5*time.Second

// checkChildren: whatever ran for a cancelled run ends with it.
func (s *simulation) checkChildren() {
	for ref := range s.children {
		c := checker{simulation: s, ref: ref}
		var err error
		if c.rows, c.list, _, err = s.audit(ref); err != nil {
			c.fault("%v", err)
			continue
		}
		maker, ok := c.maker(c.rows.Session.Parent)
		if !ok || maker.CancelSeq == nil {
			continue
		}
		cancelledAt := s.cancelledAt(maker)
		for _, run := range c.list {
			since := slices.MaxFunc([]time.Time{cancelledAt, s.calmAt, run.CreatedAt}, time.Time.Compare)
			if run.CancelSeq == nil && !run.CreatedAt.After(maker.SettledAt) && run.SettledAt.After(since.Add(cascadeWithin)) {
				c.fault("run %s outlived the cancelled run %s by %v", run.ID, maker.ID, run.SettledAt.Sub(since))
			}
		}
	}
}

func (s *simulation) cancelledAt(run domain.Run) time.Time {
	for _, a := range s.history[run.Ref] {
		if a.err == nil && a.out.Run != nil && a.out.Run.ID == run.ID && a.out.Run.CancelSeq != nil {
			return a.at
		}
	}
	return run.SettledAt
}
