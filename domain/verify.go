package domain

import (
	"fmt"
	"slices"
)

// Verifier recomputes from a session's events what its rows keep of them: the folds, the tool calls, the head and the
// hash chain. It reads the ledger event by event, so its memory grows with the number of tool calls alone.
type Verifier struct {
	fold   Fold
	head   Event
	calls  map[string]ToolCall
	faults []Fault
}

// Fault is a difference between a ledger and the rows that project it, or a break in the ledger itself.
type Fault struct {
	Seq    Seq    // the event at fault, 0 when a row is
	Field  string // for instance unanswered, tool_calls, hash
	Detail string
}

func (f Fault) String() string {
	if f.Seq == 0 {
		return f.Field + ": " + f.Detail
	}
	return fmt.Sprintf("event %d: %s: %s", f.Seq, f.Field, f.Detail)
}

// NewVerifier returns a Verifier of an empty ledger. watermark is the read watermark of a ledger that was written
// before inputSeqs, else 0.
func NewVerifier(watermark Seq) *Verifier {
	return &Verifier{fold: Fold{Owed: OwedNone, LegacyWatermark: watermark}, calls: map[string]ToolCall{}}
}

// Apply reads the next event.
func (v *Verifier) Apply(e Event) {
	if e.Seq != v.head.Seq+1 {
		v.fault(e.Seq, "seq", "follows %d", v.head.Seq)
	}
	if want := NextHash(v.head.Hash, e); e.Hash != want {
		v.fault(e.Seq, "hash", "is %x, the events give %x", e.Hash[:8], want[:8])
	}
	if e.CreatedAt.Before(v.head.CreatedAt) {
		v.fault(e.Seq, "created_at", "lies before that of event %d", v.head.Seq)
	}
	if err := v.fold.Apply(e); err != nil {
		v.fault(e.Seq, "payload", "%v", err)
	}
	v.project(e)
	v.head = e
}

// project keeps the tool call rows up to date, as Decide does.
func (v *Verifier) project(e Event) {
	switch e.Kind {
	case AssistantMessage:
		m, err := ParseAssistant(e.Payload)
		if err != nil || !m.StopReason.Completed() {
			return
		}
		ordinal := 0
		for _, b := range m.Content {
			if b.Type != CallBlock {
				continue
			}
			if _, used := v.calls[b.ID]; used {
				v.fault(e.Seq, "tool_calls", "the id %s was used before", quoteJSON(b.ID))
			}
			v.calls[b.ID] = ToolCall{ID: b.ID, AssistantSeq: e.Seq, Ordinal: ordinal, Name: b.Name}
			ordinal++
		}
	case ToolResult:
		out, err := ParseToolOutput(e.Payload)
		if err != nil {
			return
		}
		call, ok := v.calls[out.ToolCallID]
		if !ok || !call.Open() {
			v.fault(e.Seq, "tool_calls", "no open call %s", quoteJSON(out.ToolCallID))
			return
		}
		call.ResultSeq = e.Seq
		v.calls[call.ID] = call
	}
}

// Finish compares with the session's row and its tool call rows, and returns all that differs.
func (v *Verifier) Finish(s Session, calls []ToolCall) []Fault {
	compare(v, "head_seq", v.head.Seq, s.HeadSeq)
	compare(v, "head_hash", fmt.Sprintf("%x", v.head.Hash), fmt.Sprintf("%x", s.HeadHash))
	compare(v, "owed", v.fold.Owed, s.Owed)
	compare(v, "open_calls", v.fold.OpenCalls, s.OpenCalls)
	compare(v, "kept_seq", v.fold.KeptSeq, s.KeptSeq)
	v.compareSeqs("unanswered", v.fold.Unanswered, s.Unanswered)
	v.compareSeqs("guides", v.fold.Guides, s.Guides)
	v.compareSeqs("turn_inputs", v.fold.TurnInputs, s.TurnInputs)
	for _, row := range calls {
		want, ok := v.calls[row.ID]
		row.StartedEpoch = nil // no event tells
		if !ok {
			v.fault(0, "tool_calls", "row %s has no call in the ledger", quoteJSON(row.ID))
		} else {
			compare(v, "tool_calls "+quoteJSON(row.ID), want, row)
		}
		delete(v.calls, row.ID)
	}
	for id := range v.calls {
		v.fault(0, "tool_calls", "the row of %s is missing", quoteJSON(id))
	}
	return v.faults
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
