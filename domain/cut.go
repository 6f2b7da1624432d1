package domain

import "math"

// place is where a context may begin.
type place struct {
	seq  Seq
	kept int  // tokens from there on, inputs that wait aside
	turn bool // it begins with an input
}

// Cut returns the seq at which the context can begin so that what is kept takes about keep tokens, the inputs that wait
// aside. AppendCompaction accepts it: it falls neither between a call and its result nor behind an input of the current
// turn or one that waits. What it drops holds an answer at least. Cut returns 0 when there is no such place, or no need.
//
// Of the places that keep no more than that, the earliest counts, one before an input first if it keeps half of that or
// more. Where every place keeps more, the last one before an input counts, else the last.
func (t *Transcript) Cut(keep int) Seq {
	var best place
	if t.tokens <= keep {
		return 0
	}
	for _, p := range t.places() {
		rank := p.rank(keep)
		if have := best.rank(keep); best.seq == 0 || rank > have || rank == have && p.kept > keep {
			best = p
		}
	}
	return best.seq
}

func (p place) rank(keep int) int {
	switch fits := p.kept <= keep; {
	case fits && p.turn && 2*p.kept >= keep:
		return 3
	case fits:
		return 2
	case p.turn:
		return 1
	}
	return 0
}

// places returns where the context may begin, ascending. An answer is as good a beginning as the first of the inputs
// that it is the first to list; what was committed before and is kept all the same would be no clean cut.
func (t *Transcript) places() []place {
	var found []place
	if t.OpenCalls > 0 {
		return nil
	}
	bound := t.mustKeep()
	dropped, last, answered := 0, Seq(0), false
	for i, e := range t.entries {
		input := e.Input != nil
		answers := e.Answer != nil && e.Answer.StopReason.Completed()
		if (answers || input && (i == 0 || t.entries[i-1].Input == nil)) && answered && e.Seq > last && e.Seq <= bound {
			found = append(found, place{e.Seq, t.tokens - dropped, input})
		}
		dropped += e.tokens()
		answered = answered || answers
		if e.Answer == nil || answers { // on which side of a cut failures are does not matter to a model
			last = max(last, e.last)
		}
	}
	if len(t.Unanswered) > 0 && bound == t.Unanswered[0] && answered && bound > last {
		found = append(found, place{bound, 0, true})
	}
	return found
}

// mustKeep returns the lowest seq of an input of the current turn or one that waits.
func (t *Transcript) mustKeep() Seq {
	lowest := Seq(math.MaxInt64)
	for _, seqs := range [][]Seq{t.Unanswered, t.TurnInputs} {
		if len(seqs) > 0 {
			lowest = min(lowest, seqs[0])
		}
	}
	return lowest
}

// Before returns the entries that a compaction which keeps the events from kept on replaces, the summary of an earlier
// one among them.
func (t *Transcript) Before(kept Seq) []Entry {
	dropped, _ := t.split(kept)
	return bareEntries(dropped)
}

// TokensBefore estimates what Before returns.
func (t *Transcript) TokensBefore(kept Seq) (n int) {
	dropped, _ := t.split(kept)
	for i := range dropped {
		n += dropped[i].tokens()
	}
	return n
}
