// Package geminitest is a local server of the generateContent wire for tests: it plays answers from byte scripts and keeps
// the requests that it got (see wiretest). It reads every request as the strictest model does, and refuses what breaks a
// rule of the wire; see Check.
package geminitest

import (
	"errors"
	"net/http"
	"strings"
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
const Model = "gemini-3-test"

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
	Generate: "POST /v1beta/models/{call}", Models: "GET /v1beta/models",
	ModelsBody: `{"models":[{"name":"models/` + Model + `","inputTokenLimit":1048576,"outputTokenLimit":65536,"supportedGenerationMethods":["generateContent"]}]}`,
	Unscripted: Error(http.StatusBadRequest, Fault(http.StatusBadRequest, "geminitest: no answer is scripted for this request")),
	Check:      checkRequest,
	Refuse: func(err error) Response {
		return Error(http.StatusBadRequest, Fault(http.StatusBadRequest, err.Error()))
	},
}

func checkRequest(r Request) error {
	model, ok := strings.CutSuffix(strings.TrimPrefix(r.Path, "/v1beta/models/"), ":streamGenerateContent")
	if !ok || r.Query != "alt=sse" {
		return errors.New("not a request for a stream of events: " + r.Path + "?" + r.Query)
	}
	return Check(model, r.Body)
}

// Bytes returns an answer that writes each piece as it is.
func Bytes(pieces ...string) Response { return wiretest.Bytes(pieces...) }

// Whole returns an answer that is no stream: a JSON body.
func Whole(body string) Response { return wiretest.Whole(body) }

// Error returns an answer with an error status and a JSON body.
func Error(status int, body string) Response { return wiretest.Error(status, body) }
