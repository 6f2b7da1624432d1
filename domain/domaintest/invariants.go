package domaintest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/keel-agent/keel/domain"
)

// check returns the first invariant that a command broke. before is the ledger as it was.
func (l *Ledger) check(before Ledger, cmd domain.Command, fx domain.Effects) error {
	for _, err := range []error{
		l.checkRow(before, cmd),
		l.checkTransition(before, cmd, fx.Outcome),
		l.checkEvents(before),
		l.checkFolds(),
		l.checkCalls(before),
		l.checkCut(),
		l.checkRuns(before),
		l.checkWatermark(before, cmd),
		l.checkGhost(before, cmd, fx),
		l.checkVerified(),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) checkRow(before Ledger, cmd domain.Command) error {
	was, is := before.Row, l.Row
	_, claims := cmd.(domain.ClaimRun)
	switch {
	case is.Version != was.Version+1:
		return fmt.Errorf("version %d follows %d", is.Version, was.Version)
	case is.Epoch != was.Epoch && !(claims && is.Epoch == was.Epoch+1):
		return fmt.Errorf("epoch %d follows %d", is.Epoch, was.Epoch)
	case is.State == domain.SessionClosing && is.ActiveRun == "":
		return fmt.Errorf("closing without a run")
	case is.State == domain.SessionClosed && is.ActiveRun != "":
		return fmt.Errorf("closed with the active run %q", is.ActiveRun)
	case was.State == domain.SessionClosed && is.State != domain.SessionClosed:
		return fmt.Errorf("a closed session is %s", is.State)
	case is.State == domain.SessionClosing && l.Runs[is.ActiveRun].CancelSeq == nil:
		return fmt.Errorf("closing, and run %q is not cancelled", is.ActiveRun)
	case is.ActiveRun == "" && is.OpenCalls > 0:
		return fmt.Errorf("calls are open and no run will see to them")
	case is.StateOwner != domain.Native && is.ActiveRun != "":
		return fmt.Errorf("an external session has a run")
	}
	return nil
}

// checkEvents checks what was appended: seq, hash, time, key, and the lease that it was written under.
func (l *Ledger) checkEvents(before Ledger) error {
	head, hash, at := before.Row.HeadSeq, before.Row.HeadHash, before.Row.HeadAt
	for _, e := range l.Events[len(before.Events):] {
		spec, err := domain.LookupKind(e.Kind)
		if err != nil || spec.Reserved {
			return fmt.Errorf("seq %d has the kind %q", e.Seq, e.Kind)
		}
		owner, run := before.Row.Owner, before.Row.ActiveRun
		switch {
		case e.Seq != head+1:
			return fmt.Errorf("seq %d follows %d", e.Seq, head)
		case e.Hash != domain.NextHash(hash, e):
			return fmt.Errorf("seq %d breaks the hash chain", e.Seq)
		case e.CreatedAt.Before(at):
			return fmt.Errorf("seq %d is older than the one before", e.Seq)
		case (e.Key == "") != (spec.Key == domain.NoKey):
			return fmt.Errorf("seq %d, %s, has the key %q", e.Seq, e.Kind, e.Key)
		case e.Key != "" && slices.ContainsFunc(l.Events[:e.Seq-1], func(o domain.Event) bool { return o.Key == e.Key }):
			return fmt.Errorf("the key %q is there twice", e.Key)
		case spec.Class == domain.ClassOwner && (owner == "" || e.Epoch != before.Row.Epoch || e.RunID != run):
			return fmt.Errorf("seq %d was written by run %q, epoch %d, under the lease of %q, %q, %d",
				e.Seq, e.RunID, e.Epoch, owner, run, before.Row.Epoch)
		case spec.Class != domain.ClassOwner && e.Epoch != 0:
			return fmt.Errorf("seq %d, %s, has an epoch", e.Seq, e.Kind)
		}
		if err := checkDelivery(e, before); err != nil {
			return err
		}
		head, hash, at = e.Seq, e.Hash, e.CreatedAt
	}
	if l.Row.HeadSeq != head || l.Row.HeadHash != hash || len(l.Events) > 0 && !l.Row.HeadAt.Equal(at) {
		return fmt.Errorf("the row's head is not the last event")
	}
	return nil
}

// checkDelivery: a guide stays one only while an attempt runs that nobody cancelled, and a demoted one says so.
func checkDelivery(e domain.Event, before Ledger) error {
	if e.Kind != domain.UserMessage {
		return nil
	}
	in, err := domain.ParseInput(e.Payload)
	if err != nil {
		return err
	}
	run := before.Runs[before.Row.ActiveRun]
	guidable := run.Status == domain.StatusRunning && run.CancelSeq == nil
	switch {
	case in.Delivery == domain.Guide && (!guidable || in.Requested != ""):
		return fmt.Errorf("seq %d is a guide, and no attempt runs", e.Seq)
	case in.Requested != "" && (guidable || in.Requested != domain.Guide || in.Delivery != domain.Queue):
		return fmt.Errorf("seq %d was demoted for nothing", e.Seq)
	}
	return nil
}

// checkFolds compares the row, the incremental fold of all events and the oracle.
func (l *Ledger) checkFolds() error {
	want := Oracle(l.Events, 0)
	if err := SameFold(l.Row.Fold, want); err != nil {
		return fmt.Errorf("the row's fold is not the oracle's: %w", err)
	}
	folded, err := domain.FoldEvents(l.Events, 0)
	if err != nil {
		return fmt.Errorf("a committed ledger does not fold: %w", err)
	}
	if err := SameFold(folded, want); err != nil {
		return fmt.Errorf("the fold of the events is not the oracle's: %w", err)
	}
	return nil
}

// SameFold returns nil when got and want are the same fold, else what differs.
func SameFold(got, want domain.Fold) error {
	for _, list := range []struct {
		name      string
		got, want []domain.Seq
	}{
		{"unanswered", got.Unanswered, want.Unanswered},
		{"guides", got.Guides, want.Guides},
		{"turn_inputs", got.TurnInputs, want.TurnInputs},
	} {
		if !slices.Equal(list.got, list.want) {
			return fmt.Errorf("%s is %v, want %v", list.name, list.got, list.want)
		}
	}
	switch {
	case got.Owed != want.Owed:
		return fmt.Errorf("owed is %q, want %q", got.Owed, want.Owed)
	case got.OpenCalls != want.OpenCalls:
		return fmt.Errorf("open_calls is %d, want %d", got.OpenCalls, want.OpenCalls)
	case got.KeptSeq != want.KeptSeq:
		return fmt.Errorf("kept_seq is %d, want %d", got.KeptSeq, want.KeptSeq)
	case got.LegacyWatermark != want.LegacyWatermark:
		return fmt.Errorf("the legacy watermark is %d, want %d", got.LegacyWatermark, want.LegacyWatermark)
	}
	return nil
}

// checkCalls compares the rows of the tool calls with the events: each call once in the session, at most one result,
// no answer while calls are open, no second start.
func (l *Ledger) checkCalls(before Ledger) error {
	var want []domain.ToolCall
	open := 0
	for _, e := range l.Events {
		switch e.Kind {
		case domain.AssistantMessage:
			if open > 0 {
				return fmt.Errorf("seq %d is an answer between calls and their results", e.Seq)
			}
			if a := readSaid(e); a.completed() {
				for i, id := range a.calls {
					want = append(want, domain.ToolCall{ID: id, AssistantSeq: e.Seq, Ordinal: i})
					open++
				}
			}
		case domain.ToolResult:
			i := slices.IndexFunc(want, func(c domain.ToolCall) bool { return c.ID == readSaid(e).toolCallID })
			if i < 0 || !want[i].Open() {
				return fmt.Errorf("seq %d is the result of no open call", e.Seq)
			}
			want[i].ResultSeq = e.Seq
			open--
		}
	}
	if len(want) != len(l.Calls) {
		return fmt.Errorf("%d rows of %d calls", len(l.Calls), len(want))
	}
	for i, c := range l.Calls {
		w := want[i]
		if c.ID != w.ID || c.AssistantSeq != w.AssistantSeq || c.Ordinal != w.Ordinal || c.ResultSeq != w.ResultSeq {
			return fmt.Errorf("call row %d is %+v, want %+v", i, c, w)
		}
		if slices.ContainsFunc(want[:i], func(o domain.ToolCall) bool { return o.ID == c.ID }) {
			return fmt.Errorf("call %q was made twice", c.ID)
		}
		if i < len(before.Calls) {
			was := before.Calls[i].StartedEpoch
			if was != nil && (c.StartedEpoch == nil || *c.StartedEpoch != *was) {
				return fmt.Errorf("call %q was started before", c.ID)
			}
		}
	}
	return nil
}

// checkCut: a compaction drops no input that waits, and parts no call from its result.
func (l *Ledger) checkCut() error {
	kept := l.Row.KeptSeq
	for _, seq := range slices.Concat(l.Row.Unanswered, l.Row.TurnInputs) {
		if seq < kept {
			return fmt.Errorf("the compaction at %d drops the input %d", kept, seq)
		}
	}
	for _, c := range l.Calls {
		if c.AssistantSeq < kept && (c.Open() || c.ResultSeq >= kept) {
			return fmt.Errorf("the compaction at %d parts call %q from its result", kept, c.ID)
		}
	}
	return nil
}

// checkVerified: whatever happened to a session, keel verify finds no fault in it.
func (l *Ledger) checkVerified() error {
	if faults := l.Verify(); len(faults) > 0 {
		return fmt.Errorf("the verifier finds %v", faults)
	}
	return nil
}

// Verify returns what a domain.Verifier finds in l.
func (l *Ledger) Verify() []domain.Fault {
	v := domain.NewVerifier(l.Row)
	for _, id := range slices.Sorted(maps.Keys(l.Runs)) {
		v.Run(l.Runs[id])
	}
	last := domain.Seq(0)
	for _, e := range l.Events {
		if last = e.Seq; e.Seq <= l.Row.HeadSeq {
			v.Apply(e)
		}
	}
	return v.Finish(last, l.Calls)
}
