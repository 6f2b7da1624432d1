package domain

import "math"

// StopReason says why a model's answer ended (protocol.md §8).
type StopReason string

// The vocabulary of stop reasons of an assistant message. StopTurnLimit belongs to run.finished alone.
const (
	StopEndTurn   StopReason = "end_turn"
	StopToolUse   StopReason = "tool_use"
	StopLength    StopReason = "length"
	StopRefusal   StopReason = "refusal"
	StopError     StopReason = "error"
	StopAborted   StopReason = "aborted"
	StopTurnLimit StopReason = "turn_limit"
)

// Completed reports whether an answer that ended so counts as an answer.
func (r StopReason) Completed() bool { return r != StopError && r != StopAborted }

// BlockType names the type of a content block.
type BlockType string

// The block types. Unknown ones are kept in the ledger and left out of a model's context.
const (
	TextBlock     BlockType = "text"
	ThinkingBlock BlockType = "thinking"
	CallBlock     BlockType = "toolCall"
	ImageBlock    BlockType = "image"
)

// Block is one piece of content. Which fields are set follows from Type.
type Block struct {
	Type     BlockType
	Text     string // text
	Thinking string // thinking

	// Signature is the backend's opaque proof of the block, of any type: it goes back with the unchanged block to the same
	// backend, or not at all. A text may be empty but for it.
	Signature string

	ID           string // toolCall: unique in the session
	Name         string // toolCall
	Arguments    string // toolCall: JSON object, exactly as the model wrote its values
	RawArguments string // toolCall: the text that was not one JSON object; Arguments is "" then and the call never runs
	ProviderID   string // toolCall: the id that the backend gave

	MimeType string // image
	Data     string // image: base64
}

// Usage counts tokens. Input includes those that came from a cache or went into one, Output the reasoning. A provider
// that tells nothing has no Usage.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cacheRead,omitempty"`
	CacheWrite int64 `json:"cacheWrite,omitempty"`
	Reasoning  int64 `json:"reasoning,omitempty"`
}

// Add returns the sum of u and v; nil counts as nothing. Counts that no number can hold stop at the largest.
func (u *Usage) Add(v *Usage) *Usage {
	if v == nil {
		return u
	}
	sum := *v
	if u != nil {
		sum.Input = addCount(u.Input, v.Input)
		sum.Output = addCount(u.Output, v.Output)
		sum.CacheRead = addCount(u.CacheRead, v.CacheRead)
		sum.CacheWrite = addCount(u.CacheWrite, v.CacheWrite)
		sum.Reasoning = addCount(u.Reasoning, v.Reasoning)
	}
	return &sum
}

func addCount(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Role says whose voice a model-facing message is.
type Role string

// The roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one message of a model's context.
type Message struct {
	Role    Role
	Content []Block

	// Assistant messages only: where it came from, for what must be replayed to the same backend alone.
	Provider string
	Model    string

	// Tool messages only.
	CallID     string
	ProviderID string
	ToolName   string
	IsError    bool
}

// Assistant is the payload of an assistant.message.
type Assistant struct {
	Content      []Block
	InputSeqs    []Seq
	HasInputSeqs bool // false in ledgers written before inputSeqs
	StopReason   StopReason
	GenerationID string
	Provider     string
	Model        string
	Usage        *Usage
	Cost         *Cost  // at the prices of the time, nil when they were not known
	Error        string // of a message that ended with StopError
}

// CallIDs returns the ids of the message's tool calls in call order.
func (m Assistant) CallIDs() []string {
	var ids []string
	for _, b := range m.Content {
		if b.Type == CallBlock {
			ids = append(ids, b.ID)
		}
	}
	return ids
}

// ToolOutput is the payload of a tool.result.
type ToolOutput struct {
	ToolCallID  string
	Content     []Block
	IsError     bool
	Interrupted bool // a stand-in: the real result will never come
	DurationMS  int64
}

// Compacted is the payload of a compaction: the summary of all that stood in the context before the event FirstKept.
type Compacted struct {
	Summary   string
	FirstKept Seq
	Provider  string // that wrote the summary
	Model     string
	Usage     *Usage // of its writing
	Cost      *Cost  // likewise, nil when not known
}

// Input is the payload of a user.message.
type Input struct {
	Text      string
	Content   []Block
	RequestID string
	Delivery  Delivery
	Requested Delivery // what the client asked for when a guide was demoted, else ""
	Selection string   // JSON object or ""
	RetryOf   Seq      // the input that this one replaces, 0 when none
}

// Delivery says when an input joins the context (protocol.md §4).
type Delivery string

// The deliveries. An absent one means queue.
const (
	Queue Delivery = "queue"
	Guide Delivery = "guide"
)
