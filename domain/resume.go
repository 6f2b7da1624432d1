package domain

import (
	"iter"
	"slices"
)

// Resumption builds the transcript of a compacted ledger without what was summarised: from the fold of the session's
// row, the events from its KeptSeq to its head, and the few earlier inputs that were first presented after that. The
// transcript equals the one that Apply builds from the whole ledger, now and after every further event.
type Resumption struct {
	fold  Fold
	facts []seqFact
}

type seqFact struct {
	seq  Seq
	kind Kind
	said fact
}

// Resume begins a Resumption. f is a session's fold, with a compaction.
func Resume(f Fold) *Resumption { return &Resumption{fold: f.Clone()} }

// Head returns the seq after which Add goes on.
func (r *Resumption) Head() Seq { return r.fold.KeptSeq - 1 + Seq(len(r.facts)) }

// Add adds the next event. It returns ErrInvalidPayload when a payload lacks its kind's shape, which no committed
// payload does.
func (r *Resumption) Add(e Event) error {
	said, err := parseFact(e.Kind, e.Payload)
	if err != nil {
		return err
	}
	r.facts = append(r.facts, seqFact{e.Seq, e.Kind, said})
	return nil
}

// Late returns the inputs from before KeptSeq that stay in the transcript, ascending: those that stand behind the cut.
func (r *Resumption) Late() []Seq {
	var late []Seq
	seen := map[Seq]bool{}
	cut := r.fold.KeptSeq
	for m := range r.answers() {
		for _, s := range BehindCut(cut, m.InputSeqs) {
			if s < r.fold.KeptSeq && !seen[s] {
				late = append(late, s)
			}
		}
		for _, s := range m.InputSeqs {
			seen[s] = true
		}
		cut = 0
	}
	slices.Sort(late)
	return late
}

// BehindCut returns which of the inputs that an answer lists, ascending, stand in a transcript that begins at a cut. cut is
// the first seq that is kept for the first completed answer behind it, and 0 for all others: what the first one lists from
// before the cut stands before all that was kept, or was presented earlier still; an input that a later answer is the first
// to list stands before that one, wherever it was committed.
func BehindCut(cut Seq, inputs []Seq) []Seq {
	i, _ := slices.BinarySearch(inputs, cut)
	return inputs[i:]
}

// Transcript returns the transcript as of the row's head, up to which all events were added. late are the events of
// Late.
func (r *Resumption) Transcript(late []Event) (*Transcript, error) {
	t := NewTranscript()
	t.LegacyWatermark = r.watermark()
	for _, e := range late {
		if err := t.Apply(e); err != nil {
			return nil, err
		}
	}
	for _, f := range r.facts {
		t.apply(f.seq, f.kind, f.said)
	}
	t.Fold = r.fold.Clone()
	return t, nil
}

// watermark returns what is equivalent to the legacy watermark that was in force at KeptSeq, which the row may have lost
// since: the highest input that counts as answered though no answer lists it.
func (r *Resumption) watermark() Seq {
	open := map[Seq]bool{}
	for _, s := range r.fold.Unanswered {
		open[s] = true
	}
	for m := range r.answers() {
		for _, s := range m.InputSeqs {
			open[s] = true
		}
	}
	for _, f := range slices.Backward(r.facts) {
		if f.kind == UserMessage && !open[f.seq] {
			return f.seq
		}
	}
	return 0
}

// answers are the completed ones, in seq order.
func (r *Resumption) answers() iter.Seq[*Assistant] {
	return func(yield func(*Assistant) bool) {
		for i := range r.facts {
			f := &r.facts[i]
			if f.kind == AssistantMessage && f.said.answer.StopReason.Completed() && !yield(&f.said.answer) {
				return
			}
		}
	}
}
