package httpapi

import (
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Codes of problems that arise at this edge; the others are those of domain's errors.
const (
	codeUnauthorized         = "unauthorized"
	codeHostNotAllowed       = "host_not_allowed"
	codeCrossOrigin          = "cross_origin"
	codeMethodNotAllowed     = "method_not_allowed"
	codeUnsupportedMediaType = "unsupported_media_type"
	codeDraining             = "draining"
	codeUnavailable          = "unavailable"
	codeInternal             = "internal"
)

// statuses is the one table from code to HTTP status (protocol.md §2, §10). What is not in it is internal.
var statuses = map[string]int{
	domain.ErrInvalidJSON.Code:         http.StatusBadRequest,
	domain.ErrInvalidPayload.Code:      http.StatusBadRequest,
	domain.ErrInvalidRequest.Code:      http.StatusBadRequest,
	domain.ErrInvalidKey.Code:          http.StatusBadRequest,
	domain.ErrUnknownKind.Code:         http.StatusBadRequest,
	domain.ErrKindNotAllowed.Code:      http.StatusBadRequest,
	domain.ErrInvalidCursor.Code:       http.StatusBadRequest,
	domain.ErrUnknownModel.Code:        http.StatusBadRequest,
	domain.ErrUnknownTool.Code:         http.StatusBadRequest,
	domain.ErrCursorAhead.Code:         http.StatusBadRequest,
	codeUnauthorized:                   http.StatusUnauthorized,
	codeHostNotAllowed:                 http.StatusForbidden,
	codeCrossOrigin:                    http.StatusForbidden,
	domain.ErrNotFound.Code:            http.StatusNotFound,
	codeMethodNotAllowed:               http.StatusMethodNotAllowed,
	domain.ErrSessionClosed.Code:       http.StatusConflict,
	domain.ErrExternalSession.Code:     http.StatusConflict,
	domain.ErrNativeSession.Code:       http.StatusConflict,
	domain.ErrIdempotencyConflict.Code: http.StatusConflict,
	domain.ErrRevisionConflict.Code:    http.StatusPreconditionFailed,
	domain.ErrPayloadTooLarge.Code:     http.StatusRequestEntityTooLarge,
	codeUnsupportedMediaType:           http.StatusUnsupportedMediaType,
	domain.ErrTooManyInputs.Code:       http.StatusTooManyRequests,
	domain.ErrSecretsUnavailable.Code:  http.StatusNotImplemented,
	codeInternal:                       http.StatusInternalServerError,
	codeDraining:                       http.StatusServiceUnavailable,
	codeUnavailable:                    http.StatusServiceUnavailable,
}

// retryAfter is what a client is asked to wait, in seconds, before it tries again after a 503.
const retryAfter = "1"

// problem is an RFC 9457 body. Type is always about:blank: clients go by Code.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Field  string `json:"field,omitempty"`

	Head *domain.Seq `json:"head,omitempty"` // of cursor_ahead: the last seq there is
}

// writeProblem completes p from its code and writes it.
func writeProblem(w http.ResponseWriter, p problem) {
	p.Type, p.Status = "about:blank", statuses[p.Code]
	p.Title = http.StatusText(p.Status)
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	write(w, p.Status, "application/problem+json", p)
}

// fail writes the problem of err. What err says beyond a refusal of the domain goes to the log alone.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	switch {
	case r.Context().Err() != nil:
		a.log.Debug("client left", requestField(r), zap.Error(err))
	case p.Code == codeInternal || p.Code == codeUnavailable:
		a.log.Error("request failed", requestField(r), zap.String("method", r.Method), zap.String("path", r.URL.Path), zap.Error(err))
	}
	writeProblem(w, p)
}

func problemOf(err error) problem {
	var refusal *domain.Error
	switch {
	case errors.Is(err, domain.ErrNotFound): // whatever is missing, and whosever it is, the body is the same
		return problem{Code: domain.ErrNotFound.Code, Detail: domain.ErrNotFound.Detail}
	case errors.As(err, &refusal) && statuses[refusal.Code] != 0:
		p := problem{Code: refusal.Code, Detail: refusal.Detail, Field: refusal.Field}
		var ahead interface{ LedgerHead() domain.Seq }
		if errors.As(err, &ahead) {
			head := ahead.LedgerHead()
			p.Head = &head
		}
		return p
	case errors.Is(err, ports.ErrUnavailable):
		return problem{Code: codeUnavailable, Detail: "the store cannot be reached or is too busy; the same request may be sent again"}
	}
	return problem{Code: codeInternal, Detail: "something went wrong; the server's log names this request's id"}
}

// notFound answers for paths without a route as for sessions that are missing.
func (a *api) notFound(w http.ResponseWriter, r *http.Request) { a.fail(w, r, domain.ErrNotFound) }
