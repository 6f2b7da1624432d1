package domaintest

import (
	"fmt"
	"slices"

	"github.com/keel-agent/keel/domain"
)

// lease returns the run and the token that a worker command names.
func lease(cmd domain.Command) (run string, t domain.Token, ok bool) {
	switch c := cmd.(type) {
	case domain.AppendAssistant:
		return c.Run, c.Token, true
	case domain.StartCalls:
		return c.Run, c.Token, true
	case domain.AppendToolResult:
		return c.Run, c.Token, true
	case domain.AppendCompaction:
		return c.Run, c.Token, true
	case domain.ParkRun:
		return c.Run, c.Token, true
	case domain.HandBack:
		return c.Run, c.Token, true
	case domain.Settle:
		return c.Run, c.Token, true
	}
	return "", domain.Token{}, false
}

// checkTransition checks what one command did to the active run, command by command. was is the run that was active
// before, is the same one after.
func (l *Ledger) checkTransition(before Ledger, cmd domain.Command, out domain.Outcome) error {
	if run, t, ok := lease(cmd); ok && (t.Process != before.Row.Owner || t.Epoch != before.Row.Epoch || run != before.Row.ActiveRun) {
		return fmt.Errorf("run %q under %v wrote, the lease is %q %q %d",
			run, t, before.Row.ActiveRun, before.Row.Owner, before.Row.Epoch)
	}
	was := before.Runs[before.Row.ActiveRun]
	is := l.Runs[was.ID]
	switch c := cmd.(type) {
	case domain.SubmitInput:
		if was.ID != "" && !is.PendingInput {
			return fmt.Errorf("pending_input is not set")
		}
		if len(before.Row.Unanswered) >= domain.MaxUnanswered {
			return fmt.Errorf("input number %d is accepted", len(l.Row.Unanswered))
		}
		if in, err := domain.ParseInput(c.Payload); err != nil || in.RequestID != c.RequestID || in.Requested != "" {
			return fmt.Errorf("the input %s is accepted under the key %q", c.Payload, c.RequestID)
		}
	case domain.RequestCancel:
		if c.Run != "" && c.Run != was.ID || is.CancelSeq == nil || *is.CancelSeq != before.Row.HeadSeq {
			return fmt.Errorf("cancel of %q: run %q, cancel_seq %v", c.Run, was.ID, is.CancelSeq)
		}
	case domain.CloseSession:
		if was.ID != "" && is.CancelSeq == nil {
			return fmt.Errorf("closing did not cancel")
		}
	case domain.ClaimRun:
		return l.checkClaim(before, was, is, out, c)
	case domain.AppendAssistant:
		return l.checkAnswer(before, was)
	case domain.StartCalls:
		if was.CancelSeq != nil {
			return fmt.Errorf("calls of a cancelled run were started")
		}
	case domain.AppendCompaction:
		if is.Compact || l.Row.HeadSeq > before.Row.HeadSeq && (l.Row.KeptSeq <= before.Row.KeptSeq || l.Row.KeptSeq > before.Row.HeadSeq) {
			return fmt.Errorf("compaction at %d after one at %d, head %d", l.Row.KeptSeq, before.Row.KeptSeq, before.Row.HeadSeq)
		}
	case domain.ParkRun:
		return ended(was, is, domain.StatusPending, 0, is.Parked && was.CancelSeq == nil && c.SeenSignals == was.Signals)
	case domain.HandBack:
		return ended(was, is, domain.StatusPending, was.Attempts-1, !is.Parked)
	case domain.Rescue:
		return ended(was, is, domain.StatusPending, was.Attempts, !is.Parked)
	case domain.Settle:
		return l.checkSettled(before, was, is, c)
	}
	return nil
}

// ended: the same turn goes on.
func ended(was, is domain.Run, status domain.RunStatus, attempts int, more bool) error {
	sameTurn := is.ClaimSeq != nil && *is.ClaimSeq == *was.ClaimSeq && (is.CancelSeq == nil) == (was.CancelSeq == nil)
	if is.Status != status || is.Attempts != attempts || !sameTurn || !more || is.Ended.Epoch != was.Epoch {
		return fmt.Errorf("the attempt of %+v ended as %+v", was, is)
	}
	return nil
}

func (l *Ledger) checkClaim(before Ledger, was, is domain.Run, out domain.Outcome, c domain.ClaimRun) error {
	want := domain.ClaimWork
	switch {
	case was.CancelSeq != nil:
		want = domain.ClaimCancelled
	case len(before.Row.Unanswered) == 0 && before.Row.Owed == domain.OwedNone && !was.Compact:
		want = domain.ClaimNoWork
	case was.Attempts >= c.Budget:
		want = domain.ClaimExhausted
	}
	if out.Claim != want {
		return fmt.Errorf("run %+v is claimed as %q, want %q", was, out.Claim, want)
	}
	if want == domain.ClaimNoWork {
		if l.Row.Epoch != before.Row.Epoch || is.Attempts != was.Attempts || is.Status != domain.StatusDone {
			return fmt.Errorf("no work, and yet %+v", is)
		}
		return nil
	}
	boundary := before.Row.HeadSeq
	if was.ClaimSeq != nil {
		boundary = *was.ClaimSeq
	}
	if l.Row.Epoch != before.Row.Epoch+1 || is.Attempts != was.Attempts+1 || *is.ClaimSeq != boundary || is.Owner != c.Process {
		return fmt.Errorf("the claim of %+v gave %+v, epoch %d", was, is, l.Row.Epoch)
	}
	return nil
}

// checkAnswer: what an answer lists was claimed, or is a guide, or was listed before in the turn; a cancelled run
// starts no call.
func (l *Ledger) checkAnswer(before Ledger, was domain.Run) error {
	e := l.Events[len(l.Events)-1]
	for _, seq := range readSaid(e).inputSeqs {
		waits := slices.Contains(before.Row.Unanswered, seq)
		if !waits && !slices.Contains(before.Row.TurnInputs, seq) {
			return fmt.Errorf("seq %d answers %d, no input of the turn", e.Seq, seq)
		}
		if waits && seq > *was.ClaimSeq && !slices.Contains(before.Row.Guides, seq) {
			return fmt.Errorf("seq %d answers %d, queued for a later turn", e.Seq, seq)
		}
	}
	for _, c := range l.Calls[len(before.Calls):] {
		if c.StartedEpoch != nil && was.CancelSeq != nil {
			return fmt.Errorf("call %q of a cancelled run was started", c.ID)
		}
	}
	return nil
}

// checkSettled compares with the settlement table of commands.md.
func (l *Ledger) checkSettled(before Ledger, was, is domain.Run, c domain.Settle) error {
	failed := c.Result != domain.Success || before.Row.Owed == domain.OwedFailure
	finished, run := "done", domain.StatusDone
	switch {
	case was.CancelSeq != nil:
		finished, run = "cancelled", domain.StatusFailed
	case failed && (c.Result == domain.Permanent || was.Attempts >= c.Budget):
		finished, run = "failed", domain.StatusFailed
	case failed:
		finished, run = "failed", domain.StatusPending
	case len(before.Row.Unanswered) > 0 || was.Compact:
		run = domain.StatusPending
	}
	got := readSaid(l.Events[len(l.Events)-1]).status
	if got != finished || is.Status != run || is.ClaimSeq != nil {
		return fmt.Errorf("%+v settled as %q %+v, want %q %q", was, got, is, finished, run)
	}
	if before.Row.OpenCalls > 0 && (finished == "done" || run != domain.StatusPending) {
		return fmt.Errorf("settled with %d open calls", before.Row.OpenCalls)
	}
	if next := l.Row.ActiveRun; next != was.ID && next != "" && l.Runs[next].Compact != was.Compact {
		return fmt.Errorf("the successor does not inherit the compaction")
	}
	return nil
}

// checkReply checks an answer against what was sent under the same key before. sent holds what was accepted.
func (w *World) checkReply(ref domain.SessionRef, cmd domain.Command, out domain.Outcome, err error) error {
	l := w.Ledgers[ref]
	if l == nil {
		return nil
	}
	if err := l.checkAnswered(cmd, out, err); err != nil {
		return err
	}
	key, p, edge := keyed(cmd)
	if key == "" {
		return nil
	}
	if l.sent == nil {
		l.sent = map[string]domain.Payload{}
	}
	first, known := l.sent[key]
	switch {
	case known && err == nil && (out.Created || out.Event == nil || out.Event.Key != key || !first.Equal(p)):
		return fmt.Errorf("%T: the reply to %s under the key of %s is %+v", cmd, p, first, out)
	case known && (edge || l.held(cmd)) && err != nil && first.Equal(p):
		return fmt.Errorf("%T: the retry was refused: %w", cmd, err)
	case !known && err == nil:
		if !out.Created || out.Event == nil || out.Event.Key != key {
			return fmt.Errorf("%T: the first reply is %+v", cmd, out)
		}
		l.sent[key] = p
	}
	return nil
}

// held reports whether the worker command cmd has the lease.
func (l *Ledger) held(cmd domain.Command) bool {
	run, t, ok := lease(cmd)
	return ok && t.Process != "" && t.Process == l.Row.Owner && t.Epoch == l.Row.Epoch && run == l.Row.ActiveRun
}

// checkAnswered: what the answer promises holds, also when nothing was written for it.
func (l *Ledger) checkAnswered(cmd domain.Command, out domain.Outcome, refusal error) error {
	if refusal != nil {
		return nil //nolint:nilerr // a refusal promises nothing
	}
	if c, ok := cmd.(domain.EnsureRun); ok && c.Compact && !l.Runs[l.Row.ActiveRun].Compact {
		return fmt.Errorf("the compaction that was asked for is forgotten")
	}
	_, t, _ := lease(cmd)
	for _, id := range out.Started {
		i := slices.IndexFunc(l.Calls, func(c domain.ToolCall) bool { return c.ID == id })
		if i < 0 || l.Calls[i].StartedEpoch == nil || *l.Calls[i].StartedEpoch != t.Epoch {
			return fmt.Errorf("%T says that it started %q, the rows are %+v", cmd, id, l.Calls)
		}
	}
	return nil
}

func keyed(cmd domain.Command) (key string, p domain.Payload, edge bool) {
	switch c := cmd.(type) {
	case domain.SubmitInput:
		return "requestId:" + c.RequestID, c.Payload, true
	case domain.AppendExternal:
		return "requestId:" + c.RequestID, c.Payload, true
	case domain.AppendAssistant:
		return "generationId:" + c.GenerationID, c.Payload, false
	case domain.AppendToolResult:
		return "toolCallId:" + c.Call, c.Payload, false
	}
	return "", domain.Payload{}, false
}
