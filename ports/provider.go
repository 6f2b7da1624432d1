package ports

import (
	"context"
	"fmt"
	"time"

	"github.com/keel-agent/keel/domain"
)

// Provider generates answers of one backend.
type Provider interface {
	// Name is the provider's short name as it stands in events, for instance "openai".
	Name() string

	// Models lists the models that can be asked for, the default first. It may be empty when the backend does not
	// tell. Models that are Listed are all that there are: any other is refused before the backend is asked. It asks with
	// a tenant's own credential, or with the provider's when that is none; what it lists for one says nothing of another.
	// Of more than MaxModels it need not list all, but more than that; the list then counts as one that lacks models.
	Models(ctx context.Context, credential Confidential) ([]Model, error)

	// Generate asks for one answer. emit is called in order, from one goroutine, with each piece as it arrives; it
	// never blocks for long and must not be called after Generate returned.
	//
	// A complete answer returns a Reply with a stop reason that is neither error nor aborted. Everything else returns
	// an error: a *ProviderError for a fault of the backend or of its stream (also a stream that ended without its end
	// marker, or was silent longer than the idle limit), or the context's cause when ctx ended. The Reply beside an
	// error holds what had arrived, for people to read.
	Generate(ctx context.Context, req ModelRequest, emit func(Delta)) (Reply, error)
}

// MaxModels is how many models of one provider are known at most.
const MaxModels = 2000

// Model describes one model of a provider.
type Model struct {
	ID            string
	ContextWindow int  // tokens, 0 when unknown
	Listed        bool // the backend itself lists it
}

// ModelRequest is what one call of a provider presents.
type ModelRequest struct {
	Model    string // "" means the provider's default
	System   string
	Messages []domain.Message
	Tools    []ToolSpec
	Options  Options
	Turn     Turn

	// Credential is the tenant's own for the backend. None: the provider's.
	Credential Confidential
}

// Options are the parameters of a generation; unset ones are the backend's defaults.
type Options struct {
	Temperature *float64
	MaxTokens   int
	Thinking    string // effort level, "" for the default
}

// Turn tells where in the ledger a request stands; backends have no use for it, scripted ones do.
type Turn struct {
	Selection string // the selection in force, a JSON object or ""
	Call      int    // how many answers, failed ones included, the ledger holds for the input that brought Selection
	Summary   bool   // what is asked for is a summary of the conversation, no answer in it
}

// Delta is one piece of an answer on its way. Exactly one of the pieces is set.
type Delta struct {
	Text     string        `json:"text,omitempty"`
	Thinking string        `json:"thinking,omitempty"`
	ToolCall *ToolCallPart `json:"toolCall,omitempty"`
	End      string        `json:"end,omitempty"` // the generation failed or was given up; drop its frames
}

// ToolCallPart is a piece of a tool call: the name on its first piece, then argument text.
type ToolCallPart struct {
	Index     int    `json:"index"` // ordinal of the call in the answer
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments,omitempty"`
}

// Reply is an answer. Tool calls in Content carry the backend's own id in ProviderID ("" when it gave none) and no ID.
// Arguments are one JSON object, or RawArguments holds the text that was not.
type Reply struct {
	Content    []domain.Block
	StopReason domain.StopReason
	Usage      *domain.Usage
	Model      string // as the backend named it, else as asked for
}

// FaultClass says what a retry may hope for.
type FaultClass string

// The classes of provider faults.
const (
	Retryable FaultClass = "retryable" // overload, rate limit, 5xx, connection, cut stream
	Fatal     FaultClass = "permanent" // credentials, quota, invalid request
	Overflow  FaultClass = "overflow"  // the context is larger than the model's window
	TooLarge  FaultClass = "too_large" // the request has too many bytes
	BadImage  FaultClass = "bad_image" // the backend does not take an image of the request
)

// ProviderError is a fault of a backend.
type ProviderError struct {
	Class      FaultClass
	Status     int    // HTTP status, 0 when there was none
	Code       string // the backend's own code
	Message    string
	RetryAfter time.Duration // what the backend asked for, 0 when nothing
	Err        error         // the cause, when there is one
}

func (e *ProviderError) Error() string {
	s := "provider: " + e.Message
	if e.Status != 0 {
		s += fmt.Sprintf(" (status %d)", e.Status)
	}
	if e.Code != "" {
		s += " [" + e.Code + "]"
	}
	return s
}

// Unwrap returns the cause.
func (e *ProviderError) Unwrap() error { return e.Err }
