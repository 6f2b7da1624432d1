// Package anthropictest is a local server of the Messages wire for tests: it plays answers from byte scripts and keeps the
// requests that it got (see wiretest). It reads every request as the strictest backend does, and refuses what breaks a
// rule of the wire; see Check.
package anthropictest

import (
	"errors"
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
const Model = "claude-test-4-5-20250929"

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
	Generate: "POST /v1/messages", Models: "GET /v1/models",
	ModelsBody: `{"data":[{"type":"model","id":"` + Model + `","max_input_tokens":200000}],"has_more":false,"first_id":"` + Model + `","last_id":"` + Model + `"}`,
	Unscripted: Error(http.StatusBadRequest, Fault("invalid_request_error", "anthropictest: no answer is scripted for this request")),
	Check:      checkRequest,
	Refuse: func(err error) Response {
		return Error(http.StatusBadRequest, Fault("invalid_request_error", err.Error()))
	},
}

func checkRequest(r Request) error {
	if v := r.Header.Get("Anthropic-Version"); v != "2023-06-01" {
		return errors.New("anthropic-version: header is required")
	}
	return Check(r.Body)
}

// Bytes returns an answer that writes each piece as it is.
func Bytes(pieces ...string) Response { return wiretest.Bytes(pieces...) }

// Whole returns an answer that is no stream: a JSON body.
func Whole(body string) Response { return wiretest.Whole(body) }

// Error returns an answer with an error status and a JSON body.
func Error(status int, body string) Response { return wiretest.Error(status, body) }
