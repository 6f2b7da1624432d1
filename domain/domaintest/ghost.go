package domaintest

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/keel-agent/keel/domain"
)

// ghost is what no row keeps and yet the invariants speak of.
type ghost struct {
	excused  map[domain.Seq]bool // inputs that a failed run took with it
	finished map[attempt]bool    // attempts that have a run.finished
	mode     domain.ClaimMode    // of the running attempt
	worked   map[string]int      // attempts of a run that count against its budget
	budget   int
}

type attempt struct {
	run   string
	epoch int64
}

// checkRuns: at most one active run, the row names it, the lease stands exactly while it runs, final runs stay.
func (l *Ledger) checkRuns(before Ledger) error {
	active := domain.Run{}
	for id, run := range l.Runs {
		if run.Status.Active() {
			if active.ID != "" {
				return fmt.Errorf("the runs %q and %q are active", active.ID, id)
			}
			active = run
		}
		was, known := before.Runs[id]
		if known && !was.Status.Active() && !reflect.DeepEqual(was, run) {
			return fmt.Errorf("run %q was final and changed", id)
		}
		if known && run.Epoch < was.Epoch {
			return fmt.Errorf("the epoch of run %q fell", id)
		}
		if run.Status.Active() != run.SettledAt.IsZero() {
			return fmt.Errorf("run %q is %s, settled at %v", id, run.Status, run.SettledAt)
		}
	}
	switch {
	case l.Row.ActiveRun != active.ID:
		return fmt.Errorf("active_run_id is %q, the active run %q", l.Row.ActiveRun, active.ID)
	case (active.Status == domain.StatusRunning) != (l.Row.Owner != ""):
		return fmt.Errorf("owner %q of a run that is %q", l.Row.Owner, active.Status)
	case active.Owner != l.Row.Owner:
		return fmt.Errorf("the run's owner is %q, the session's %q", active.Owner, l.Row.Owner)
	case active.Status == domain.StatusRunning && (active.Epoch != l.Row.Epoch || active.ClaimSeq == nil):
		return fmt.Errorf("the running attempt is %d of epoch %d, claim_seq %v", active.Epoch, l.Row.Epoch, active.ClaimSeq)
	case active.Parked && (active.Status != domain.StatusPending || active.CancelSeq != nil):
		return fmt.Errorf("run %q is parked and %s, cancelled %t", active.ID, active.Status, active.CancelSeq != nil)
	case active.Attempts < 0:
		return fmt.Errorf("run %q has %d attempts", active.ID, active.Attempts)
	}
	return nil
}

// checkWatermark: it rises only when an attempt settles with success, and nothing at or below it waits.
func (l *Ledger) checkWatermark(before Ledger, cmd domain.Command) error {
	settle, settles := cmd.(domain.Settle)
	for id, run := range l.Runs {
		was := before.Runs[id].ReadWatermark
		switch {
		case run.ReadWatermark < was:
			return fmt.Errorf("the watermark of run %q fell", id)
		case run.ReadWatermark == was:
		case !settles || settle.Result != domain.Success:
			return fmt.Errorf("%T moved the watermark of run %q", cmd, id)
		case len(l.Row.Unanswered) > 0 && run.ReadWatermark >= l.Row.Unanswered[0]:
			return fmt.Errorf("the watermark %d passes the input %d", run.ReadWatermark, l.Row.Unanswered[0])
		}
	}
	return nil
}

// checkGhost checks what concerns several commands: no accepted input is forgotten, one summary per attempt, no more
// working attempts than the budget.
func (l *Ledger) checkGhost(before Ledger, cmd domain.Command, fx domain.Effects) error {
	g := &l.ghost
	if g.excused == nil {
		*g = ghost{excused: map[domain.Seq]bool{}, finished: map[attempt]bool{}, worked: map[string]int{}}
	}
	was := before.Runs[before.Row.ActiveRun]
	switch c := cmd.(type) {
	case domain.ClaimRun:
		if g.mode = fx.Outcome.Claim; g.mode == domain.ClaimWork {
			g.worked[c.Run]++
			g.budget = c.Budget
		}
	case domain.HandBack:
		if g.mode == domain.ClaimWork {
			g.worked[c.Run]--
		}
	case domain.ParkRun:
		g.worked[c.Run] = 0
	case domain.Settle:
		if err := l.settled(was, c); err != nil {
			return err
		}
	}
	for _, e := range fx.Events {
		_, settles := cmd.(domain.Settle)
		a := attempt{e.RunID, e.Epoch}
		if (e.Kind == domain.RunFinished) != settles || g.finished[a] && e.Epoch != 0 {
			return fmt.Errorf("seq %d, %s, of the attempt %v that has its summary: %t", e.Seq, e.Kind, a, g.finished[a])
		}
		if settles {
			g.finished[a] = true
		}
	}
	for id, n := range g.worked {
		if g.budget > 0 && n > g.budget {
			return fmt.Errorf("run %q worked %d times with a budget of %d", id, n, g.budget)
		}
	}
	return l.checkWaiting(before)
}

func (l *Ledger) settled(was domain.Run, c domain.Settle) error {
	is := l.Runs[c.Run]
	if is.Status == domain.StatusPending && is.Attempts == 0 {
		l.ghost.worked[c.Run] = 0
	}
	if is.Status != domain.StatusFailed {
		return nil
	}
	if was.ClaimSeq == nil {
		return fmt.Errorf("an attempt without claim_seq was settled")
	}
	for _, seq := range l.Row.Unanswered {
		taken := seq <= *was.ClaimSeq || slices.Contains(c.Presented, seq)
		if was.CancelSeq != nil {
			taken = seq <= *was.CancelSeq
		}
		if taken {
			l.ghost.excused[seq] = true
		}
	}
	return nil
}

// checkWaiting: an open session's accepted input is answered, or shared the failure of a run, or has a run that will
// come for it. A run that is done has left nothing.
func (l *Ledger) checkWaiting(before Ledger) error {
	if was := before.Row.ActiveRun; was != "" && l.Runs[was].Status == domain.StatusDone && len(l.Row.Unanswered) > 0 {
		return fmt.Errorf("run %q is done and %v wait", was, l.Row.Unanswered)
	}
	if l.Row.State != domain.SessionOpen || l.Row.ActiveRun != "" {
		return nil
	}
	for _, seq := range l.Row.Unanswered {
		if !l.ghost.excused[seq] {
			return fmt.Errorf("the input %d waits and no run will come for it", seq)
		}
	}
	return nil
}
