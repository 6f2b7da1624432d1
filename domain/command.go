package domain

import "time"

// Command is one of the closed set of commands of commands.md. A command concerns exactly one session.
type Command interface {
	// Needs says what Decide must see beside the session row.
	Needs() Needs
	decide(v View) (Effects, error)
}

// Needs is what a store loads for a command, all by primary key or unique index. The session row is always loaded.
type Needs struct {
	Run         string   // this run, if it is the session's own; "" means the session's active run
	Made        string   // this run too, likewise: a command whose reply was lost may have made it
	Key         string   // the event under this idempotency key
	Calls       []string // these tool calls
	OpenCalls   bool     // all calls without a result
	CallsBefore Seq      // the calls of the last assistant message before this seq; 0 means none
	OwnerLive   bool     // whether the process that owns the run is alive
}

// View is what a command is decided on. Absent rows are nil or missing.
type View struct {
	Ref       SessionRef
	Session   *Session
	Run       *Run
	Made      *Run   // under Needs.Made
	Event     *Event // under Needs.Key
	Calls     []ToolCall
	OwnerLive bool
}

// Effects is what must be written, atomically, guarded by View.Session.Version, for a command to have happened. The
// zero value writes nothing.
type Effects struct {
	Session     *Session // the new row; its Version is one above the view's
	Create      bool     // insert the row
	InfoChanged bool     // title, model or metadata differ
	Events      []Event  // to append, complete with seq and hash
	Runs        []RunChange
	Calls       []ToolCall // to insert or update
	Wake        Wake
	Outcome     Outcome
}

// Empty reports whether there is nothing to write.
func (e Effects) Empty() bool { return e.Session == nil }

// RunChange is a run row to write.
type RunChange struct {
	Run    Run
	Insert bool
	Due    *time.Duration // when set, available_at becomes the store's now plus this
}

// Wake says who should look again after the commit. It is a hint and may be lost.
type Wake struct {
	Readers bool        // those who read this session's ledger
	Queue   bool        // those who claim runs
	Owner   string      // the process that runs the session
	Parent  *SessionRef // the session whose tool call waits for this one
}

// Outcome is the answer to a command, the same for its retry.
type Outcome struct {
	Created   bool    // something was written by this command, false for a replay
	Event     *Event  // the event appended, or found under the key
	Session   Session // after the command
	Claim     ClaimMode
	Started   []string // the tool calls that this attempt may execute
	Signalled bool     // ParkRun: a signal came first, nothing changed
	Wake      Wake

	// Run is the run after the command; its CancelSeq tells a worker of a cancel. It is nil when there is none, and for
	// a replayed input whose run, Event.RunID, is not the active one.
	Run *Run
}

// Edge commands.
type (
	// CreateSession makes a session. A retry with an equal Request returns the first outcome; an id that another
	// request took is ErrIdempotencyConflict.
	CreateSession struct {
		At         time.Time
		Request    Payload
		Info       SessionInfo
		StateOwner StateOwner
		Parent     *Parent
		Refusal    error // what is wrong with what Request chooses; a retry of an accepted request is not refused
	}

	// SubmitInput commits a user.message and ensures the run that will answer it. Payload is what the client sent;
	// its requestId member equals RequestID. NewRun is the id of the run if one must be made.
	SubmitInput struct {
		At        time.Time
		RequestID string
		Payload   Payload
		NewRun    string
		Refusal   error // what else is wrong with Payload; a retry of an accepted input is not refused
	}

	// AppendExternal commits an external.event of the external gateway, which is not built yet: nobody issues it.
	AppendExternal struct {
		At        time.Time
		RequestID string
		Payload   Payload
	}

	// EnsureRun makes sure that a run will look at the session, if there is anything to do.
	EnsureRun struct {
		At      time.Time
		Compact bool // ask for a compaction
		NewRun  string
	}

	// RequestCancel asks the active run to end as cancelled. Run "" means whichever is active; another id than the
	// active run's changes nothing.
	RequestCancel struct{ Run string }

	// Unpark tells a parked run that what it waits for may have happened. Nobody parks runs yet.
	Unpark struct{}

	// CloseSession ends the session: at once when no run is active, else through closing and a cancel.
	CloseSession struct{}

	// PatchSession changes what is set; nil fields stay.
	PatchSession struct {
		Title    *string
		Model    *string
		Metadata *Payload
	}
)

// Worker commands.
type (
	// ClaimRun begins an attempt of a proposed run, finishes it as no work, or skips it.
	ClaimRun struct {
		At      time.Time
		Run     string
		Process string
		Budget  int // attempts per run; 0 means DefaultBudget
	}

	// AppendAssistant commits a model's answer. Start names the calls in it that the attempt starts at once.
	AppendAssistant struct {
		At           time.Time
		Run          string
		Token        Token
		GenerationID string
		Payload      Payload
		Start        []string
	}

	// StartCalls marks calls as started, before a tool that is not replay-safe runs.
	StartCalls struct {
		Run   string
		Token Token
		Calls []string
	}

	// AppendToolResult commits the one result of a call.
	AppendToolResult struct {
		At      time.Time
		Run     string
		Token   Token
		Call    string
		Payload Payload
	}

	// AppendCompaction commits a summary of older context. A zero Payload means that there was nothing to compact.
	AppendCompaction struct {
		At      time.Time
		Run     string
		Token   Token
		Payload Payload
	}

	// ParkRun ends the attempt until Unpark. SeenSignals is the run's Signals read before the awaited thing was
	// looked at.
	ParkRun struct {
		Run         string
		Token       Token
		SeenSignals int64
		Wait        string
		ReplaySafe  []string // open calls whose tools may run again
	}

	// HandBack ends the attempt without costing it.
	HandBack struct {
		Run   string
		Token Token
	}

	// Settle ends the attempt with a result: run.finished and the run's next state in one.
	Settle struct {
		At        time.Time
		Run       string
		Token     Token
		Result    Result
		Error     string // of a failed attempt
		Summary   Summary
		Backoff   time.Duration
		Presented []Seq // the guides that this attempt injected
		Budget    int
		NewRun    string // id of the successor if one must be made
	}

	// Rescue ends the attempt of a dead process. Jitter is in [0,1).
	Rescue struct {
		Run    string
		Jitter float64
	}
)

// Result is a worker's judgement of its attempt.
type Result string

// The results. A cancel is never a worker's judgement: the run row says so.
const (
	Success   Result = "success"
	Failure   Result = "failure"
	Permanent Result = "permanent" // a failure that a retry cannot mend
)

// Summary is the accounting of an attempt; its status is decided at settlement. Durations are milliseconds.
type Summary struct {
	Turns       int
	Provider    string
	Model       string
	StopReason  StopReason
	DurationMS  int64
	Tokens      *Usage
	Costs       Costs
	ToolTimings []ToolTiming
	Context     *ContextSize
	Error       string
}

// ToolTiming is the time that one tool call took.
type ToolTiming struct {
	ToolCallID string
	Name       string
	DurationMS int64
	IsError    bool
}

// ContextSize describes the last request of an attempt.
type ContextSize struct {
	Messages int
}

func (CreateSession) Needs() Needs { return Needs{} }
func (c SubmitInput) Needs() Needs { return Needs{Key: storedKey(RequestID, c.RequestID)} }
func (c AppendExternal) Needs() Needs {
	return Needs{Key: storedKey(RequestID, c.RequestID)}
}
func (c EnsureRun) Needs() Needs     { return Needs{Made: c.NewRun} }
func (c RequestCancel) Needs() Needs { return Needs{} }
func (Unpark) Needs() Needs          { return Needs{} }
func (CloseSession) Needs() Needs    { return Needs{} }
func (PatchSession) Needs() Needs    { return Needs{} }
func (c ClaimRun) Needs() Needs      { return Needs{Run: c.Run} }
func (c AppendAssistant) Needs() Needs {
	n := Needs{Run: c.Run, Key: storedKey(GenerationID, c.GenerationID)}
	if m, err := ParseAssistant(c.Payload); err == nil {
		n.Calls = m.CallIDs()
	}
	return n
}
func (c StartCalls) Needs() Needs { return Needs{Run: c.Run, Calls: c.Calls} }
func (c AppendToolResult) Needs() Needs {
	return Needs{Run: c.Run, Key: storedKey(ToolCallID, c.Call), Calls: []string{c.Call}}
}
func (c AppendCompaction) Needs() Needs {
	said, _ := ParseCompaction(c.Payload)
	return Needs{Run: c.Run, CallsBefore: said.FirstKept}
}
func (c ParkRun) Needs() Needs  { return Needs{Run: c.Run, OpenCalls: true} }
func (c HandBack) Needs() Needs { return Needs{Run: c.Run} }
func (c Settle) Needs() Needs   { return Needs{Run: c.Run} }
func (c Rescue) Needs() Needs   { return Needs{Run: c.Run, OwnerLive: true} }

// storedKey is DedupeKey for a view: a malformed key, which Decide refuses, names no event.
func storedKey(name KeyName, value string) string {
	key, _ := DedupeKey(name, value)
	return key
}
