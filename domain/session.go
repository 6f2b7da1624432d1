package domain

import "time"

// SessionState says which writes a session takes.
type SessionState string

// The states of a session. Closing refuses the edge while the owner of the last run may still commit.
const (
	SessionOpen    SessionState = "open"
	SessionClosing SessionState = "closing"
	SessionClosed  SessionState = "closed"
)

// StateOwner says whose loop drives the session.
type StateOwner string

// The owners of a session's state. Anything but Native is never claimed.
const (
	Native   StateOwner = "native"
	External StateOwner = "external"
)

// Parent names the tool call of another session that created this one.
type Parent struct {
	Session string
	Run     string
	Call    string
}

// Origin names the ledger prefix that a session was forked from.
type Origin struct {
	Session string
	Seq     Seq
}

// SessionInfo is what a client chose at creation or by a patch.
type SessionInfo struct {
	Title    string
	Model    string
	System   string
	Tools    []string
	Metadata Payload // zero when none was given
}

// Session is a session's row: the only lock of all that belongs to it, and the folds of its ledger.
type Session struct {
	Ref           SessionRef
	CreatedAt     time.Time
	CreateRequest Payload // what the creating client sent, to recognise its retry
	SessionInfo
	State      SessionState
	StateOwner StateOwner
	Parent     *Parent
	ForkedFrom *Origin

	Version int64 // rises with every write to the session's rows
	Owner   string
	Epoch   int64

	HeadSeq  Seq
	HeadAt   time.Time
	HeadHash Hash
	Fold
	ActiveRun string // the run that is pending or running, "" when none
}

// MaxUnanswered is how many inputs of one session may wait for an answer at a time.
const MaxUnanswered = 256

// Work reports whether a claimed run has something to do (protocol.md §5, hasWork).
func (s *Session) Work(compact bool) bool {
	return len(s.Unanswered) > 0 || s.Owed != OwedNone || compact
}

// clone returns a copy that shares with s only what no command changes in place: tools, parent and origin.
func (s *Session) clone() *Session {
	c := *s
	c.Fold = s.Fold.Clone()
	return &c
}
