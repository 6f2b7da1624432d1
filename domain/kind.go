package domain

import "slices"

// Kind names what an event is. The registry below is the only list of kinds (protocol.md §1).
type Kind string

// The registered kinds.
const (
	UserMessage      Kind = "user.message"
	AssistantMessage Kind = "assistant.message"
	ToolResult       Kind = "tool.result"
	Compaction       Kind = "compaction"
	RunFinished      Kind = "run.finished"
	RunStarted       Kind = "run.started"
	RunFailed        Kind = "run.failed"
	ExternalEvent    Kind = "external.event"
)

// Class says who may commit a kind and with which fence (protocol.md §2).
type Class string

// The classes of commits.
const (
	ClassEdge     Class = "edge"     // clients; no lease token
	ClassOwner    Class = "owner"    // the session's current owner; lease token required
	ClassExternal Class = "external" // the external gateway; no lease token
)

// KeyName names the one idempotency key that a kind declares.
type KeyName string

// The key names. A kind with NoKey must carry none.
const (
	NoKey        KeyName = ""
	RequestID    KeyName = "requestId"
	GenerationID KeyName = "generationId"
	ToolCallID   KeyName = "toolCallId"
)

// KindSpec is one row of the registry.
type KindSpec struct {
	Kind     Kind
	Class    Class
	Key      KeyName
	Reserved bool // vocabulary and fence exist, nothing emits it
}

var registry = []KindSpec{
	{Kind: UserMessage, Class: ClassEdge, Key: RequestID},
	{Kind: AssistantMessage, Class: ClassOwner, Key: GenerationID},
	{Kind: ToolResult, Class: ClassOwner, Key: ToolCallID},
	{Kind: Compaction, Class: ClassOwner},
	{Kind: RunFinished, Class: ClassOwner},
	{Kind: RunStarted, Class: ClassOwner, Reserved: true},
	{Kind: RunFailed, Class: ClassOwner, Reserved: true},
	{Kind: ExternalEvent, Class: ClassExternal, Key: RequestID},
}

// Kinds returns a copy of the registry in its fixed order. Whoever has to spell the kinds again, as the API document does,
// is held against it by a test (protocol.md §1).
func Kinds() []KindSpec { return slices.Clone(registry) }

// LookupKind returns the registry row of k, or ErrUnknownKind.
func LookupKind(k Kind) (KindSpec, error) {
	for _, s := range registry {
		if s.Kind == k {
			return s, nil
		}
	}
	return KindSpec{}, ErrUnknownKind.With("unknown kind " + quoteJSON(string(k))).At("kind")
}

// EdgeWritable returns nil when a client may write k: exactly the kinds of class edge. It returns ErrUnknownKind for
// an unregistered kind and ErrKindNotAllowed for one of another class.
func EdgeWritable(k Kind) error {
	s, err := LookupKind(k)
	if err != nil {
		return err
	}
	if s.Class != ClassEdge {
		return ErrKindNotAllowed.With("clients cannot write " + string(k)).At("kind")
	}
	return nil
}
