package domain

import "slices"

// The decisions of the worker commands that begin an attempt or write in its course, in the order of commands.md.

func (c ClaimRun) decide(v View) (Effects, error) {
	s, run := v.Session, v.Run
	if s == nil || run == nil || run.ID != s.ActiveRun || run.ID != c.Run || run.Status != StatusPending || run.Parked ||
		s.StateOwner != Native {
		return v.unchanged(), nil
	}
	ch := v.change()
	if run.CancelSeq == nil && !s.Work(run.Compact) {
		ch.endRun(StatusDone, ReasonNoWork, c.At)
		fx := ch.done(nil)
		fx.Outcome.Claim = ClaimNoWork
		return fx, nil
	}
	mode := ClaimWork
	switch {
	case run.CancelSeq != nil:
		mode = ClaimCancelled
	case run.Attempts >= budgetOr(c.Budget):
		mode = ClaimExhausted
	}
	ch.s.Epoch++
	ch.s.Owner = c.Process
	ch.run.Status, ch.run.Owner, ch.run.Epoch = StatusRunning, c.Process, ch.s.Epoch
	ch.run.Attempts++
	if ch.run.ClaimSeq == nil {
		head := s.HeadSeq
		ch.run.ClaimSeq, ch.run.PendingInput = &head, false
	}
	ch.writeRun()
	fx := ch.done(nil)
	fx.Outcome.Claim = mode
	return fx, nil
}

func budgetOr(n int) int {
	if n <= 0 {
		return DefaultBudget
	}
	return n
}

// fence is rule F of commands.md, for a command that names run.
func (v View) fence(run string, t Token) error {
	if v.Session == nil {
		return ErrNotFound
	}
	if !t.holds(v.Session) || v.Run == nil || v.Run.ID != run || v.Run.Status != StatusRunning {
		return ErrFenced
	}
	return nil
}

func (c AppendAssistant) decide(v View) (Effects, error) {
	key, m, err := c.check()
	if err != nil {
		return Effects{}, err
	}
	if err := v.fence(c.Run, c.Token); err != nil {
		return Effects{}, err
	}
	if v.Event != nil {
		fx, err := v.first(c.Payload, v.Event.Payload)
		fx.Outcome.Started = startedIn(v, c)
		return fx, err
	}
	if err := c.checkReferences(v, m); err != nil {
		return Effects{}, err
	}
	ch := v.change()
	ch.append(Event{
		Kind: AssistantMessage, Key: key, Payload: c.Payload, CreatedAt: c.At, RunID: c.Run, Epoch: c.Token.Epoch,
	}, fact{answer: m})
	if m.StopReason.Completed() {
		ch.insertCalls(m, c)
	}
	return ch.done(nil), nil
}

func (c AppendAssistant) check() (key string, m Assistant, err error) {
	if key, err = DedupeKey(GenerationID, c.GenerationID); err != nil {
		return "", m, err
	}
	if m, err = ParseAssistant(c.Payload); err != nil {
		return "", m, err
	}
	if m.GenerationID != "" && m.GenerationID != c.GenerationID {
		return "", m, ErrInvalidKey.At("generationId").With("the payload's generationId differs from the commit's")
	}
	return key, m, nil
}

func (c AppendAssistant) checkReferences(v View, m Assistant) error {
	s := v.Session
	if s.OpenCalls > 0 {
		return ErrOpenCalls
	}
	if m.StopReason.Completed() && len(v.Calls) > 0 {
		return ErrCallIDUsed.With("tool call id " + quoteJSON(v.Calls[0].ID) + " was used before")
	}
	ids := m.CallIDs()
	for _, id := range c.Start {
		if !slices.Contains(ids, id) {
			return ErrUnknownCall.With("the message does not call " + quoteJSON(id))
		}
	}
	for _, seq := range m.InputSeqs {
		if slices.Contains(s.TurnInputs, seq) {
			continue
		}
		if !slices.Contains(s.Unanswered, seq) {
			return ErrInvalidPayload.At("inputSeqs").With("lists an event that is no input of this turn")
		}
		if seq > *v.Run.ClaimSeq && !slices.Contains(s.Guides, seq) {
			return ErrInvalidPayload.At("inputSeqs").With("lists a queued input beyond the claim")
		}
	}
	return nil
}

// insertCalls makes the rows of the calls that m commits; those that c starts are marked unless a cancel was asked.
func (c *change) insertCalls(m Assistant, cmd AppendAssistant) {
	seq, epoch := c.s.HeadSeq, cmd.Token.Epoch
	if c.run.CancelSeq == nil {
		c.fx.Outcome.Started = cmd.Start
	}
	ordinal := 0
	for _, b := range m.Content {
		if b.Type != CallBlock {
			continue
		}
		call := ToolCall{ID: b.ID, AssistantSeq: seq, Ordinal: ordinal, Name: b.Name}
		if slices.Contains(c.fx.Outcome.Started, b.ID) {
			call.StartedEpoch = &epoch
		}
		c.fx.Calls = append(c.fx.Calls, call)
		ordinal++
	}
}

// startedIn returns the calls that the first commit of cmd, now v.Event, started.
func startedIn(v View, cmd AppendAssistant) []string {
	var started []string
	for _, c := range v.Calls {
		mine := c.AssistantSeq == v.Event.Seq && c.StartedEpoch != nil && *c.StartedEpoch == cmd.Token.Epoch
		if mine && slices.Contains(cmd.Start, c.ID) {
			started = append(started, c.ID)
		}
	}
	return started
}

func (c StartCalls) decide(v View) (Effects, error) {
	if err := v.fence(c.Run, c.Token); err != nil {
		return Effects{}, err
	}
	if v.Run.CancelSeq != nil {
		return Effects{}, ErrCancelled
	}
	epoch := c.Token.Epoch
	ch := v.change()
	for _, id := range c.Calls {
		i := slices.IndexFunc(v.Calls, func(row ToolCall) bool { return row.ID == id })
		if i < 0 || !v.Calls[i].Open() {
			return Effects{}, ErrUnknownCall.With("no open call " + quoteJSON(id))
		}
		row := v.Calls[i]
		if row.StartedEpoch == nil {
			row.StartedEpoch = &epoch
			ch.fx.Calls = append(ch.fx.Calls, row)
		} else if *row.StartedEpoch != epoch {
			return Effects{}, ErrOpenCalls.With("an earlier attempt started " + quoteJSON(id))
		}
	}
	if len(ch.fx.Calls) == 0 {
		fx := v.unchanged()
		fx.Outcome.Started = c.Calls
		return fx, nil
	}
	fx := ch.done(nil)
	fx.Outcome.Started = c.Calls
	return fx, nil
}

func (c AppendToolResult) decide(v View) (Effects, error) {
	key, err := DedupeKey(ToolCallID, c.Call)
	if err != nil {
		return Effects{}, err
	}
	out, err := ParseToolOutput(c.Payload)
	if err != nil {
		return Effects{}, err
	}
	if out.ToolCallID != c.Call {
		return Effects{}, ErrInvalidPayload.At("toolCallId").With("differs from the call of the commit")
	}
	if err := v.fence(c.Run, c.Token); err != nil {
		return Effects{}, err
	}
	if v.Event != nil {
		return v.first(c.Payload, v.Event.Payload)
	}
	if len(v.Calls) == 0 || !v.Calls[0].Open() {
		return Effects{}, ErrUnknownCall.With("no open call " + quoteJSON(c.Call))
	}
	ch := v.change()
	ch.append(Event{
		Kind: ToolResult, Key: key, Payload: c.Payload, CreatedAt: c.At, RunID: c.Run, Epoch: c.Token.Epoch,
	}, fact{output: out})
	row := v.Calls[0]
	row.ResultSeq = ch.s.HeadSeq
	ch.fx.Calls = append(ch.fx.Calls, row)
	return ch.done(nil), nil
}

func (c AppendCompaction) decide(v View) (Effects, error) {
	var said fact
	if !c.Payload.IsZero() {
		var err error
		if said, err = parseFact(Compaction, c.Payload); err != nil {
			return Effects{}, err
		}
	}
	kept := said.compacted.FirstKept
	if err := v.fence(c.Run, c.Token); err != nil {
		return Effects{}, err
	}
	if kept == 0 && !v.Run.Compact || kept != 0 && kept == v.Session.KeptSeq {
		return v.unchanged(), nil
	}
	ch := v.change()
	ch.run.Compact = false
	ch.writeRun()
	if kept == 0 {
		return ch.done(nil), nil
	}
	if err := checkCut(v, kept); err != nil {
		return Effects{}, err
	}
	ch.append(Event{Kind: Compaction, Payload: c.Payload, CreatedAt: c.At, RunID: c.Run, Epoch: c.Token.Epoch}, said)
	return ch.done(nil), nil
}

// checkCut returns nil when the context may begin at kept.
func checkCut(v View, kept Seq) error {
	s := v.Session
	if s.OpenCalls > 0 {
		return ErrOpenCalls
	}
	bad := ErrInvalidPayload.At("firstKeptSeq")
	switch {
	case kept < s.KeptSeq:
		return bad.With("lies before an earlier compaction")
	case kept > s.HeadSeq:
		return bad.With("lies beyond the head")
	}
	for _, waiting := range [][]Seq{s.Unanswered, s.TurnInputs} {
		if len(waiting) > 0 && kept > waiting[0] {
			return bad.With("would drop an input of the current turn")
		}
	}
	for _, call := range v.Calls {
		if call.ResultSeq >= kept {
			return bad.With("lies between a tool call and its result")
		}
	}
	return nil
}
