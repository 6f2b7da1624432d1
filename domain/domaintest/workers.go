package domaintest

import (
	"fmt"
	"slices"

	"github.com/keel-agent/keel/domain"
)

// work is a step of an honest worker of an attempt that still holds its lease. Preparing a request is no step of the
// store: then work returns nil.
func (g *Generator) work() Step {
	w := g.someWorker(true)
	if w == nil {
		return nil
	}
	if w.last != nil && oneIn(g.src, 8) {
		return *w.last // the reply was lost
	}
	g.honest = true
	step := g.next(w)
	if do, ok := step.(Do); ok {
		do = g.varied(do)
		w.last, step = &do, do
	}
	return step
}

func (g *Generator) next(w *worker) Step {
	l := g.World.Ledgers[w.ref]
	run := l.Runs[w.run]
	switch {
	case oneIn(g.src, 25):
		return Do{w.ref, domain.HandBack{Run: w.run, Token: w.token}}
	case run.CancelSeq != nil && w.snapshot != nil && l.Row.OpenCalls == 0 && oneIn(g.src, 2):
		return g.answer(w, l) // it was on its way
	case run.CancelSeq != nil && len(l.Calls) > 0 && oneIn(g.src, 4): // not having looked at the cancel
		g.honest = false
		return Do{w.ref, domain.StartCalls{Run: w.run, Token: w.token, Calls: []string{l.Calls[len(l.Calls)-1].ID}}}
	case run.CancelSeq != nil, w.mode != domain.ClaimWork:
		return g.finish(w, l)
	case l.Row.OpenCalls > 0:
		return g.tools(w, l)
	case w.snapshot == nil && (run.Compact || oneIn(g.src, 5)): // also unasked, when the context is too long
		return g.compact(w, l)
	case w.snapshot == nil && !w.failed:
		return g.prepare(w, l)
	case w.snapshot == nil:
		return g.settle(w, oneOf(g.src, []domain.Result{domain.Failure, domain.Failure, domain.Success, domain.Permanent}))
	default:
		return g.answer(w, l)
	}
}

// finish ends a cancelled or exhausted run: stand-ins for what is open, no request, no tool, settle.
func (g *Generator) finish(w *worker, l *Ledger) Step {
	if i := slices.IndexFunc(l.Calls, domain.ToolCall.Open); i >= 0 {
		id := l.Calls[i].ID
		return Do{w.ref, domain.AppendToolResult{At: g.at(), Run: w.run, Token: w.token, Call: id, Payload: StandIn(id)}}
	}
	return g.settle(w, domain.Failure)
}

// prepare takes the snapshot of a request boundary, or settles when there is nothing to ask.
func (g *Generator) prepare(w *worker, l *Ledger) Step {
	p := l.Row.Present(w.claim, w.injected)
	if l.Row.Idle(p) || l.Row.Owed == domain.OwedCalls && oneIn(g.src, 12) { // or the turn limit
		return g.settle(w, domain.Success)
	}
	if p.Guide != 0 {
		w.injected = append(w.injected, p.Guide)
	}
	w.snapshot = append([]domain.Seq{}, p.Seqs...)
	return nil
}

// answer commits what the model said to the snapshot, unless another answer took its inputs meanwhile.
func (g *Generator) answer(w *worker, l *Ledger) Step {
	inputs, id := w.snapshot, g.id("g")
	w.snapshot = nil
	for _, seq := range inputs {
		if !slices.Contains(l.Row.Unanswered, seq) && !slices.Contains(l.Row.TurnInputs, seq) {
			return nil
		}
	}
	c := domain.AppendAssistant{At: g.at(), Run: w.run, Token: w.token, GenerationID: id}
	switch n := g.src.Int(10); {
	case n < 4:
		c.Payload = AssistantText(inputs, oneOf(g.src, texts))
	case n < 8:
		var calls []Call
		for range 1 + g.src.Int(3) {
			call := Call{ID: g.id("c"), Name: "tool", Arguments: `{"id":8123456789012345677}`}
			calls = append(calls, call)
			if oneIn(g.src, 3) {
				c.Start = append(c.Start, call.ID)
			}
		}
		c.Payload = AssistantCalls(inputs, oneOf(g.src, texts), calls...)
	default:
		w.failed = true
		reason := oneOf(g.src, []domain.StopReason{domain.StopError, domain.StopAborted})
		c.Payload = AssistantFailed(inputs, reason, oneOf(g.src, texts))
	}
	return Do{w.ref, c}
}

// tools brings the open calls of the last answer one step further.
func (g *Generator) tools(w *worker, l *Ledger) Step {
	var open []domain.ToolCall
	startedNow := false
	for _, c := range l.Calls {
		if c.Open() {
			open = append(open, c)
			startedNow = startedNow || c.StartedEpoch != nil
		}
	}
	if !startedNow && oneIn(g.src, 6) {
		return Do{w.ref, domain.ParkRun{Run: w.run, Token: w.token, SeenSignals: w.signals, Wait: `{"decision":"d"}`}}
	}
	if oneIn(g.src, 15) && l.Runs[w.run].Attempts < g.opt.Budget {
		return g.settle(w, domain.Failure) // the worker's own fault, calls stay open for the next attempt
	}
	c := oneOf(g.src, open)
	switch {
	case c.StartedEpoch != nil && oneIn(g.src, 6): // not having looked at who started it
		g.honest = false
		return Do{w.ref, domain.StartCalls{Run: w.run, Token: w.token, Calls: []string{c.ID}}}
	case c.StartedEpoch != nil && *c.StartedEpoch != w.token.Epoch:
		return Do{w.ref, domain.AppendToolResult{At: g.at(), Run: w.run, Token: w.token, Call: c.ID, Payload: StandIn(c.ID)}}
	case c.StartedEpoch == nil && oneIn(g.src, 2):
		return Do{w.ref, domain.StartCalls{Run: w.run, Token: w.token, Calls: []string{c.ID}}}
	}
	w.signals = l.Runs[w.run].Signals
	p := Result(c.ID, oneOf(g.src, texts))
	return Do{w.ref, domain.AppendToolResult{At: g.at(), Run: w.run, Token: w.token, Call: c.ID, Payload: p}}
}

// compact cuts as late as is allowed or earlier, or where it is proposed, or finds nothing to cut.
func (g *Generator) compact(w *worker, l *Ledger) Step {
	if g.opt.Propose && oneIn(g.src, 2) {
		c := domain.AppendCompaction{At: g.at(), Run: w.run, Token: w.token}
		if cut := g.proposedCut(l); cut > 0 {
			c.Payload = Compaction(fmt.Sprint(proposed, cut), cut)
		}
		return Do{w.ref, c}
	}
	cut := l.Row.HeadSeq
	for _, waiting := range [][]domain.Seq{l.Row.Unanswered, l.Row.TurnInputs} {
		if len(waiting) > 0 {
			cut = min(cut, waiting[0])
		}
	}
	if earlier := int(cut - l.Row.KeptSeq); earlier > 1 && oneIn(g.src, 2) {
		cut -= domain.Seq(g.src.Int(earlier))
	}
	for _, c := range slices.Backward(l.Calls) {
		if c.AssistantSeq < cut && cut <= c.ResultSeq {
			cut = c.AssistantSeq
		}
	}
	c := domain.AppendCompaction{At: g.at(), Run: w.run, Token: w.token}
	if oneIn(g.src, 4) { // without care
		g.honest = false
		cut = 1 + domain.Seq(g.src.Int(int(l.Row.HeadSeq)+1))
		if len(l.Calls) > 0 && oneIn(g.src, 2) {
			cut = max(oneOf(g.src, l.Calls).ResultSeq, 1)
		}
		c.Payload = Compaction(fmt.Sprint("before ", cut), cut)
		return Do{w.ref, c}
	}
	if cut > max(l.Row.KeptSeq, 1) && !oneIn(g.src, 4) {
		c.Payload = Compaction(fmt.Sprint("before ", cut), cut)
	}
	return Do{w.ref, c}
}

const proposed = "proposed before " // says in a summary who chose the cut

// proposedCut is where a compaction may cut that keeps any part of the context.
func (g *Generator) proposedCut(l *Ledger) domain.Seq {
	tr := domain.NewTranscript()
	for _, e := range l.Events {
		if err := tr.Apply(e); err != nil {
			panic(fmt.Sprintf("domaintest: seq %d: %v", e.Seq, err))
		}
	}
	return tr.Cut(g.src.Int(tr.Tokens(domain.Presented{}) + 1))
}

func (g *Generator) settle(w *worker, result domain.Result) Step {
	return Do{w.ref, domain.Settle{
		At: g.at(), Run: w.run, Token: w.token, Result: result, Error: "why", Backoff: g.backoff(),
		Presented: w.injected, Budget: g.opt.Budget, NewRun: g.id("r"),
		Summary: domain.Summary{Turns: 1, Provider: "fake", Model: "fake", DurationMS: int64(g.src.Int(3)) - 1},
	}}
}

// someWorker returns one whose lease holds, if current, else any that ever was.
func (g *Generator) someWorker(current bool) *worker {
	list := g.attempts
	if current {
		list = slices.DeleteFunc(slices.Clone(list), func(w *worker) bool {
			p, ok := g.World.Processes[w.token.Process]
			row := g.World.Ledgers[w.ref].Row
			return !ok || p.Dead || row.Owner != w.token.Process || row.Epoch != w.token.Epoch
		})
	}
	if len(list) == 0 {
		return nil
	}
	return oneOf(g.src, list)
}

// misbehave is a step of a worker that is late, fenced or wrong.
func (g *Generator) misbehave() Step {
	w := g.someWorker(oneIn(g.src, 2))
	if w == nil {
		return nil
	}
	l := g.World.Ledgers[w.ref]
	token, run := w.token, w.run
	switch g.src.Int(5) {
	case 0:
		token.Epoch += int64(g.src.Int(3)) - 1
	case 1:
		token.Process = g.anyProcess()
	case 2:
		run = g.someRun(w.ref)
	}
	some := func() domain.Seq {
		if n := len(l.Row.Unanswered); n > 0 && oneIn(g.src, 2) {
			return l.Row.Unanswered[n-1]
		}
		return 1 + domain.Seq(g.src.Int(int(l.Row.HeadSeq)+3))
	}
	call := "c000"
	if len(l.Calls) > 0 && !oneIn(g.src, 4) {
		call = oneOf(g.src, l.Calls).ID
	}
	var cmd domain.Command
	switch g.src.Int(9) {
	case 0:
		cmd = domain.AppendAssistant{At: g.at(), Run: run, Token: token, GenerationID: g.id("g"), Payload: AssistantText([]domain.Seq{some()}, "wrong")}
	case 1:
		cmd = domain.AppendAssistant{At: g.at(), Run: run, Token: token, GenerationID: g.id("g"),
			Payload: AssistantCalls(nil, "again", Call{ID: call, Name: "tool"}), Start: []string{g.id("c")}}
	case 2:
		cmd = domain.AppendToolResult{At: g.at(), Run: run, Token: token, Call: call, Payload: Result(call, "late")}
	case 3:
		cmd = domain.StartCalls{Run: run, Token: token, Calls: []string{call}}
	case 4:
		kept := some()
		if l.Row.KeptSeq > 1 && oneIn(g.src, 2) {
			kept = 1 + domain.Seq(g.src.Int(int(l.Row.KeptSeq)))
		}
		cmd = domain.AppendCompaction{At: g.at(), Run: run, Token: token, Payload: Compaction("too much", kept)}
	case 5:
		cmd = domain.ParkRun{Run: run, Token: token, SeenSignals: int64(g.src.Int(3)), Wait: "{}"}
	case 6:
		cmd = domain.HandBack{Run: run, Token: token}
	case 7:
		cmd = domain.Rescue{Run: run}
	default:
		cmd = domain.Settle{At: g.at(), Run: run, Token: token, Result: domain.Success, Budget: g.opt.Budget, NewRun: g.id("r")}
	}
	return Do{w.ref, cmd}
}

func (g *Generator) anyProcess() string { return oneOf(g.src, g.attempts).token.Process }
