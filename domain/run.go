package domain

import "time"

// RunStatus is a run's state (protocol.md §6).
type RunStatus string

// The states of a run. Done and failed are final.
const (
	StatusPending RunStatus = "pending"
	StatusRunning RunStatus = "running"
	StatusDone    RunStatus = "done"
	StatusFailed  RunStatus = "failed"
)

// Active reports whether a run in this state is its session's active run.
func (s RunStatus) Active() bool { return s == StatusPending || s == StatusRunning }

// Reasons of a finished or repeated run.
const (
	ReasonNoWork    = "no_work"
	ReasonCancelled = "cancelled"
	ReasonFailed    = "attempt_failed"
	ReasonPermanent = "permanent_failure"
	ReasonExhausted = "attempts_exhausted"
	ReasonMoreInput = "more_input"
	ReasonHandBack  = "handed_back"
	ReasonRescued   = "rescued"
)

// Ended records how an attempt ended, so that a repeated command is answered alike (rule X of commands.md).
type Ended struct {
	Epoch   int64
	Command string // settle, park, handback, rescue; "" before the first attempt ended
	Status  RunStatus
}

// Run is one run row: it carries a session from accepted input to its answer through any number of attempts.
type Run struct {
	ID        string
	Ref       SessionRef
	CreatedAt time.Time
	Status    RunStatus
	Reason    string
	Error     string

	Owner       string
	Epoch       int64
	Attempts    int       // counted at the claim; success and parking reset it
	AvailableAt time.Time // by the store's clock; due when not in the future
	Parked      bool
	Wait        string // what a parked run waits for, JSON text
	Signals     int64
	Compact     bool

	ClaimSeq      *Seq // the turn's boundary; nil before the first claim of a turn
	CancelSeq     *Seq // the head at the cancel request; nil when none was made
	NextRunID     string
	PendingInput  bool // a hint; Session.Work decides
	ReadWatermark Seq

	Ended     Ended
	SettledAt time.Time // zero while active
}

func (r *Run) clone() *Run {
	c := *r
	c.ClaimSeq, c.CancelSeq = r.ClaimSeq.clone(), r.CancelSeq.clone()
	return &c
}

// ToolCall is the row of one committed tool call.
type ToolCall struct {
	ID           string
	AssistantSeq Seq
	Ordinal      int
	Name         string
	StartedEpoch *int64 // the attempt that may have run it; nil when it never started
	ResultSeq    Seq    // 0 while open
}

// Open reports whether the call has no result yet.
func (c ToolCall) Open() bool { return c.ResultSeq == 0 }

// ClaimMode says what a claimed attempt may do.
type ClaimMode string

// The modes of a claim. Finish modes commit stand-ins for open calls and settle; they call no provider and no tool.
const (
	ClaimSkipped   ClaimMode = ""          // the run is not claimable now
	ClaimNoWork    ClaimMode = "no_work"   // there was nothing to do: the run is done
	ClaimWork      ClaimMode = "work"      //
	ClaimCancelled ClaimMode = "cancelled" // finish a cancelled run
	ClaimExhausted ClaimMode = "exhausted" // finish a run whose attempts are spent
)

// DefaultBudget is how many attempts a run has unless configured otherwise.
const DefaultBudget = 5

// Back-off of repeated attempts (protocol.md §6).
const (
	backoffBase   = time.Second
	backoffCap    = 60 * time.Second
	MaxRetryAfter = 10 * time.Minute // a provider that asks for more makes the failure permanent

	// MaxRescueWait is the most that a run waits which dead processes left behind twice in a row. It does not grow: each
	// death took a whole lease to be seen, and a takeover is due two seconds after that.
	MaxRescueWait = backoffBase
)

// Backoff returns how long to wait after attempt number attempts (from 1): exponential with full jitter from one
// second, capped at sixty, or retryAfter when that is longer. jitter is in [0,1).
func Backoff(attempts int, jitter float64, retryAfter time.Duration) time.Duration {
	ceiling := backoffCap
	if attempts < 7 {
		ceiling = min(backoffCap, backoffBase<<max(attempts-1, 0))
	}
	return max(time.Duration(jitter*float64(ceiling)), retryAfter)
}
