package check

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
)

// results checks that each committed call has one result, behind it and before the next answer, and the right one.
func (b *book) results() {
	calls := map[string]block{}
	open := map[string]int64{}
	results := map[string]int64{}
	for i, e := range b.events {
		p := b.bodies[i]
		switch e.Kind {
		case assistantMessage:
			b.noneOpen(open, e.Seq)
			if p.completed() {
				for _, c := range p.calls() {
					if first, twice := calls[c.ID]; twice {
						b.say(ResultWrong, fmt.Sprintf("the id %s of the call of %s was used before, for %s", c.ID, c.Name, first.Name), e.Seq)
					}
					calls[c.ID], open[c.ID] = c, e.Seq
				}
			}
		case toolResult:
			c, known := calls[p.Call]
			switch first, twice := results[p.Call]; {
			case !known:
				b.say(ResultOrphan, "the result belongs to no committed call: "+p.Call, e.Seq)
			case twice:
				b.say(ResultTwice, "the call "+p.Call+" had its result before", first, e.Seq)
			default:
				b.rightResult(e, p, c)
			}
			if e.Key != "toolCallId:"+p.Call {
				b.say(ResultWrong, "the stored key is "+e.Key, e.Seq)
			}
			results[p.Call] = e.Seq
			delete(open, p.Call)
		}
	}
	b.noneOpen(open, int64(len(b.events)))
}

func (b *book) noneOpen(open map[string]int64, before int64) {
	for id, seq := range open {
		b.say(ResultMissing, "the call "+id+" has no result", seq, before)
		delete(open, id)
	}
}

// rightResult checks the result of a product, which is the only thing that the backend has computed.
func (b *book) rightResult(e Event, p payload, c block) {
	var args struct{ Expression string }
	if c.Name != "calculator" || p.IsError || json.Unmarshal(c.Arguments, &args) != nil {
		return
	}
	x, y, ok := strings.Cut(args.Expression, "*")
	m, okX := new(big.Int).SetString(x, 10)
	n, okY := new(big.Int).SetString(y, 10)
	if !ok || !okX || !okY || m.Mul(m, n).String() != p.said() {
		b.say(ResultWrong, fmt.Sprintf("%s gave %q", args.Expression, p.said()), e.Seq)
	}
}

// attempts checks the order of the attempts' commits, and their ends.
func (b *book) attempts() {
	var highest int64
	ended := map[int64]int64{}    // epoch: seq of its run.finished
	status := map[string]string{} // run: status of its last run.finished
	lastEnd := map[string]int64{} // run: its seq
	owned := map[string]bool{assistantMessage: true, toolResult: true, runFinished: true, "compaction": true}
	for i, e := range b.events {
		if !owned[e.Kind] {
			continue
		}
		if e.Epoch < highest {
			b.say(EpochBack, fmt.Sprintf("epoch %d behind epoch %d", e.Epoch, highest), e.Seq)
		}
		highest = max(highest, e.Epoch)
		if e.Epoch < 1 || e.Run == "" {
			b.say(EpochBack, fmt.Sprintf("a commit of an owner with epoch %d and run %q", e.Epoch, e.Run), e.Seq)
		}
		if end, over := ended[e.Epoch]; over {
			kind := LateCommit
			if e.Kind == runFinished {
				kind = FinishedTwice
			}
			b.say(kind, fmt.Sprintf("the attempt of epoch %d had ended", e.Epoch), end, e.Seq)
		}
		if e.Kind == runFinished {
			ended[e.Epoch], status[e.Run], lastEnd[e.Run] = e.Seq, b.bodies[i].Status, e.Seq
		}
	}
	for _, r := range b.runs {
		if want, known := status[r.ID]; known && finalStatus(r) != "" && finalStatus(r) != want && r.Reason != "no_work" {
			b.say(StatusDiffers, fmt.Sprintf("the run %s is %s (%s), its last run.finished says %s", r.ID, r.Status, r.Reason, want), lastEnd[r.ID])
		}
	}
}

// finalStatus is what the last run.finished of an ended run says.
func finalStatus(r Run) string {
	switch {
	case r.Status == "done":
		return "done"
	case r.Status == "failed" && r.Reason == "cancelled":
		return "cancelled"
	case r.Status == "failed":
		return "failed"
	}
	return ""
}

func (r Run) over() bool { return r.Status == "done" || r.Status == "failed" }

// ended checks that no run is left, and that each input has an answer. Excused is an input whose run failed or was
// cancelled, if excuses count.
func (b *book) ended(excuses bool) {
	active := 0
	runs := map[string]Run{}
	for _, r := range b.runs {
		runs[r.ID] = r
		if !r.over() {
			active++
			b.say(NotQuiet, fmt.Sprintf("the run %s is still %s (attempts %d, reason %q, due %s)", r.ID, r.Status, r.Attempts, r.Reason, wireTime(r.Due)))
		}
		if r.Reason == "cancelled" && !b.cancels[r.ID] {
			b.say(Uncaused, "nobody cancelled the run "+r.ID)
		}
	}
	if active > 1 {
		b.say(TwoRuns, fmt.Sprintf("%d runs are active", active))
	}
	answered := map[int64]bool{}
	for i, e := range b.events {
		if e.Kind == assistantMessage && b.bodies[i].completed() {
			for _, seq := range b.bodies[i].InputSeqs {
				answered[seq] = true
			}
		}
	}
	for _, e := range b.events {
		if e.Kind != userMessage || answered[e.Seq] {
			continue
		}
		r, known := runs[e.Run]
		if excuses && known && !r.over() { // said above
			continue
		}
		if !excuses || !known || r.Status != "failed" {
			b.say(Unanswered, fmt.Sprintf("the input has no answer; its run %q is %q (%s)", e.Run, r.Status, r.Reason), e.Seq)
		}
	}
}

// tools compares the executions with the ledger.
func (b *book) tools() {
	calls := map[string]bool{}
	for i, e := range b.events {
		if e.Kind == assistantMessage && b.bodies[i].completed() {
			for _, c := range b.bodies[i].calls() {
				calls[c.ID] = true
			}
		}
	}
	ran := map[string]int{}
	for _, e := range b.effects {
		ran[e.Call]++
		if !calls[e.Call] {
			b.say(EffectUnknown, "the call "+e.Call+" of "+e.Tool+" was executed and never committed")
		}
		if ran[e.Call] == 2 && e.Tool == "sleep" {
			b.say(EffectTwice, "the call "+e.Call+" of "+e.Tool+" was executed again")
		}
	}
	for i, e := range b.events {
		if p := b.bodies[i]; e.Kind == toolResult && !p.IsError && len(b.effects) > 0 && ran[p.Call] == 0 {
			b.say(EffectUnknown, "the call "+p.Call+" has a result and was never executed", e.Seq)
		}
	}
}
