package runner_test

import (
	"slices"
	"strings"

	"github.com/keel-agent/keel/domain"
)

// checkBound: a compaction drops no input of the turn and none that waits, whatever arrived while it was written.
func (c *checker) checkBound(e domain.Event, inputs []domain.Seq) {
	if kept := c.compacts[e.Seq].FirstKept; len(inputs) > 0 && kept > slices.Min(inputs) {
		c.fault("compaction %d begins at %d, behind an input of %v", e.Seq, kept, inputs)
	}
}

// checkCompactions: a compaction is what its own attempt asked for. Each drops an answer at least, so that there is no end
// of them without an end of answers, and what it drops was summarised.
func (c *checker) checkCompactions() {
	var earlier domain.Compacted
	for _, seq := range sortedSeqs(c.compacts) {
		m := c.compacts[seq]
		token, _, _ := strings.Cut(m.Summary, "\n")
		i := slices.IndexFunc(c.summaries, func(q *asked) bool { return q.ref == c.ref && q.token == token })
		switch {
		case i < 0:
			c.fault("nobody wrote the summary of compaction %d: %s", seq, m.Summary)
			return
		case c.summaries[i].fault != "":
			c.fault("the summary of compaction %d had failed: %s", seq, c.summaries[i].fault)
		case c.summaries[i].claim.Run.Epoch != c.events[seq-1].Epoch:
			c.fault("the summary of compaction %d was asked for in epoch %d, and committed in %d", seq, c.summaries[i].claim.Run.Epoch, c.events[seq-1].Epoch)
		case m.FirstKept <= earlier.FirstKept:
			c.fault("compaction %d keeps from %d on, the one before it from %d", seq, m.FirstKept, earlier.FirstKept)
		}
		c.checkSource(seq, earlier, m.FirstKept, c.summaries[i].text)
		earlier = m
	}
}

// leftOut is what app/compaction puts in place of what was too long to be summarised.
const leftOut = "(the older part of the conversation is left out)"

// checkSource holds what a summary was written from against what it replaces.
func (c *checker) checkSource(at domain.Seq, earlier domain.Compacted, kept domain.Seq, text string) {
	whole, answers := !strings.Contains(text, leftOut), 0
	if earlier.Summary != "" && !strings.Contains(text, "<earlier_summary>\n"+earlier.Summary) {
		c.fault("the summary of %d was written without the one before it", at)
	}
	for _, seq := range sortedSeqs(c.answered) {
		m := c.answered[seq]
		if !m.StopReason.Completed() || seq < earlier.FirstKept || seq > at {
			continue
		}
		dropped := seq < kept
		if dropped {
			answers++
		}
		if shown := strings.Contains(text, "\n"+m.Content[0].Text+"\n"); shown && !dropped || !shown && dropped && whole {
			c.fault("answer %d, dropped: %t by compaction %d, was summarised: %t", seq, dropped, at, shown)
		}
		for _, id := range m.CallIDs() {
			c.checkCutCall(at, kept, dropped, id)
		}
		for _, s := range m.InputSeqs {
			if dropped && whole && s >= earlier.FirstKept && !strings.Contains(text, "\n"+c.sent[s].Text+"\n") {
				c.fault("input %d was dropped by compaction %d and not summarised", s, at)
			}
		}
	}
	if answers == 0 {
		c.fault("compaction %d drops no answer", at)
	}
}

// checkCutCall: a cut never parts a call from its result.
func (c *checker) checkCutCall(at, kept domain.Seq, dropped bool, id string) {
	for seq, out := range c.results {
		if out.ToolCallID == id && (seq > at || dropped != (seq < kept)) {
			c.fault("compaction %d from %d parts call %s from its result %d", at, kept, id, seq)
		}
	}
}

// unsummed reports whether a summary of an attempt failed.
func (c *checker) unsummed(epoch int64) bool {
	return slices.ContainsFunc(c.summaries, func(q *asked) bool { return q.ref == c.ref && q.claim.Run.Epoch == epoch && q.fault != "" })
}

// checkSummaries: an attempt asks for a summary when its context nears the window, which it gives up once it failed, when
// it was refused as too large, once an answer, and when a user asks; each of these takes three requests at most.
func (c *checker) checkSummaries() {
	most := map[int64]int{}
	for epoch := range c.claims[c.ref] {
		most[epoch] = 1 + c.asksToCompact()
	}
	since := map[int64]int{} // compactions since an answer, by epoch
	for _, e := range c.events {
		switch {
		case e.Kind == domain.Compaction:
			most[e.Epoch]++
			since[e.Epoch]++
		case e.Kind == domain.AssistantMessage && c.answered[e.Seq].StopReason.Completed():
			since[e.Epoch] = 0
		}
		if since[e.Epoch] > 1 && c.weather.at == 0 && c.asksToCompact() == 0 {
			c.fault("compaction %d is of a context that was compacted since its last answer", e.Seq)
		}
	}
	for _, q := range c.requests {
		if q.ref == c.ref && q.refused {
			most[q.claim.Run.Epoch]++
		}
	}
	n := map[int64]int{}
	for _, q := range c.summaries {
		if q.ref == c.ref {
			n[q.claim.Run.Epoch]++
		}
	}
	for epoch, n := range n {
		if n > 3*most[epoch] {
			c.fault("epoch %d asked for %d summaries, wanted %d at most", epoch, n, 3*most[epoch])
		}
	}
}

func (c *checker) asksToCompact() (n int) {
	for _, a := range c.history[c.ref] {
		if cmd, ok := a.cmd.(domain.EnsureRun); ok && cmd.Compact {
			n++
		}
	}
	return n
}

// checkModels: a request goes to the model that the newest of its inputs chooses, and the ledger says so.
func (c *checker) checkModels() {
	asked := map[string]string{}
	for _, q := range c.requests {
		asked[q.token] = q.model
	}
	for seq, m := range c.answered {
		got := m.Provider + "/" + m.Model
		if want := c.chosenBy(m.InputSeqs); got != want {
			c.fault("answer %d is by %q, wanted %q", seq, got, want)
		}
		if len(m.Content) == 0 {
			continue
		}
		if was, ok := asked[strings.TrimPrefix(m.Content[0].Text, "torn ")]; ok && was != got {
			c.fault("answer %d is by %q, but %q was asked", seq, got, was)
		}
	}
}

func (c *checker) chosenBy(inputs []domain.Seq) string {
	for _, seq := range slices.Backward(inputs) {
		chosen, err := domain.ParseSelection(c.sent[seq].Selection)
		if err != nil {
			c.fault("input %d: %v", seq, err)
		}
		if chosen.Model != "" {
			provider, name, _ := strings.Cut(chosen.Model, "/")
			return provider + "/" + name
		}
	}
	return backends[0] + "/"
}
