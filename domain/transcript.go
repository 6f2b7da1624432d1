package domain

import (
	"slices"
)

// Transcript is the projection of a ledger that models and people read. It is built event by event; the cost of one
// more event does not grow with the ledger (protocol.md §5).
//
// An input stands where it was first presented, not where it was committed: just before the first completed answer
// that lists it. So a message that arrived among tool results never comes between a call and its result, and what one
// request showed stays a prefix of what the next one shows.
type Transcript struct {
	Fold
	head    Seq
	entries []heldEntry
	waiting []waitingInput // inputs not placed yet, ascending
	turn    map[Seq]*turnInput
	rounds  int                  // assistant messages of the current turn that entries holds, failed ones too
	calls   map[string]callPlace // open calls
	held    int                  // events in entries

	audience string // the model that requests are made of (ShowTo)

	tokens   int // estimated, of entries
	images   int // bytes of those that entries show
	measured Measure

	base    modelContext // what entries[:settled] say to a model; they change no more
	settled int
}

// Entry is one thing in a transcript: an input, an answer with the results of its calls, or a summary.
type Entry struct {
	Seq     Seq
	Input   *Input
	Answer  *Assistant
	Results []*ToolOutput // one per call of Answer, in call order; nil while open
	Summary string
}

// heldEntry is an entry and how it is held.
type heldEntry struct {
	Entry
	last     Seq    // of its events
	noImages string // what models are shown in the place of its images, "" while they are shown
	brief    bool   // models are not shown long outputs any more
}

func held(e Entry) heldEntry { return heldEntry{Entry: e, last: e.Seq} }

type waitingInput struct {
	seq      Seq
	in       Input
	noImages string // as of an entry
}

// turnInput is what is remembered of an input until the turn that answers it is over.
type turnInput struct {
	selection string
	retryOf   Seq
	answers   int // assistant messages that listed it, failed ones too
}

type callPlace struct{ entry, ordinal int }

// NewTranscript returns the transcript of an empty ledger.
func NewTranscript() *Transcript {
	return &Transcript{
		Fold: Fold{Owed: OwedNone}, turn: map[Seq]*turnInput{}, calls: map[string]callPlace{},
	}
}

// Head returns the seq of the last event applied.
func (t *Transcript) Head() Seq { return t.head }

// Held returns how many events it holds the content of: those that no compaction summarised.
func (t *Transcript) Held() int { return t.held + len(t.waiting) }

// Apply adds the next event. Events come in seq order. It returns ErrInvalidPayload when a payload lacks its kind's
// shape, which no committed payload does.
func (t *Transcript) Apply(e Event) error {
	said, err := parseFact(e.Kind, e.Payload)
	if err != nil {
		return err
	}
	t.apply(e.Seq, e.Kind, said)
	return nil
}

// apply adds an event whose payload was parsed already.
func (t *Transcript) apply(seq Seq, k Kind, said fact) {
	legacy := t.LegacyWatermark
	t.Fold.add(seq, k, said)
	t.head = seq
	switch k {
	case UserMessage:
		t.waiting = append(t.waiting, waitingInput{seq: seq, in: said.input})
		t.turn[seq] = &turnInput{selection: said.input.Selection, retryOf: said.input.RetryOf}
	case AssistantMessage:
		t.answer(seq, said.answer, legacy)
	case ToolResult:
		t.result(seq, said.output)
	case Compaction:
		t.compact(said.compacted.Summary)
	case RunFinished:
		if said.status != finishedFailed {
			t.rounds = 0
		}
		t.forget()
	}
}

func (t *Transcript) answer(seq Seq, m Assistant, legacy Seq) {
	t.rounds++
	for _, s := range m.InputSeqs {
		if in := t.turn[s]; in != nil {
			in.answers++
		}
	}
	if m.StopReason.Completed() {
		t.add(t.take(append(t.waitingUpTo(legacy), m.InputSeqs...))...)
		if m.Usage != nil && m.Usage.Input > 0 {
			t.measured = Measure{Estimated: t.tokens, Counted: int(m.Usage.Input)}
		}
	}
	at := len(t.entries)
	entry := held(Entry{Seq: seq, Answer: &m})
	if m.StopReason.Completed() {
		ids := m.CallIDs()
		entry.Results = make([]*ToolOutput, len(ids))
		clear(t.calls)
		for i, id := range ids {
			t.calls[id] = callPlace{at, i}
		}
	}
	t.add(entry)
	t.forget()
}

// add appends entries, each of one event.
func (t *Transcript) add(entries ...heldEntry) {
	t.entries = append(t.entries, entries...)
	t.held += len(entries)
	for i := range entries {
		t.weigh(&entries[i], 1)
	}
}

func (t *Transcript) waitingUpTo(seq Seq) []Seq {
	var seqs []Seq
	for _, w := range t.waiting {
		if w.seq <= seq {
			seqs = append(seqs, w.seq)
		}
	}
	return seqs
}

// take removes the listed inputs from those that wait and returns them as entries. An input that a later one of them
// names in retryOf is shown through that one alone.
func (t *Transcript) take(listed []Seq) []heldEntry {
	entries := t.presented(listed)
	t.waiting = slices.DeleteFunc(t.waiting, func(w waitingInput) bool { return slices.Contains(listed, w.seq) })
	return entries
}

func (t *Transcript) presented(listed []Seq) []heldEntry {
	var entries []heldEntry
	var replaced []Seq
	for i := range t.waiting {
		if w := &t.waiting[i]; slices.Contains(listed, w.seq) {
			in := w.in
			e := held(Entry{Seq: w.seq, Input: &in})
			e.noImages = w.noImages
			entries = append(entries, e)
			if in.RetryOf > 0 && in.RetryOf < w.seq {
				replaced = append(replaced, in.RetryOf)
			}
		}
	}
	return slices.DeleteFunc(entries, func(e heldEntry) bool { return slices.Contains(replaced, e.Seq) })
}

func (t *Transcript) result(seq Seq, out ToolOutput) {
	if p, ok := t.calls[out.ToolCallID]; ok {
		e := &t.entries[p.entry]
		e.Results[p.ordinal], e.last = &out, seq
		delete(t.calls, out.ToolCallID)
		t.held++
		t.tokens += e.outputTokens(&out)
		if e.noImages == "" {
			t.images += imageBytesOf(out.Content)
		}
	}
}

// compact puts a summary in the place of all that was committed before the first kept event. An input that was committed
// earlier but first presented after a kept answer stays where it is: a question may not vanish from before its answer.
// What was kept suffices to tell which those are (see Resumption).
func (t *Transcript) compact(summary string) {
	_, kept := t.split(t.KeptSeq)
	t.entries, t.held, t.tokens, t.images = nil, 0, 0, 0
	t.measured = Measure{}
	t.add(held(Entry{Seq: t.KeptSeq, Summary: summary}))
	t.add(kept...)
	answers := 0
	for _, e := range kept {
		t.held += len(e.Results)
		if e.Answer != nil {
			answers++
		}
	}
	t.rounds = min(t.rounds, answers)
	t.waiting = slices.DeleteFunc(t.waiting, func(w waitingInput) bool { // those that a watermark says are answered
		return w.seq < t.KeptSeq && !slices.Contains(t.Unanswered, w.seq)
	})
	t.base, t.settled = modelContext{}, 0
	clear(t.calls)
}

// split returns the entries that a compaction with this first kept event drops, and those that it keeps.
func (t *Transcript) split(keptSeq Seq) (dropped, kept []heldEntry) {
	answered := false
	for _, e := range t.entries {
		if e.Seq < keptSeq && !answered {
			dropped = append(dropped, e)
			continue
		}
		kept = append(kept, e)
		answered = answered || e.Answer != nil && e.Answer.StopReason.Completed()
	}
	return dropped, kept
}

// forget drops what was remembered of inputs whose turn is over.
func (t *Transcript) forget() {
	for s := range t.turn {
		if !slices.Contains(t.Unanswered, s) && !slices.Contains(t.TurnInputs, s) {
			delete(t.turn, s)
		}
	}
}

// Selection returns the selection in force for a request that presents the inputs of p, and how many assistant
// messages (failed ones too) the ledger holds for the input that brought it. Without any selection, the count is that
// of the input that was presented most often; without any input, that of the turn. An input that a later one names in
// retryOf has no say.
func (t *Transcript) Selection(p Presented) (selection string, answers int) {
	var replaced []Seq
	for _, s := range slices.Backward(p.Seqs) {
		in := t.turn[s]
		if in == nil || slices.Contains(replaced, s) {
			continue
		}
		if in.selection != "" {
			return in.selection, in.answers
		}
		if in.retryOf < s {
			replaced = append(replaced, in.retryOf)
		}
	}
	if len(p.Seqs) == 0 {
		return "", t.rounds
	}
	for _, s := range p.Seqs {
		if in := t.turn[s]; in != nil {
			answers = max(answers, in.answers)
		}
	}
	return "", answers
}

// Pending returns the open calls of the latest answer, in call order.
func (t *Transcript) Pending() []Block {
	var open []Block
	for _, e := range slices.Backward(t.entries) {
		if e.Answer == nil || !e.Answer.StopReason.Completed() {
			continue
		}
		for _, b := range e.Answer.Content {
			if _, ok := t.calls[b.ID]; ok && b.Type == CallBlock {
				open = append(open, b)
			}
		}
		break
	}
	return open
}

// Entries returns the whole transcript for people: failed answers included, inputs that wait at the end.
func (t *Transcript) Entries() []Entry {
	all := bareEntries(t.entries)
	for _, w := range t.waiting {
		in := w.in
		all = append(all, Entry{Seq: w.seq, Input: &in})
	}
	return all
}

func bareEntries(held []heldEntry) []Entry {
	entries := make([]Entry, len(held))
	for i := range held {
		entries[i] = held[i].Entry
	}
	return entries
}
