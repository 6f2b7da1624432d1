package linear

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// call is what a client asked of a session.
type call struct {
	session string
	op      string // submit, events, head, cancel
	key     string // submit
	newRun  string // submit: the id of a run if one has to be made
	after   int    // events
}

// reply is what it got.
type reply struct {
	seq       int      // submit
	created   bool     // submit
	run       string   // submit: the run that was stored with the input; head: the active one
	seqs      []int    // events: what follows, in order
	keys      []string // events: their keys
	head      int      // head
	cancelSeq int      // head, cancel: the head at the cancel of the active run, -1 when there was none
}

// ledger is the sequential model: an append-only list with dedupe, and the run that will answer. No worker takes part,
// so a run never ends.
type ledger struct {
	keys, runs   []string // of each input
	active, next string
	cancelSeq    int
}

// model accepts exactly what a session may do.
var model = porcupine.Model{
	Partition: bySession,
	Init:      func() any { return ledger{cancelSeq: -1} },
	Step: func(state, in, out any) (bool, any) {
		return state.(ledger).step(in.(call), out.(reply))
	},
	Equal: func(state1, state2 any) bool {
		x, y := state1.(ledger), state2.(ledger)
		return slices.Equal(x.keys, y.keys) && slices.Equal(x.runs, y.runs) && x.active == y.active && x.next == y.next && x.cancelSeq == y.cancelSeq
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
}

func bySession(history []porcupine.Operation) [][]porcupine.Operation {
	sessions := map[string][]porcupine.Operation{}
	for _, op := range history {
		session := op.Input.(call).session
		sessions[session] = append(sessions[session], op)
	}
	var parts [][]porcupine.Operation
	for _, part := range sessions {
		parts = append(parts, part)
	}
	return parts
}

// step returns whether l may answer in with out, and what it is then.
func (l ledger) step(in call, out reply) (bool, any) {
	switch in.op {
	case "submit":
		return l.submit(in, out)
	case "events":
		from := min(in.after, len(l.keys))
		gapless := true
		for i, seq := range out.seqs {
			gapless = gapless && seq == in.after+i+1
		}
		return gapless && slices.Equal(out.keys, l.keys[from:]), l
	case "head":
		return out.head == len(l.keys) && out.run == l.active && out.cancelSeq == l.cancelSeq, l
	case "cancel":
		if l.active != "" && l.cancelSeq < 0 {
			l.cancelSeq = len(l.keys)
		}
		return out.cancelSeq == l.cancelSeq, l
	}
	return false, l
}

// submit appends an input unless it is known. The first one makes a run; the first one behind a cancel names the run
// that follows, for all behind it.
func (l ledger) submit(in call, out reply) (bool, any) {
	if i := slices.Index(l.keys, in.key); i >= 0 {
		return !out.created && out.seq == i+1 && out.run == l.runs[i], l
	}
	if l.active == "" {
		l.active = in.newRun
	}
	run := l.active
	if l.cancelSeq >= 0 {
		if l.next == "" {
			l.next = in.newRun
		}
		run = l.next
	}
	l.keys, l.runs = append(slices.Clip(l.keys), in.key), append(slices.Clip(l.runs), run)
	return out.created && out.seq == len(l.keys) && out.run == run, l
}
