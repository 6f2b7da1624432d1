package httpapi

import (
	"encoding/json"
	"time"

	"github.com/keel-agent/keel/domain"
)

// The JSON shapes of protocol.md §10. Fields may be added, never removed.

type sessionJSON struct {
	ID         string              `json:"id"`
	Title      string              `json:"title"`
	State      domain.SessionState `json:"state"`
	StateOwner domain.StateOwner   `json:"stateOwner"`
	Model      string              `json:"model"`
	System     string              `json:"system"`
	Tools      []string            `json:"tools"`
	Metadata   domain.Payload      `json:"metadata"`
	Parent     *parentJSON         `json:"parent,omitempty"`
	ForkedFrom *originJSON         `json:"forkedFrom,omitempty"`
	HeadSeq    domain.Seq          `json:"headSeq"`
	ActiveRun  *runJSON            `json:"activeRun"`
	Usage      *domain.Totals      `json:"usage,omitempty"` // absent in lists
	CreatedAt  string              `json:"createdAt"`
}

type parentJSON struct {
	SessionID  string `json:"sessionId"`
	RunID      string `json:"runId"`
	ToolCallID string `json:"toolCallId"`
}

type originJSON struct {
	SessionID string     `json:"sessionId"`
	Seq       domain.Seq `json:"seq"`
}

type runJSON struct {
	ID              string           `json:"id"`
	SessionID       string           `json:"sessionId"`
	Status          domain.RunStatus `json:"status"`
	Reason          string           `json:"reason,omitempty"`
	Error           string           `json:"error,omitempty"`
	Attempts        int              `json:"attempts"`
	Parked          bool             `json:"parked,omitempty"`
	WaitingFor      json.RawMessage  `json:"waitingFor,omitempty"`
	CancelRequested bool             `json:"cancelRequested"`
	CreatedAt       string           `json:"createdAt,omitempty"` // absent while the run is only promised
	SettledAt       string           `json:"settledAt,omitempty"`
}

type inputJSON struct {
	Created   bool            `json:"created"`
	RequestID string          `json:"requestId"`
	Seq       domain.Seq      `json:"seq"`
	Delivery  domain.Delivery `json:"delivery"`
	Run       *runJSON        `json:"run"`
}

// runAnswer answers a request about one run; Run is null when there is none.
type runAnswer struct {
	Run *runJSON `json:"run"`
}

type listJSON[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"nextCursor,omitempty"`
}

type capabilitiesJSON struct {
	APIVersion     string          `json:"apiVersion"`
	ServiceVersion string          `json:"serviceVersion"`
	Features       map[string]bool `json:"features"`
	Limits         map[string]int  `json:"limits"`
	Hooks          []string        `json:"hooks"`
}

func toSession(s domain.Session, active *domain.Run, usage *domain.Totals) sessionJSON {
	out := sessionJSON{
		ID: s.Ref.Session, Title: s.Title, State: s.State, StateOwner: s.StateOwner, Model: s.Model, System: s.System,
		Tools: append([]string{}, s.Tools...), Metadata: s.Metadata, HeadSeq: s.HeadSeq, ActiveRun: toRun(active),
		Usage: usage, CreatedAt: wireTime(s.CreatedAt),
	}
	if s.Metadata.IsZero() {
		out.Metadata = domain.StoredPayload("{}")
	}
	if p := s.Parent; p != nil {
		out.Parent = &parentJSON{SessionID: p.Session, RunID: p.Run, ToolCallID: p.Call}
	}
	if o := s.ForkedFrom; o != nil {
		out.ForkedFrom = &originJSON{SessionID: o.Session, Seq: o.Seq}
	}
	return out
}

// toRun returns the shape of r, nil for nil.
func toRun(r *domain.Run) *runJSON {
	if r == nil {
		return nil
	}
	return &runJSON{
		ID: r.ID, SessionID: r.Ref.Session, Status: r.Status, Reason: r.Reason, Error: r.Error, Attempts: r.Attempts,
		Parked: r.Parked, WaitingFor: json.RawMessage(r.Wait), CancelRequested: r.CancelSeq != nil,
		CreatedAt: wireTime(r.CreatedAt), SettledAt: wireTime(r.SettledAt),
	}
}

// toInput returns the answer to a committed user.message.
func toInput(out domain.Outcome) inputJSON {
	in, _ := domain.ParseInput(out.Event.Payload) // committed, so it has the shape
	if in.Delivery == "" {
		in.Delivery = domain.Queue
	}
	return inputJSON{
		Created: out.Created, RequestID: in.RequestID, Seq: out.Event.Seq, Delivery: in.Delivery, Run: toRun(out.Run),
	}
}

// wireTime returns "" for the zero time.
func wireTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(domain.TimeFormat)
}
