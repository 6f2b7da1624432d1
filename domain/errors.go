package domain

import "strconv"

// Error is a refusal of the domain. Its Code is stable and machine-readable; errors.Is compares codes alone, so a
// sentinel matches however much detail was added on the way.
type Error struct {
	Code   string // one of the codes of the sentinels below
	Field  string // the payload or request field at fault, "" when there is none
	Detail string // for people; may change
}

func (e *Error) Error() string {
	s := e.Code
	if e.Field != "" {
		s += " (" + e.Field + ")"
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Is reports whether target is a domain error of the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// With returns a copy of e that carries detail.
func (e *Error) With(detail string) *Error {
	c := *e
	c.Detail = detail
	return &c
}

// At returns a copy of e that names the field at fault.
func (e *Error) At(field string) *Error {
	c := *e
	c.Field = field
	return &c
}

// Refusals that a client can meet (protocol.md §2, §10).
var (
	ErrInvalidJSON         = &Error{Code: "invalid_json", Detail: "the text is not strict JSON"}
	ErrInvalidPayload      = &Error{Code: "invalid_payload", Detail: "the payload does not have the shape of its kind"}
	ErrPayloadTooLarge     = &Error{Code: "payload_too_large", Detail: "the payload is larger than this server accepts"}
	ErrInvalidRequest      = &Error{Code: "invalid_request", Detail: "the request is malformed"}
	ErrInvalidKey          = &Error{Code: "invalid_key", Detail: "the idempotency key is missing, malformed or not the key of this kind"}
	ErrUnknownKind         = &Error{Code: "unknown_kind", Detail: "the event kind is not registered"}
	ErrKindNotAllowed      = &Error{Code: "kind_not_allowed", Detail: "events of this kind cannot be written here"}
	ErrInvalidCursor       = &Error{Code: "invalid_cursor", Detail: "the cursor is malformed"}
	ErrCursorAhead         = &Error{Code: "cursor_ahead", Detail: "the cursor lies beyond the head of the ledger"}
	ErrNotFound            = &Error{Code: "not_found", Detail: "there is no such resource"}
	ErrSessionClosed       = &Error{Code: "session_closed", Detail: "the session takes no more input"}
	ErrExternalSession     = &Error{Code: "external_session", Detail: "the session belongs to an external backend"}
	ErrNativeSession       = &Error{Code: "native_session", Detail: "the session is native and takes no external events"}
	ErrIdempotencyConflict = &Error{Code: "idempotency_conflict", Detail: "the key was used before with other content"}
	ErrUnknownModel        = &Error{Code: "unknown_model", Detail: "the catalogue has no such model"}
	ErrUnknownTool         = &Error{Code: "unknown_tool", Detail: "there is no such tool"}
	ErrRevisionConflict    = &Error{Code: "revision_conflict", Detail: "the document was changed by somebody else meanwhile"}
	ErrSecretsUnavailable  = &Error{Code: "secrets_unavailable", Detail: "this server has no key to seal secrets with; its operator can set --secrets-key-file or KEEL_SECRETS_KEY"}
	ErrTooManyInputs       = &Error{Code: "too_many_inputs", Detail: tooManyInputs}
)

var tooManyInputs = "already " + strconv.Itoa(MaxUnanswered) + " inputs of the session wait for an answer, the most that may: " +
	"wait until a run has answered some; while none is active, POST /v1/sessions/{id}/run begins one"

// Refusals that only a worker meets.
var (
	ErrFenced      = &Error{Code: "fenced", Detail: "the lease was lost: the attempt must stop and write nothing more"}
	ErrCancelled   = &Error{Code: "cancelled", Detail: "the run was asked to cancel"}
	ErrOpenCalls   = &Error{Code: "open_calls", Detail: "tool calls are without a result"}
	ErrUnknownCall = &Error{Code: "unknown_call", Detail: "no such committed tool call"}
	ErrCallIDUsed  = &Error{Code: "call_id_used", Detail: "the tool call id was used before in this session"}
)
