package domain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Verifier recomputes from a session's events what its rows keep of them, and checks what the rows can be checked for
// beside: the folds, the tool calls, the head, the hash chain, the keys, the leases that events were written under, and
// how runs began and ended. Its input comes in this order: the session's row, Run for each run row, Apply for each event,
// Finish. It reads the ledger event by event: its memory grows with the number of tool calls and runs, some hundred
// bytes for each.
type Verifier struct {
	s      Session
	fold   Fold
	head   Event
	calls  map[string]callFacts
	lease  lease
	queued Seq // the highest input that the event's answer lists as the first one of its turn, guides apart
	runs   map[string]*runFacts
	lasts  map[int64]string // the run by its last epoch
	active []string         // the runs that are pending or running
	misfit Event            // the first whose kind has no place in such a session
	faults []Fault
}

// Fault is a difference between a ledger and the rows that project it, or a break in the ledger itself.
type Fault struct {
	Seq    Seq    // the event at fault, 0 when a row is
	Field  string // for instance unanswered, tool_calls, hash, runs.status
	Detail string
}

func (f Fault) String() string {
	if f.Seq == 0 {
		return f.Field + ": " + f.Detail
	}
	return fmt.Sprintf("event %d: %s: %s", f.Seq, f.Field, f.Detail)
}

// callFacts is a tool call as the events tell it, with the epochs of its message and of its result.
type callFacts struct {
	ToolCall
	called, answered int64
}

// lease is what the events of one attempt share.
type lease struct {
	epoch int64
	run   string
	over  bool // run.finished was its last event
}

// NewVerifier returns a Verifier of the session with the row s.
func NewVerifier(s Session) *Verifier {
	v := &Verifier{
		s: s, fold: Fold{Owed: OwedNone, LegacyWatermark: s.LegacyWatermark},
		calls: map[string]callFacts{}, runs: map[string]*runFacts{}, lasts: map[int64]string{},
	}
	if s.ForkedFrom == nil { // the events of a fork are older than its row
		v.head.CreatedAt = s.CreatedAt
	}
	return v
}

// copied reports whether an event was copied from another ledger: its lease is not of this one.
func (v *Verifier) copied(seq Seq) bool { return v.s.ForkedFrom != nil && seq <= v.s.ForkedFrom.Seq }

// Apply reads the next event.
func (v *Verifier) Apply(e Event) {
	if e.Seq != v.head.Seq+1 {
		v.fault(e.Seq, "seq", "follows %d", v.head.Seq)
	}
	if want := NextHash(v.head.Hash, e); e.Hash != want {
		v.fault(e.Seq, "hash", "is %x, the events give %x", e.Hash[:8], want[:8])
	}
	if e.CreatedAt.Before(v.head.CreatedAt) {
		v.fault(e.Seq, "created_at", "lies before %v, that of %s", v.head.CreatedAt, before(v.head))
	}
	said, err := parseFact(e.Kind, e.Payload)
	if err != nil {
		v.fault(e.Seq, "payload", "%v", err)
	} else {
		v.queued = v.fold.queued(said.answer)
		v.fold.add(e.Seq, e.Kind, said)
		v.project(e, said)
	}
	if spec, unknown := LookupKind(e.Kind); unknown != nil || spec.Reserved {
		v.fault(e.Seq, "kind", "nothing writes %s", quoteJSON(string(e.Kind)))
	} else {
		v.checkKey(e, spec.Key, said)
		v.checkLease(e, spec.Class, said)
	}
	v.head = e
}

func before(e Event) string {
	if e.Seq == 0 {
		return "the session"
	}
	return fmt.Sprintf("event %d", e.Seq)
}

// project keeps the tool call rows up to date, as Decide does.
func (v *Verifier) project(e Event, said fact) {
	switch e.Kind {
	case AssistantMessage:
		if !said.answer.StopReason.Completed() {
			return
		}
		ordinal := 0
		for _, b := range said.answer.Content {
			if b.Type != CallBlock {
				continue
			}
			if _, used := v.calls[b.ID]; used {
				v.fault(e.Seq, "tool_calls", "the id %s was used before", quoteJSON(b.ID))
			}
			call := ToolCall{ID: strings.Clone(b.ID), AssistantSeq: e.Seq, Ordinal: ordinal, Name: strings.Clone(b.Name)}
			v.calls[call.ID] = callFacts{ToolCall: call, called: e.Epoch}
			ordinal++
		}
	case ToolResult:
		call, ok := v.calls[said.output.ToolCallID]
		if !ok || !call.Open() {
			v.fault(e.Seq, "tool_calls", "no open call %s", quoteJSON(said.output.ToolCallID))
			return
		}
		call.ResultSeq, call.answered = e.Seq, e.Epoch
		v.calls[call.ID] = call
	}
}

// checkKey compares the key with what the payload says of it. Not every payload does.
func (v *Verifier) checkKey(e Event, name KeyName, said fact) {
	if name == NoKey {
		if e.Key != "" {
			v.fault(e.Seq, "dedupe_key", "is %s, its kind has none", quoteJSON(e.Key))
		}
		return
	}
	declared := ""
	switch e.Kind {
	case UserMessage:
		declared = said.input.RequestID
	case AssistantMessage:
		declared = said.answer.GenerationID
	case ToolResult:
		declared = said.output.ToolCallID
	case ExternalEvent:
		declared, _ = parseExternal(e.Payload)
	}
	id, ok := strings.CutPrefix(e.Key, string(name)+":")
	if !ok || CheckID(id) != nil {
		v.fault(e.Seq, "dedupe_key", "is %s, which is no %s", quoteJSON(e.Key), name)
	} else if declared != "" && declared != id {
		v.fault(e.Seq, "dedupe_key", "is %s, the payload says %s", quoteJSON(e.Key), quoteJSON(declared))
	}
}

// checkLease checks what the store keeps beside an event: the run that it belongs to and the attempt that wrote it.
func (v *Verifier) checkLease(e Event, class Class, said fact) {
	if v.misfit.Seq == 0 && (class == ClassExternal) != (v.s.StateOwner == External) {
		v.misfit = e
	}
	if v.copied(e.Seq) {
		return
	}
	if (class == ClassExternal) != (e.RunID == "") {
		v.fault(e.Seq, "run_id", "is %s for a %s", quoteJSON(e.RunID), e.Kind)
	}
	if (class == ClassOwner) != (e.Epoch > 0) {
		v.fault(e.Seq, "epoch", "is %d for a %s", e.Epoch, e.Kind)
	}
	if e.RunID != "" {
		v.facts(e).note(v, e, class, said)
	}
	if class == ClassOwner {
		v.checkEpoch(e)
	}
}

func (v *Verifier) checkEpoch(e Event) {
	switch last := v.lease; {
	case e.Epoch < last.epoch:
		v.fault(e.Seq, "epoch", "is %d, an earlier event's is %d", e.Epoch, last.epoch)
	case e.Epoch == last.epoch && e.RunID != last.run:
		v.fault(e.Seq, "run_id", "is %s, that of its epoch is %s", quoteJSON(e.RunID), quoteJSON(last.run))
	case e.Epoch == last.epoch && last.over:
		v.fault(e.Seq, "epoch", "is %d, whose attempt had ended", e.Epoch)
	case e.Epoch > v.s.Epoch:
		v.fault(e.Seq, "epoch", "is %d, the session's is %d", e.Epoch, v.s.Epoch)
	}
	if run, ok := v.lasts[e.Epoch]; ok && run != e.RunID {
		v.fault(e.Seq, "run_id", "is %s, that of its epoch is %s", quoteJSON(e.RunID), quoteJSON(run))
	}
	if e.Epoch >= v.lease.epoch {
		v.lease = lease{epoch: e.Epoch, run: e.RunID, over: e.Kind == RunFinished}
	}
}

// Finish compares with the rows and returns all that differs. last is the highest seq among the session's events, which
// may lie beyond its head, and calls are its tool call rows.
func (v *Verifier) Finish(last Seq, calls []ToolCall) []Fault {
	s := v.s
	compare(v, "head_seq", v.head.Seq, s.HeadSeq)
	if last > s.HeadSeq {
		v.fault(0, "head_seq", "the row says %d, but there are events up to %d", s.HeadSeq, last)
	}
	compare(v, "head_hash", fmt.Sprintf("%x", v.head.Hash), fmt.Sprintf("%x", s.HeadHash))
	if !s.HeadAt.Equal(v.head.CreatedAt) {
		v.fault(0, "head_at", "the row says %v, the events give %v", s.HeadAt, v.head.CreatedAt)
	}
	compare(v, "owed", v.fold.Owed, s.Owed)
	compare(v, "open_calls", v.fold.OpenCalls, s.OpenCalls)
	compare(v, "kept_seq", v.fold.KeptSeq, s.KeptSeq)
	compare(v, "legacy_watermark", v.fold.LegacyWatermark, s.LegacyWatermark)
	v.compareSeqs("unanswered", v.fold.Unanswered, s.Unanswered)
	v.compareSeqs("guides", v.fold.Guides, s.Guides)
	v.compareSeqs("turn_inputs", v.fold.TurnInputs, s.TurnInputs)
	v.finishCalls(calls)
	v.finishRuns()
	v.finishSession()
	return v.faults
}

func (v *Verifier) finishCalls(calls []ToolCall) {
	for _, row := range calls {
		want, ok := v.calls[row.ID]
		started := row.StartedEpoch
		row.StartedEpoch = nil
		if !ok {
			v.fault(0, "tool_calls", "row %s has no call in the ledger", quoteJSON(row.ID))
		} else {
			if row != want.ToolCall {
				compare(v, "tool_calls "+quoteJSON(row.ID), columns(want.ToolCall), columns(row))
			}
			v.checkStart(want, started)
		}
		delete(v.calls, row.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(v.calls)) {
		v.fault(0, "tool_calls", "the row of %s is missing", quoteJSON(id))
	}
}

// columns names what a row of a call has to say, for people.
func columns(c ToolCall) string {
	return fmt.Sprintf("assistant_seq %d, ordinal %d, name %q, result_seq %d", c.AssistantSeq, c.Ordinal, c.Name, c.ResultSeq)
}

// checkStart checks the attempt that started a call: none before the call's own, none after that of its result.
func (v *Verifier) checkStart(call callFacts, started *int64) {
	if started == nil || v.copied(call.AssistantSeq) {
		return
	}
	last := v.s.Epoch
	if !call.Open() {
		last = call.answered
	}
	if *started < call.called || *started > last {
		v.fault(0, "tool_calls "+quoteJSON(call.ID), "started_epoch is %d, the events give %d to %d", *started, call.called, last)
	}
}

func (v *Verifier) fault(seq Seq, field, format string, args ...any) {
	v.faults = append(v.faults, Fault{Seq: seq, Field: field, Detail: fmt.Sprintf(format, args...)})
}

func (v *Verifier) compareSeqs(field string, want, got []Seq) {
	if !slices.Equal(want, got) {
		v.fault(0, field, "the row says %v, the events give %v", got, want)
	}
}

func compare[T comparable](v *Verifier, field string, want, got T) {
	if want != got {
		v.fault(0, field, "the row says %v, the events give %v", got, want)
	}
}
