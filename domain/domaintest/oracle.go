package domaintest

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/keel-agent/keel/domain"
)

// Oracle recomputes the fold of a whole ledger, each part by a search of its own over all events and with readers of
// its own, as literally after protocol.md §5 as possible. It shares no code with domain.Fold. watermark is the read
// watermark of a ledger that was written before inputSeqs, else 0. Payloads must have the shape of their kind.
func Oracle(events []domain.Event, watermark domain.Seq) domain.Fold {
	o := oracle{watermark: watermark}
	for _, e := range events {
		o.said = append(o.said, readSaid(e))
	}
	f := domain.Fold{
		TurnInputs: o.turnInputs(),
		Owed:       o.owed(),
		OpenCalls:  o.openCalls(),
		KeptSeq:    o.keptSeq(),
	}
	for _, e := range o.said {
		if e.kind != domain.UserMessage || o.answered(e.seq) {
			continue
		}
		f.Unanswered = append(f.Unanswered, e.seq)
		if e.delivery == "guide" {
			f.Guides = append(f.Guides, e.seq)
		}
	}
	if watermark > 0 && o.firstWithInputSeqs() == 0 {
		f.LegacyWatermark = watermark
	}
	return f
}

type oracle struct {
	said      []said
	watermark domain.Seq
}

// answered: "An input is answered when some completed assistant message lists it"; "before the first assistant message
// that carries inputSeqs, an input counts as answered when its seq ≤ the watermark; from then on inputSeqs alone
// decides".
func (o oracle) answered(input domain.Seq) bool {
	first := o.firstWithInputSeqs()
	if (first == 0 || input < first) && input <= o.watermark {
		return true
	}
	return slices.ContainsFunc(o.said, func(e said) bool {
		return e.kind == domain.AssistantMessage && e.completed() && slices.Contains(e.inputSeqs, input)
	})
}

func (o oracle) firstWithInputSeqs() domain.Seq {
	for _, e := range o.said {
		if e.kind == domain.AssistantMessage && e.inputSeqs != nil {
			return e.seq
		}
	}
	return 0
}

// owed: "true when the latest assistant message is a terminal failure, or when it carries tool calls".
func (o oracle) owed() domain.Owed {
	for _, e := range slices.Backward(o.said) {
		if e.kind != domain.AssistantMessage {
			continue
		}
		switch {
		case !e.completed():
			return domain.OwedFailure
		case len(e.calls) > 0:
			return domain.OwedCalls
		default:
			return domain.OwedNone
		}
	}
	return domain.OwedNone
}

// turnInputs: what "an earlier answer of the same turn (one with tool calls) already listed". A turn ends with an answer
// without calls, and with a settlement that is no failure.
func (o oracle) turnInputs() []domain.Seq {
	for _, e := range slices.Backward(o.said) {
		switch {
		case e.kind == domain.RunFinished && e.status != "failed":
			return nil
		case e.kind == domain.AssistantMessage && e.completed() && len(e.calls) == 0:
			return nil
		case e.kind == domain.AssistantMessage && e.completed():
			return e.inputSeqs
		}
	}
	return nil
}

// openCalls counts the calls of completed answers that no tool.result names.
func (o oracle) openCalls() int {
	open := 0
	for _, e := range o.said {
		if e.kind != domain.AssistantMessage || !e.completed() {
			continue
		}
		for _, id := range e.calls {
			if !slices.ContainsFunc(o.said, func(r said) bool { return r.kind == domain.ToolResult && r.toolCallID == id }) {
				open++
			}
		}
	}
	return open
}

// keptSeq is the firstKeptSeq of the latest compaction.
func (o oracle) keptSeq() domain.Seq {
	for _, e := range slices.Backward(o.said) {
		if e.kind == domain.Compaction {
			return e.firstKeptSeq
		}
	}
	return 0
}

// said is what the folds depend on in one event.
type said struct {
	seq          domain.Seq
	kind         domain.Kind
	delivery     string       // user.message
	stopReason   string       // assistant.message
	inputSeqs    []domain.Seq // nil when there are none, empty when there is an empty list
	calls        []string     // ids
	toolCallID   string       // tool.result
	status       string       // run.finished
	firstKeptSeq domain.Seq   // compaction
}

func (s said) completed() bool { return s.stopReason != "error" && s.stopReason != "aborted" }

// readSaid matches the names of members exactly, unlike encoding/json does it for structs.
func readSaid(e domain.Event) said {
	s := said{seq: e.Seq, kind: e.Kind}
	var members map[string]json.RawMessage
	var content []struct{ Type, ID string }
	decode(e, e.Payload.Bytes(), &members)
	for name, to := range map[string]any{
		"delivery": &s.delivery, "stopReason": &s.stopReason, "inputSeqs": &s.inputSeqs, "toolCallId": &s.toolCallID,
		"status": &s.status, "firstKeptSeq": &s.firstKeptSeq,
	} {
		if raw, ok := members[name]; ok {
			decode(e, raw, to)
		}
	}
	if raw, ok := members["content"]; ok && e.Kind == domain.AssistantMessage {
		decode(e, raw, &content)
	}
	for _, b := range content {
		if b.Type == "toolCall" {
			s.calls = append(s.calls, b.ID)
		}
	}
	return s
}

func decode(e domain.Event, raw []byte, to any) {
	if err := json.Unmarshal(raw, to); err != nil {
		panic(fmt.Sprintf("domaintest: seq %d: %v", e.Seq, err))
	}
}
