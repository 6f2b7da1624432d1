package domain

import "slices"

// Owed says what the ledger's last answer still wants.
type Owed string

// The values of Owed. OwedCalls: the latest answer made tool calls, so their results await the model. OwedFailure: the
// latest answer is a terminal failure.
const (
	OwedNone    Owed = "none"
	OwedCalls   Owed = "calls"
	OwedFailure Owed = "failure"
)

// Fold is what a session's row keeps of its ledger: which inputs wait, what is owed (protocol.md §5). It is a function
// of the events alone; Apply computes it event by event at a cost that does not grow with the ledger.
type Fold struct {
	Unanswered []Seq // inputs that no completed answer lists, ascending
	Guides     []Seq // those of them that were stored as guide
	TurnInputs []Seq // inputs that the current turn's answers listed
	Owed       Owed
	OpenCalls  int // committed calls without a result
	KeptSeq    Seq // events before it are summarised; 0 when nothing was compacted

	// LegacyWatermark serves ledgers written before inputSeqs: up to the first answer that lists any, an input counts
	// as answered when its seq is not above it. It is 0 for every ledger that began with inputSeqs.
	LegacyWatermark Seq
}

// Clone returns a copy that shares no memory with f.
func (f *Fold) Clone() Fold {
	c := *f
	c.Unanswered = slices.Clone(f.Unanswered)
	c.Guides = slices.Clone(f.Guides)
	c.TurnInputs = slices.Clone(f.TurnInputs)
	return c
}

// FoldEvents returns the fold of a whole ledger. watermark is the run rows' read watermark of a ledger that was
// written before inputSeqs, else 0.
func FoldEvents(events []Event, watermark Seq) (Fold, error) {
	f := Fold{Owed: OwedNone, LegacyWatermark: watermark}
	for _, e := range events {
		if err := f.Apply(e); err != nil {
			return f, err
		}
	}
	return f, nil
}

// Apply adds one committed event. It returns ErrInvalidPayload when the payload lacks its kind's shape.
func (f *Fold) Apply(e Event) error {
	said, err := parseFact(e.Kind, e.Payload)
	if err != nil {
		return err
	}
	f.add(e.Seq, e.Kind, said)
	return nil
}

// add adds an event whose payload was parsed already.
func (f *Fold) add(seq Seq, k Kind, said fact) {
	switch k {
	case UserMessage:
		f.addInput(seq, said.input.Delivery == Guide)
	case AssistantMessage:
		f.addAnswer(said.answer)
	case ToolResult:
		f.OpenCalls--
	case Compaction:
		f.KeptSeq = said.compacted.FirstKept
	case RunFinished:
		f.addFinished(said.status)
	}
}

func (f *Fold) addInput(seq Seq, guide bool) {
	if seq <= f.LegacyWatermark {
		return
	}
	f.Unanswered = append(f.Unanswered, seq)
	if guide {
		f.Guides = append(f.Guides, seq)
	}
}

func (f *Fold) addAnswer(m Assistant) {
	if m.HasInputSeqs {
		f.LegacyWatermark = 0
	}
	if !m.StopReason.Completed() {
		f.Owed = OwedFailure
		return
	}
	f.Unanswered = without(f.Unanswered, m.InputSeqs)
	f.Guides = without(f.Guides, m.InputSeqs)
	if n := len(m.CallIDs()); n > 0 {
		f.Owed, f.OpenCalls, f.TurnInputs = OwedCalls, f.OpenCalls+n, slices.Clone(m.InputSeqs)
		return
	}
	f.Owed, f.TurnInputs = OwedNone, nil
}

func (f *Fold) addFinished(status string) {
	if status != finishedFailed {
		f.TurnInputs = nil
	}
}

// Presented is what a request presents of the current turn.
type Presented struct {
	Seqs  []Seq // ascending: what the answer will list as inputSeqs
	Guide Seq   // the guide that this boundary injects, 0 when none
}

// Present takes the snapshot of a request boundary (protocol.md §4, PrepareRequest): the unanswered inputs up to the
// turn's boundary, those that the turn's answers already listed, the guides injected before, and at most one more
// guide, the oldest.
func (f *Fold) Present(claimSeq Seq, injected []Seq) Presented {
	var p Presented
	for _, g := range f.Guides {
		if g > claimSeq && !slices.Contains(injected, g) {
			p.Guide = g
			break
		}
	}
	p.Seqs = slices.Clone(f.TurnInputs)
	for _, s := range f.Unanswered {
		if s <= claimSeq || s == p.Guide || slices.Contains(injected, s) {
			p.Seqs = append(p.Seqs, s)
		}
	}
	slices.Sort(p.Seqs)
	p.Seqs = slices.Compact(p.Seqs)
	return p
}

// Idle reports whether a request that presents p would have nothing to say: no unanswered input and nothing owed.
func (f *Fold) Idle(p Presented) bool {
	if f.Owed != OwedNone {
		return false
	}
	return !slices.ContainsFunc(p.Seqs, func(s Seq) bool { return slices.Contains(f.Unanswered, s) })
}

func without(from, drop []Seq) []Seq {
	if len(drop) == 0 {
		return from
	}
	kept := make([]Seq, 0, len(from))
	for _, s := range from {
		if _, found := slices.BinarySearch(drop, s); !found {
			kept = append(kept, s)
		}
	}
	return kept
}
