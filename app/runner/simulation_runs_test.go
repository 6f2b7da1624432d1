package runner_test

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keel-agent/keel/domain"
)

func sortedSeqs[T any](m map[domain.Seq]T) []domain.Seq { return slices.Sorted(maps.Keys(m)) }

// checkExecutions: a tool ran only for an open call of its own attempt, one that may not run again once at most.
func (c *checker) checkExecutions() {
	ran := map[string]int{}
	for _, x := range c.runs {
		if x.ref != c.ref {
			continue
		}
		i := slices.IndexFunc(c.rows.Calls, func(call domain.ToolCall) bool { return call.ID == x.id })
		if i < 0 {
			c.fault("%s ran for %s, which is no committed call", x.name, x.id)
			continue
		}
		call := c.rows.Calls[i]
		ran[x.id]++
		if call.ResultSeq > 0 && x.at.After(c.committedAt(call.ResultSeq)) {
			c.fault("%s ran again for %s, whose result %d was committed", x.name, x.id, call.ResultSeq)
		}
		if x.claim.Mode != domain.ClaimWork {
			c.fault("%s ran for %s in mode %q", x.name, x.id, x.claim.Mode)
		}
		if x.name == "safe" {
			continue
		}
		if ran[x.id] > 1 {
			c.fault("%s, which may not run again, ran %d times for %s", x.name, ran[x.id], x.id)
		}
		if call.StartedEpoch == nil || *call.StartedEpoch != x.claim.Run.Epoch {
			c.fault("%s ran for %s in epoch %d without its mark", x.name, x.id, x.claim.Run.Epoch)
		}
	}
	for seq, out := range c.results {
		if !out.IsError && ran[out.ToolCallID] == 0 {
			c.fault("result %d of %s was never returned by a tool", seq, out.ToolCallID)
		}
	}
}

// committedAt returns when an event was committed, to the nanosecond.
func (c *checker) committedAt(seq domain.Seq) time.Time {
	for _, a := range c.history[c.ref] {
		if a.err == nil && a.out.Created && a.out.Event != nil && a.out.Event.Seq == seq {
			return a.at
		}
	}
	return c.calmAt
}

// checkSettlements: one run.finished per settled attempt, its last event, and none for any other attempt.
func (c *checker) checkSettlements() {
	finished := map[int64]domain.Seq{}
	last := map[int64]domain.Event{}
	for _, e := range c.events {
		if e.Kind == domain.UserMessage {
			continue
		}
		if at := finished[e.Epoch]; at != 0 {
			c.fault("event %d is of epoch %d, which finished at %d", e.Seq, e.Epoch, at)
		}
		if e.Kind == domain.RunFinished {
			finished[e.Epoch] = e.Seq
			c.checkFinished(e, last[e.Epoch])
		}
		if e.Kind != domain.Compaction {
			last[e.Epoch] = e
		}
	}
	for epoch := range c.claims[c.ref] {
		if _, settled := c.settlement(epoch); settled != (finished[epoch] != 0) {
			c.fault("epoch %d settled: %t, and finished at %d", epoch, settled, finished[epoch])
		}
	}
}

// faults are what can be the reason of a failure here.
var faults = []string{
	"fault of answer", "the answer is empty", "without a stop reason", "all attempts are used up",
	"tokens are more than", "no summary", "too long to be summarised",
}

// checkFinished holds a summary against what its attempt did before.
func (c *checker) checkFinished(e, before domain.Event) {
	f, run := c.finished[e.Seq], c.runByID[e.RunID]
	answer, isAnswer := c.answered[before.Seq]
	cancelled := run.CancelSeq != nil && *run.CancelSeq < e.Seq
	switch f.Status {
	case "done":
		whole := isAnswer && answer.StopReason.Completed() && len(answer.CallIDs()) == 0
		if !whole && f.StopReason != string(domain.StopTurnLimit) && before.Seq != 0 {
			c.fault("event %d is done, after %s", e.Seq, before.Kind)
		}
	case "failed":
		if !slices.ContainsFunc(faults, func(known string) bool { return strings.Contains(f.Error, known) }) {
			c.fault("event %d failed, and nothing gave it the reason: %q", e.Seq, f.Error)
		}
		if isAnswer && answer.StopReason.Completed() && !c.unsummed(e.Epoch) {
			c.fault("event %d failed, after an answer", e.Seq)
		}
	case "cancelled":
		if !cancelled || run.Status != domain.StatusFailed || run.Ended.Epoch != e.Epoch {
			c.fault("event %d is cancelled, but run %s is %+v", e.Seq, run.ID, run)
		}
	}
	if answer.StopReason == domain.StopAborted && isAnswer && !cancelled {
		c.fault("answer %d was aborted, and nobody cancelled", before.Seq)
	}
}

// checkBudget counts the attempts of each run anew.
func (c *checker) checkBudget() {
	attempts := map[string]int{}
	for _, a := range c.history[c.ref] {
		if a.err != nil || !a.out.Created || a.out.Run == nil {
			continue
		}
		run := a.out.Run
		switch cmd := a.cmd.(type) {
		case domain.ClaimRun:
			c.checkMode(a, attempts[cmd.Run])
			attempts[cmd.Run]++
			if run.Attempts != attempts[cmd.Run] {
				c.fault("epoch %d is attempt %d, but was counted as %d", run.Epoch, attempts[cmd.Run], run.Attempts)
			}
		case domain.HandBack:
			attempts[cmd.Run]--
		case domain.Settle:
			c.checkVerdict(a, cmd, attempts[cmd.Run])
			if cmd.Result == domain.Success && a.out.Run.Status == domain.StatusPending && a.out.Run.Reason == domain.ReasonMoreInput {
				attempts[cmd.Run] = 0
			}
		}
	}
}

// checkWatermark: the read watermark rises at a success only, to where nothing below waits.
func (c *checker) checkWatermark() {
	marks := map[string]domain.Seq{}
	for _, a := range c.history[c.ref] {
		run := a.out.Run
		if a.err != nil || !a.out.Created || run == nil {
			continue
		}
		want := marks[run.ID]
		if cmd, ok := a.cmd.(domain.Settle); ok && cmd.Run == run.ID && c.finished[a.out.Event.Seq].Status == "done" {
			want = a.out.Session.HeadSeq
			if waiting := a.out.Session.Unanswered; len(waiting) > 0 {
				want = waiting[0] - 1
			}
		}
		if _, inserted := a.cmd.(domain.SubmitInput); !inserted && run.ReadWatermark != want {
			c.fault("%T moved the watermark of run %s to %d, wanted %d", a.cmd, run.ID, run.ReadWatermark, want)
		}
		marks[run.ID] = want
	}
}

// checkMode: a cancelled run is only finished, and so is one whose attempts are spent.
func (c *checker) checkMode(a act, attempts int) {
	want := domain.ClaimWork
	switch {
	case a.out.Run.CancelSeq != nil:
		want = domain.ClaimCancelled
	case attempts >= c.weather.budget:
		want = domain.ClaimExhausted
	}
	if a.out.Claim != want {
		c.fault("epoch %d was claimed as %q after %d attempts, wanted %q", a.out.Run.Epoch, a.out.Claim, attempts, want)
	}
}

// checkVerdict: a run fails for good when its budget is spent, the fault is permanent, or it was cancelled.
func (c *checker) checkVerdict(a act, cmd domain.Settle, attempts int) {
	run := c.runByID[cmd.Run]
	reason := a.out.Run.Reason
	switch {
	case run.Ended.Epoch == cmd.Token.Epoch:
		reason = run.Reason
	case a.out.Run.ID == run.ID && a.out.Run.Status != domain.StatusPending:
		c.fault("run %s was %s in epoch %d and went on", run.ID, a.out.Run.Status, cmd.Token.Epoch)
	}
	switch reason {
	case domain.ReasonExhausted:
		if attempts < c.weather.budget {
			c.fault("run %s is exhausted after %d attempts", run.ID, attempts)
		}
	case domain.ReasonPermanent:
		if c.hopeless[c.ref] == 0 {
			c.fault("run %s failed permanently, without such a fault", run.ID)
		}
	case domain.ReasonFailed:
		if attempts >= c.weather.budget {
			c.fault("run %s is tried again after %d attempts", run.ID, attempts)
		}
	}
}

// checkRequests: each request shows what the latest compaction before it kept: answers with their results, and the inputs
// that they and its own answer list, all of them once and in order; its answer is committed once at most.
func (c *checker) checkRequests() {
	committed := map[string]domain.Seq{}
	for _, seq := range sortedSeqs(c.answered) {
		m := c.answered[seq]
		if !m.StopReason.Completed() {
			continue
		}
		if at := committed[m.Content[0].Text]; at != 0 {
			c.fault("%s is committed twice, at %d and %d", m.Content[0].Text, at, seq)
		}
		committed[m.Content[0].Text] = seq
	}
	for _, q := range c.requests {
		seq := committed[q.token]
		if q.ref != c.ref || seq == 0 {
			continue
		}
		if e := c.events[seq-1]; e.Epoch != q.claim.Run.Epoch {
			c.fault("%s was asked for in epoch %d and committed in %d", q.token, q.claim.Run.Epoch, e.Epoch)
		}
		kept, summary := c.keptBefore(seq)
		if q.summary != summary {
			c.fault("%s (%d) was asked for with the summary %q, wanted %q", q.token, seq, q.summary, summary)
		}
		inputs, answers := c.before(seq, kept)
		got := slices.Sorted(slices.Values(q.inputs))
		if !slices.Equal(answers, q.answers) {
			c.fault("%s (%d) was asked for after the answers %q, wanted %q", q.token, seq, q.answers, answers)
		}
		if want := c.resultsBefore(seq, kept); !maps.Equal(want, q.results) {
			c.fault("%s (%d) was asked for with the results %q, wanted %q", q.token, seq, q.results, want)
		}
		if want := slices.Sorted(slices.Values(inputs)); !slices.Equal(want, got) {
			c.fault("%s (%d) was asked for with the inputs %q, wanted %q", q.token, seq, got, want)
		}
	}
}

// keptBefore returns what the latest compaction before an event keeps, and the first line of its summary.
func (c *checker) keptBefore(seq domain.Seq) (kept domain.Seq, summary string) {
	for _, at := range sortedSeqs(c.compacts) {
		if at < seq {
			kept = c.compacts[at].FirstKept
			summary, _, _ = strings.Cut(c.compacts[at].Summary, "\n")
		}
	}
	return kept, summary
}

// before returns the texts that the request of an answer has to show when the context begins at kept. An input from before
// that which a later answer than the first kept one is the first to list stays.
func (c *checker) before(answer, kept domain.Seq) (inputs, answers []string) {
	listed := map[domain.Seq]bool{}
	for _, seq := range sortedSeqs(c.answered) {
		m := c.answered[seq]
		if seq > answer || !m.StopReason.Completed() {
			continue
		}
		for _, s := range m.InputSeqs {
			if !listed[s] && (s >= kept || len(answers) > 0) {
				inputs = append(inputs, c.sent[s].Text)
			}
			listed[s] = true
		}
		if kept <= seq && seq < answer {
			answers = append(answers, m.Content[0].Text)
		}
	}
	return inputs, answers
}

func (c *checker) resultsBefore(answer, kept domain.Seq) map[string]string {
	texts := map[string]string{}
	for seq, out := range c.results {
		if kept <= seq && seq < answer {
			texts[out.ToolCallID] = out.Content[0].Text
		}
	}
	return texts
}
