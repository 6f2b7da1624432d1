package domaintest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/keel-agent/keel/domain"
)

// Finish lets every process die but a new, honest one with a model that only answers, and goes on until no run is
// active. It returns an error when that does not come about: a run is stuck, or an honest step was refused.
func (g *Generator) Finish() error {
	const last = "last"
	g.queue = nil
	for _, id := range slices.Sorted(maps.Keys(g.World.Processes)) {
		g.queue = append(g.queue, Kill{id})
	}
	if err := g.giveAll(append(g.queue, Register{last}, Bury{})); err != nil {
		return err
	}
	for _, o := range g.Replies[len(g.Replies)-1].Orphans {
		if err := g.giveAll([]Step{Do{o.Ref, domain.Rescue{Run: o.Run}}}); err != nil {
			return err
		}
	}
	for range 3 * (g.opt.Budget + len(g.refs) + 2) {
		if err := g.giveAll(g.wakeSleepers()); err != nil {
			return err
		}
		if err := g.giveAll([]Step{Claim{last, g.opt.Budget}}); err != nil {
			return err
		}
		claims := g.Replies[len(g.Replies)-1].Claims
		if len(claims) == 0 {
			return g.checkQuiet()
		}
		for _, out := range claims {
			if err := g.finishAttempt(newWorker(last, out)); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("the runs do not come to an end")
}

// giveAll gives steps that must not be refused.
func (g *Generator) giveAll(steps []Step) error {
	for _, s := range steps {
		g.honest = true
		if err := g.give(s); err != nil {
			return err
		}
	}
	g.queue = nil
	return nil
}

// wakeSleepers makes every pending run claimable.
func (g *Generator) wakeSleepers() []Step {
	var steps []Step
	if g.opt.Clock {
		steps = append(steps, Advance{100 * time.Hour})
	}
	for _, ref := range g.World.Refs() {
		l := g.World.Ledgers[ref]
		run, ok := l.Runs[l.Row.ActiveRun]
		if !ok {
			continue
		}
		if run.Parked {
			steps = append(steps, Do{ref, domain.Unpark{}})
		}
		if run.AvailableAt.After(g.World.Now) && !g.opt.Clock {
			steps = append(steps, Do{ref, domain.EnsureRun{At: g.at(), NewRun: g.id("r")}})
		}
	}
	return steps
}

// finishAttempt carries an attempt to its settlement.
func (g *Generator) finishAttempt(w *worker) error {
	for range 1000 {
		l := g.World.Ledgers[w.ref]
		if l.Row.Owner != w.token.Process || l.Row.Epoch != w.token.Epoch {
			return nil
		}
		if err := g.giveAll([]Step{g.nextOf(w, l)}); err != nil {
			return err
		}
	}
	return fmt.Errorf("the attempt of run %q does not come to an end", w.run)
}

func (g *Generator) nextOf(w *worker, l *Ledger) Step {
	run := l.Runs[w.run]
	if run.CancelSeq != nil || w.mode != domain.ClaimWork {
		return g.finish(w, l)
	}
	if i := slices.IndexFunc(l.Calls, domain.ToolCall.Open); i >= 0 {
		id := l.Calls[i].ID
		return Do{w.ref, domain.AppendToolResult{At: g.at(), Run: w.run, Token: w.token, Call: id, Payload: Result(id, "done")}}
	}
	if run.Compact {
		return Do{w.ref, domain.AppendCompaction{At: g.at(), Run: w.run, Token: w.token}}
	}
	p := l.Row.Present(w.claim, w.injected)
	if l.Row.Idle(p) {
		return g.settle(w, domain.Success)
	}
	if p.Guide != 0 {
		w.injected = append(w.injected, p.Guide)
	}
	return Do{w.ref, domain.AppendAssistant{
		At: g.at(), Run: w.run, Token: w.token, GenerationID: g.id("g"), Payload: AssistantText(p.Seqs, "answer"),
	}}
}

// checkQuiet: nothing runs, nothing waits to run.
func (g *Generator) checkQuiet() error {
	for _, ref := range g.World.Refs() {
		if run := g.World.Ledgers[ref].Row.ActiveRun; run != "" {
			return fmt.Errorf("run %q of %v is stuck", run, ref)
		}
	}
	return nil
}
