package runner_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// check compares what is stored with what happened. It knows the rules of protocol.md, and nothing of how they are kept.
func (s *simulation) check(t *testing.T) {
	synctest.Wait() // what others wrote last is read here
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ref := range s.sessions {
		c := &checker{simulation: s, t: t, ref: ref}
		var err error
		if c.rows, c.list, c.events, err = s.audit(ref); err != nil {
			c.fault("%v", err)
			continue
		}
		c.checkRows()
		c.read()
		c.checkInputs()
		c.checkEpochs()
		c.checkTurns()
		c.checkCalls()
		c.checkExecutions()
		c.checkSettlements()
		c.checkBudget()
		c.checkWatermark()
		c.checkCancels()
		c.checkRequests()
		c.checkCompactions()
		c.checkSummaries()
		c.checkModels()
	}
	s.checkChildren()
}

// checker checks one session.
type checker struct {
	*simulation
	t      *testing.T
	ref    domain.SessionRef
	rows   ports.AuditRows
	list   []domain.Run
	events []domain.Event

	runByID  map[string]domain.Run
	sent     map[domain.Seq]domain.Input
	answered map[domain.Seq]domain.Assistant
	results  map[domain.Seq]domain.ToolOutput
	finished map[domain.Seq]finishedEvent
	compacts map[domain.Seq]domain.Compacted
}

type finishedEvent struct{ Status, StopReason, Error string }

func (c *checker) fault(format string, args ...any) {
	c.faultLocked("%s: %s", c.ref.Session, fmt.Sprintf(format, args...))
}

// checkRows holds the rows against the ledger, by the verifier of the product and by the oracle of its tests.
func (c *checker) checkRows() {
	v := domain.NewVerifier(c.rows.Session)
	for _, run := range c.list {
		v.Run(run)
	}
	for i, e := range c.events {
		if e.Seq != domain.Seq(i+1) {
			c.fault("seq %d stands at %d", e.Seq, i+1)
		}
		v.Apply(e)
	}
	for _, f := range v.Finish(c.rows.LastSeq, c.rows.Calls) {
		c.fault("verifier: %v", f)
	}
	if want, got := domaintest.Oracle(c.events, 0), c.rows.Session.Fold; fmt.Sprint(want) != fmt.Sprint(got) {
		c.fault("the row folds to %+v, the oracle to %+v", got, want)
	}
}

func (c *checker) read() {
	c.runByID, c.sent, c.answered = map[string]domain.Run{}, map[domain.Seq]domain.Input{}, map[domain.Seq]domain.Assistant{}
	c.results, c.finished = map[domain.Seq]domain.ToolOutput{}, map[domain.Seq]finishedEvent{}
	c.compacts = map[domain.Seq]domain.Compacted{}
	for _, run := range c.list {
		c.runByID[run.ID] = run
		if run.Status.Active() {
			c.fault("run %s is %s at rest", run.ID, run.Status)
		}
	}
	for _, e := range c.events {
		var err error
		switch e.Kind {
		case domain.UserMessage:
			c.sent[e.Seq], err = domain.ParseInput(e.Payload)
		case domain.AssistantMessage:
			c.answered[e.Seq], err = domain.ParseAssistant(e.Payload)
		case domain.ToolResult:
			c.results[e.Seq], err = domain.ParseToolOutput(e.Payload)
		case domain.RunFinished:
			var f finishedEvent
			err = json.Unmarshal(e.Payload.Bytes(), &f)
			c.finished[e.Seq] = f
		case domain.Compaction:
			c.compacts[e.Seq], err = domain.ParseCompaction(e.Payload)
		default:
			c.fault("event %d is a %s", e.Seq, e.Kind)
		}
		if err != nil {
			c.fault("event %d: %v", e.Seq, err)
		}
	}
}

// checkInputs: every acknowledged input is there exactly once and unchanged, and nothing is that nobody sent.
func (c *checker) checkInputs() {
	at := map[string]domain.Seq{}
	for _, seq := range sortedSeqs(c.sent) {
		in := c.sent[seq]
		if at[in.RequestID] != 0 {
			c.fault("input %s is there twice, at %d and %d", in.RequestID, at[in.RequestID], seq)
		}
		at[in.RequestID] = seq
		sent := c.inputs[c.ref][in.RequestID]
		if sent == nil {
			c.fault("nobody sent input %q", in.RequestID)
			continue
		}
		c.checkPayload(c.events[seq-1].Payload, in, sent)
	}
	for key, sent := range c.inputs[c.ref] {
		if sent.acked != nil && at[key] != sent.acked.Seq {
			c.fault("input %s was acknowledged at %d and is at %d", key, sent.acked.Seq, at[key])
		}
	}
}

func (c *checker) checkPayload(stored domain.Payload, in domain.Input, sent *sentInput) {
	var was, is map[string]any
	if json.Unmarshal(sent.payload.Bytes(), &was) != nil || json.Unmarshal(stored.Bytes(), &is) != nil {
		c.fault("input %s is no JSON object", in.RequestID)
	}
	if in.Requested != "" {
		if in.Requested != domain.Guide || in.Delivery != domain.Queue || sent.delivery != domain.Guide {
			c.fault("input %s, sent as %q, was demoted from %q to %q", in.RequestID, sent.delivery, in.Requested, in.Delivery)
		}
		delete(is, "requestedDelivery")
		is["delivery"] = "guide"
	}
	if fmt.Sprint(was) != fmt.Sprint(is) {
		c.fault("input %s was sent as %v and is stored as %v", in.RequestID, was, is)
	}
	if sent.acked != nil && !sent.acked.Payload.Equal(stored) {
		c.fault("input %s was acknowledged as %v and is stored as %v", in.RequestID, sent.acked.Payload, stored)
	}
}

// checkEpochs: every owner's event is of an attempt that was claimed, and no epoch falls.
func (c *checker) checkEpochs() {
	epoch := int64(0)
	for _, e := range c.events {
		if e.Kind == domain.UserMessage {
			continue
		}
		claim, ok := c.claims[c.ref][e.Epoch]
		switch {
		case !ok:
			c.fault("event %d is of epoch %d, which nobody claimed", e.Seq, e.Epoch)
		case claim.Run.ID != e.RunID:
			c.fault("event %d is of run %s, but epoch %d of %s", e.Seq, e.RunID, e.Epoch, claim.Run.ID)
		case e.Epoch < epoch:
			c.fault("event %d is of epoch %d, after one of epoch %d", e.Seq, e.Epoch, epoch)
		case e.Seq <= claim.Session.HeadSeq:
			c.fault("event %d is of epoch %d, which was claimed at head %d", e.Seq, e.Epoch, claim.Session.HeadSeq)
		}
		epoch = e.Epoch
	}
	if n := int64(len(c.claims[c.ref])); n != c.rows.Session.Epoch {
		c.fault("epoch %d after %d claims", c.rows.Session.Epoch, n)
	}
}

// checkTurns replays which inputs each answer had to list: those of its turn, those that the claim took, and one guide
// per request boundary, the oldest. At the end only inputs of failed and cancelled runs may wait.
func (c *checker) checkTurns() {
	var waiting, turn []domain.Seq
	known := map[int64]domain.Seq{}   // by epoch: the attempt's own last event; at its next boundary it knew all up to it
	again := map[int64][]domain.Seq{} // by epoch: what a request that was refused presented
	for _, e := range c.events {
		switch e.Kind {
		case domain.UserMessage:
			waiting = append(waiting, e.Seq)
			continue
		case domain.AssistantMessage:
			m, claim := c.answered[e.Seq], c.claims[c.ref][e.Epoch]
			if claim.Run.ClaimSeq == nil {
				c.fault("epoch %d has no claim seq", e.Epoch)
				return
			}
			if same, ok := again[e.Epoch]; !ok {
				c.checkListed(e, waiting, turn, *claim.Run.ClaimSeq, max(known[e.Epoch], claim.Session.HeadSeq))
			} else if !slices.Equal(same, m.InputSeqs) {
				c.fault("answer %d lists %v, but the request was refused with %v", e.Seq, m.InputSeqs, same)
			}
			if again[e.Epoch] = m.InputSeqs; m.StopReason.Completed() {
				delete(again, e.Epoch)
				waiting = slices.DeleteFunc(waiting, func(s domain.Seq) bool { return slices.Contains(m.InputSeqs, s) })
				if turn = nil; len(m.CallIDs()) > 0 {
					turn = m.InputSeqs
				}
			}
		case domain.Compaction:
			c.checkBound(e, slices.Concat(waiting, turn))
		case domain.RunFinished:
			if c.finished[e.Seq].Status != "failed" {
				turn = nil
			}
			if out, ok := c.settlement(e.Epoch); ok && out.Run.Status == domain.StatusDone && len(waiting) > 0 {
				c.fault("run %s is done at %d while inputs %v wait", e.RunID, e.Seq, waiting)
			}
		}
		known[e.Epoch] = e.Seq
	}
	for _, seq := range waiting {
		if c.rows.Session.State != domain.SessionClosed && !slices.ContainsFunc(c.list, func(run domain.Run) bool { return c.gaveUp(run, seq) }) {
			c.fault("input %d is not answered, and no run failed on it", seq)
		}
	}
}

// checkListed checks the inputs of one answer.
func (c *checker) checkListed(e domain.Event, waiting, turn []domain.Seq, claim, known domain.Seq) {
	want := slices.Clone(turn)
	guide := domain.Seq(0)
	for _, s := range waiting {
		switch {
		case s <= claim:
			want = append(want, s)
		case guide == 0 && c.sent[s].Delivery == domain.Guide:
			guide = s
		}
	}
	slices.Sort(want)
	with := append(slices.Clone(want), guide)
	slices.Sort(with)
	got := c.answered[e.Seq].InputSeqs
	switch {
	case guide != 0 && slices.Equal(got, with):
	case !slices.Equal(got, want):
		c.fault("answer %d lists %v, wanted %v, with guide %d at most", e.Seq, got, want, guide)
	case guide != 0 && guide <= known:
		c.fault("answer %d lists %v without guide %d, which was there at its boundary (%d)", e.Seq, got, guide, known)
	}
}

// gaveUp reports whether a run failed that had taken the input.
func (c *checker) gaveUp(run domain.Run, seq domain.Seq) bool {
	if run.Status != domain.StatusFailed {
		return false
	}
	if run.CancelSeq != nil {
		return seq <= *run.CancelSeq
	}
	claim := c.claims[c.ref][run.Epoch].Run.ClaimSeq
	return claim != nil && seq <= *claim || c.wasShown(run, c.sent[seq].Text)
}

func (c *checker) wasShown(run domain.Run, text string) bool {
	return slices.ContainsFunc(c.requests, func(q *shown) bool {
		return q.ref == c.ref && q.claim.Run.ID == run.ID && slices.Contains(q.inputs, text)
	})
}

// settlement returns the outcome of the attempt's settlement.
func (c *checker) settlement(epoch int64) (domain.Outcome, bool) {
	for _, a := range c.history[c.ref] {
		if cmd, ok := a.cmd.(domain.Settle); ok && cmd.Token.Epoch == epoch && a.err == nil && a.out.Created {
			return a.out, true
		}
	}
	return domain.Outcome{}, false
}

// checkCalls: each committed call has exactly one result, before the next answer; what it says was really returned.
func (c *checker) checkCalls() {
	open := map[string]bool{}
	for _, e := range c.events {
		switch e.Kind {
		case domain.AssistantMessage:
			m := c.answered[e.Seq]
			if len(open) > 0 {
				c.fault("answer %d comes while calls are open", e.Seq)
			}
			if !m.StopReason.Completed() && len(m.CallIDs()) > 0 {
				c.fault("the failed answer %d has calls", e.Seq)
			}
			for _, id := range m.CallIDs() {
				open[id] = true
			}
		case domain.ToolResult:
			out := c.results[e.Seq]
			if !open[out.ToolCallID] {
				c.fault("result %d is of %s, which is not open", e.Seq, out.ToolCallID)
			}
			delete(open, out.ToolCallID)
			if !out.IsError && (len(out.Content) == 0 || out.Content[0].Text != "ran "+out.ToolCallID) {
				c.fault("result %d is not what the tool gave", e.Seq)
			}
		}
	}
	if len(open) > 0 {
		c.fault("%d calls have no result", len(open))
	}
}
