// Package openaitest is a local server of the Chat Completions wire for tests: it plays answers from byte scripts and keeps
// the requests that it got; see wiretest.
package openaitest

import (
	"net/http"
	"testing"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
)

// Server is a scripted backend. Its methods are safe for concurrent use.
type Server struct{ *wiretest.Server }

// What the script of a server consists of.
type (
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

// Start runs a server until the test ends. A request beyond the last answer is refused with 400.
func Start(t testing.TB) *Server {
	t.Helper()
	return &Server{wiretest.Start(t, wiretest.Wire{
		Generate: "POST /v1/chat/completions", Models: "GET /v1/models",
		ModelsBody: `{"object":"list","data":[{"id":"test-model","object":"model"}]}`,
		Unscripted: Error(http.StatusBadRequest, `{"error":{"message":"openaitest: no answer is scripted for this request","code":"unscripted"}}`),
	})}
}

// URL returns the base URL, /v1 included.
func (s *Server) URL() string { return s.Origin() + "/v1" }

// Bytes returns an answer that writes each piece as it is.
func Bytes(pieces ...string) Response { return wiretest.Bytes(pieces...) }

// Whole returns an answer that is no stream: a JSON body.
func Whole(body string) Response { return wiretest.Whole(body) }

// Error returns an answer with an error status and a JSON body.
func Error(status int, body string) Response { return wiretest.Error(status, body) }
