package domain

// The decisions of the edge commands, in the order of commands.md.

func (c CreateSession) decide(v View) (Effects, error) {
	if s := v.Session; s != nil {
		if !s.CreateRequest.Equal(c.Request) {
			return Effects{}, ErrIdempotencyConflict.With("the session id was taken by another request")
		}
		return v.unchanged(), nil
	}
	if c.Refusal != nil {
		return Effects{}, c.Refusal
	}
	owner := c.StateOwner
	if owner == "" {
		owner = Native
	}
	at := Millis(c.At)
	s := &Session{
		Ref: v.Ref, CreatedAt: at, CreateRequest: c.Request, SessionInfo: c.Info, State: SessionOpen, StateOwner: owner,
		Parent: c.Parent, Version: 1, HeadAt: at, Fold: Fold{Owed: OwedNone},
	}
	return Effects{Session: s, Create: true, Outcome: Outcome{Created: true, Session: *s}}, nil
}

func (c SubmitInput) decide(v View) (Effects, error) {
	key, in, err := c.check()
	if err == nil && v.Event == nil { // what was accepted once is not looked at again
		err = checkSent(in.Content)
	}
	switch {
	case err != nil:
		return Effects{}, err
	case v.Session == nil:
		return Effects{}, ErrNotFound
	case v.Event != nil:
		return c.replayed(v)
	case v.Session.State != SessionOpen:
		return Effects{}, ErrSessionClosed
	case v.Session.StateOwner != Native:
		return Effects{}, ErrExternalSession
	case c.Refusal != nil:
		return Effects{}, c.Refusal
	case len(v.Session.Unanswered) >= MaxUnanswered:
		return Effects{}, ErrTooManyInputs
	}
	ch := v.change()
	payload := c.Payload
	if in.Delivery == Guide && !guidable(v.Run) {
		payload, in.Delivery = demoted(payload), Queue
	}
	run := ch.runFor(c)
	ch.append(Event{Kind: UserMessage, Key: key, Payload: payload, CreatedAt: c.At, RunID: run.ID}, fact{input: in})
	return ch.done(run), nil
}

var errKeyDiffers error = ErrInvalidKey.At("requestId").With("the payload's requestId differs from the request's")

func (c SubmitInput) check() (key string, in Input, err error) {
	if key, err = DedupeKey(RequestID, c.RequestID); err != nil {
		return "", in, err
	}
	if in, err = ParseInput(c.Payload); err != nil {
		return "", in, err
	}
	if in.RequestID != c.RequestID {
		return "", in, errKeyDiffers
	}
	if in.Requested != "" {
		return "", in, ErrInvalidPayload.At("requestedDelivery").With("is written by the server alone")
	}
	return key, in, nil
}

// replayed is the answer to the retry of an input. Its run is the one stored with the event, nil when that is not in v.
func (c SubmitInput) replayed(v View) (Effects, error) {
	fx, err := v.first(c.Payload, asSent(v.Event.Payload))
	if run := fx.Outcome.Run; run != nil && run.ID != v.Event.RunID {
		fx.Outcome.Run = nil
	}
	return fx, err
}

// runFor returns the run that will answer the input c: the active one, its successor when it is being cancelled, or a
// new one.
func (c *change) runFor(in SubmitInput) *Run {
	if c.s.ActiveRun == "" || c.run == nil {
		return c.insertRun(in.NewRun, in.At, false)
	}
	c.run.PendingInput = true
	c.writeRun()
	c.fx.Wake.Owner = c.s.Owner
	// A claimer that met this commit's lock on the session passed the run over: it has to look again.
	c.fx.Wake.Queue = c.run.Status == StatusPending && !c.run.Parked
	if c.run.CancelSeq == nil {
		return c.run
	}
	return c.successorRun(in.NewRun)
}

// successorRun promises a run after the one that is being cancelled, once, and returns it as it will be.
func (c *change) successorRun(id string) *Run {
	if c.run.NextRunID == "" {
		c.run.NextRunID = id
		c.writeRun()
	}
	return &Run{ID: c.run.NextRunID, Ref: c.s.Ref, CreatedAt: c.run.CreatedAt, Status: StatusPending}
}

func guidable(run *Run) bool {
	return run != nil && run.Status == StatusRunning && run.CancelSeq == nil
}

// demoted returns the payload of a guide that met no attempt (protocol.md §4).
func demoted(p Payload) Payload {
	return p.With("delivery", `"queue"`).With("requestedDelivery", `"guide"`)
}

// asSent undoes demoted: what the client sent.
func asSent(p Payload) Payload {
	in, err := ParseInput(p)
	if err != nil || in.Requested == "" {
		return p
	}
	return p.Without("requestedDelivery").With("delivery", quoteJSON(string(in.Requested)))
}

func (c AppendExternal) decide(v View) (Effects, error) {
	key, err := DedupeKey(RequestID, c.RequestID)
	if err != nil {
		return Effects{}, err
	}
	id, err := parseExternal(c.Payload)
	switch {
	case err != nil:
		return Effects{}, err
	case id != "" && id != c.RequestID:
		return Effects{}, errKeyDiffers
	case v.Session == nil:
		return Effects{}, ErrNotFound
	case v.Event != nil:
		return v.first(c.Payload, v.Event.Payload)
	case v.Session.State != SessionOpen:
		return Effects{}, ErrSessionClosed
	case v.Session.StateOwner != External:
		return Effects{}, ErrNativeSession
	}
	ch := v.change()
	ch.append(Event{Kind: ExternalEvent, Key: key, Payload: c.Payload, CreatedAt: c.At}, fact{})
	return ch.done(nil), nil
}

func (c EnsureRun) decide(v View) (Effects, error) {
	switch {
	case v.Session == nil:
		return Effects{}, ErrNotFound
	case v.Made != nil && v.Made.ID != v.Session.ActiveRun: // by this command, whose reply was lost; it has ended since
		fx := v.unchanged()
		fx.Outcome.Run = v.Made
		return fx, nil
	case v.Session.State != SessionOpen:
		return Effects{}, ErrSessionClosed
	case v.Session.StateOwner != Native:
		return Effects{}, ErrExternalSession
	}
	ch := v.change()
	if ch.run == nil {
		if !v.Session.Work(c.Compact) {
			return v.unchanged(), nil
		}
		return ch.done(ch.insertRun(c.NewRun, c.At, c.Compact)), nil
	}
	var answer *Run
	if c.Compact && !ch.run.Compact {
		ch.run.Compact = true
		ch.writeRun()
	}
	if ch.run.CancelSeq != nil && ch.run.ID != c.NewRun { // else it is this command's own, whose reply was lost
		answer = ch.successorRun(c.NewRun)
	}
	if ch.run.Status == StatusPending && !ch.run.Parked {
		ch.dueIn(0)
	}
	if !ch.runChanged {
		fx := v.unchanged()
		if answer != nil {
			fx.Outcome.Run = answer
		}
		return fx, nil
	}
	ch.fx.Wake.Queue = true
	return ch.done(answer), nil
}

func (c RequestCancel) decide(v View) (Effects, error) {
	if v.Session == nil {
		return Effects{}, ErrNotFound
	}
	if v.Run == nil || c.Run != "" && c.Run != v.Run.ID || v.Run.CancelSeq != nil {
		return v.unchanged(), nil
	}
	ch := v.change()
	ch.cancel()
	return ch.done(nil), nil
}

func (Unpark) decide(v View) (Effects, error) {
	if v.Session == nil {
		return Effects{}, ErrNotFound
	}
	if v.Run == nil {
		return v.unchanged(), nil
	}
	ch := v.change()
	ch.run.Signals++
	if ch.run.Parked {
		ch.unpark()
	}
	ch.writeRun()
	ch.fx.Wake.Queue = true
	return ch.done(nil), nil
}

func (CloseSession) decide(v View) (Effects, error) {
	switch {
	case v.Session == nil:
		return Effects{}, ErrNotFound
	case v.Session.State != SessionOpen:
		return v.unchanged(), nil
	}
	ch := v.change()
	ch.fx.Wake.Readers = true
	if ch.run == nil {
		ch.s.State = SessionClosed
		return ch.done(nil), nil
	}
	ch.s.State = SessionClosing
	ch.cancel()
	return ch.done(nil), nil
}

func (c PatchSession) decide(v View) (Effects, error) {
	switch {
	case v.Session == nil:
		return Effects{}, ErrNotFound
	case v.Session.State == SessionClosed:
		return Effects{}, ErrSessionClosed
	}
	ch := v.change()
	if c.Title != nil {
		ch.s.Title = *c.Title
	}
	if c.Model != nil {
		ch.s.Model = *c.Model
	}
	if c.Metadata != nil {
		ch.s.Metadata = *c.Metadata
	}
	ch.fx.InfoChanged = true
	ch.fx.Wake.Readers = true
	return ch.done(nil), nil
}
