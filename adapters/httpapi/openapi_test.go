package httpapi

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
)

// document is the part of the OpenAPI document that must agree with tables of the code.
type document struct {
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Schemas map[string]struct {
			Enum       []string
			Properties map[string]struct {
				Enum     []string
				Required []string
			}
		}
	}
}

func TestDocumentAgreesWithTheCode(t *testing.T) {
	var doc document
	require.NoError(t, json.Unmarshal(openAPIDocument, &doc))

	var served, described []string
	for _, r := range (&api{}).routes() {
		for method := range r.methods {
			served = append(served, strings.ToLower(method)+" "+r.path)
		}
	}
	for path, methods := range doc.Paths {
		for method := range methods {
			described = append(described, method+" "+path)
		}
	}
	served = slices.DeleteFunc(served, func(s string) bool { return s == "get /" }) // a page for people
	require.ElementsMatch(t, served, described)

	var kinds []string
	for _, k := range domain.Kinds() {
		kinds = append(kinds, string(k.Kind))
	}
	require.Equal(t, kinds, doc.Components.Schemas["Kind"].Enum)
	require.ElementsMatch(t, slices.Collect(maps.Keys(statuses)), doc.Components.Schemas["Problem"].Properties["code"].Enum)
}

// Every refusal that a client can meet has a status.
func TestEveryRefusalHasAStatus(t *testing.T) {
	for _, err := range []*domain.Error{
		domain.ErrInvalidJSON, domain.ErrInvalidPayload, domain.ErrPayloadTooLarge, domain.ErrInvalidRequest, domain.ErrInvalidKey,
		domain.ErrUnknownKind, domain.ErrKindNotAllowed, domain.ErrInvalidCursor, domain.ErrCursorAhead, domain.ErrNotFound,
		domain.ErrSessionClosed, domain.ErrExternalSession, domain.ErrNativeSession, domain.ErrIdempotencyConflict, domain.ErrTooManyInputs,
		domain.ErrUnknownModel, domain.ErrUnknownTool, domain.ErrRevisionConflict,
		domain.ErrSecretsUnavailable,
	} {
		require.NotZero(t, statuses[err.Code], err.Code)
	}
	for _, err := range []*domain.Error{domain.ErrFenced, domain.ErrCancelled, domain.ErrOpenCalls, domain.ErrUnknownCall, domain.ErrCallIDUsed} {
		require.Zero(t, statuses[err.Code], "never at the HTTP edge")
	}
}
