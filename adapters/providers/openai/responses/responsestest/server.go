// Package responsestest is a local server of the Responses wire for tests: it plays answers from byte scripts and keeps the
// requests that it got (see wiretest). It reads every request as a strict backend does, and refuses what breaks a rule of
// the wire; see Check.
package responsestest

import (
	"net/http"
	"testing"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
)

// A server, and what its script consists of.
type (
	Server   = wiretest.Server
	Request  = wiretest.Request
	Response = wiretest.Response
	Step     = wiretest.Step
	End      = wiretest.End
)

// The ends of an answer.
const (
	EOF   = wiretest.EOF
	Drop  = wiretest.Drop
	Reset = wiretest.Reset
	Hang  = wiretest.Hang
)

// Model is the model that answers.
const Model = "gpt-test-2026-01-31"

// Start runs a server until the test ends. A request that breaks a rule of the wire is refused with 400 and fails the
// test when that ends; one beyond the last answer is refused, too.
func Start(t testing.TB) *Server {
	t.Helper()
	return wiretest.StartStrict(t, rules)
}

// StartLenient is Start for tests that mean to break a rule.
func StartLenient(t testing.TB) *Server {
	t.Helper()
	return wiretest.Start(t, rules)
}

var rules = wiretest.Wire{
	Base:     "/v1",
	Generate: "POST /v1/responses", Models: "GET /v1/models",
	ModelsBody: `{"object":"list","data":[{"id":"` + Model + `","object":"model"}]}`,
	Unscripted: Error(http.StatusBadRequest, Fault("unscripted", "responsestest: no answer is scripted for this request")),
	Check:      func(r Request) error { return Check(r.Body) },
	Refuse: func(err error) Response {
		return Error(http.StatusBadRequest, Fault("invalid_value", err.Error()))
	},
}

// Error returns an answer with an error status and a JSON body.
func Error(status int, body string) Response { return wiretest.Error(status, body) }
