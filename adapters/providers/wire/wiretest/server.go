// Package wiretest is a local server for the tests of providers: it plays answers from byte scripts, with exact control
// over what is written when and how a connection ends, and keeps the requests that it got. The backends of the wires
// (openaitest and its like) are routes, checks and scripts on top of it.
package wiretest

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Wire is what a wire adds to the server.
type Wire struct {
	Base       string                 // path of the base URL
	Generate   string                 // pattern of http.ServeMux for the requests that are answered by the script
	Models     string                 // pattern for the list of models
	ModelsBody string                 // what that answers, see SetModels
	Unscripted Response               // the answer to a request beyond the script
	Check      func(r Request) error  // nil for none
	Refuse     func(e error) Response // the answer to a request that Check refuses; it uses up no scripted one
}

// Server is a scripted backend. Its methods are safe for concurrent use.
type Server struct {
	wire Wire
	http *httptest.Server
	stop chan struct{} // closed when the test ends

	mu       sync.Mutex
	script   []Response
	requests []Request
	refused  []error
	models   func(*http.Request) string
}

// Request is one that the server got for a generation.
type Request struct {
	Path   string
	Query  string
	Header http.Header
	Body   []byte
}

// JSON decodes the body into v. It panics when that is impossible.
func (r Request) JSON(v any) {
	if err := json.Unmarshal(r.Body, v); err != nil {
		panic(err)
	}
}

// Response is the answer to one request.
type Response struct {
	Status int               // default 200
	Header map[string]string // Content-Type is text/event-stream unless it is set here
	Steps  []Step
	End    End
}

// Step is something to wait for and then something to write; either may be empty.
type Step struct {
	Delay time.Duration   // waited for first
	Until <-chan struct{} // then this
	Write string          // sent as one piece and flushed
}

// End is how an answer ends after its last step.
type End int

const (
	EOF   End = iota // the body ends properly
	Drop             // the connection is closed in the middle of the body
	Reset            // the connection is reset
	Hang             // nothing more comes, until the client leaves
)

// Start runs a server until the test ends.
func Start(t testing.TB, wire Wire) *Server {
	t.Helper()
	s := &Server{wire: wire, stop: make(chan struct{}), models: func(*http.Request) string { return wire.ModelsBody }}
	mux := http.NewServeMux()
	mux.HandleFunc(wire.Generate, s.generate)
	mux.HandleFunc(wire.Models, s.list)
	s.http = httptest.NewServer(mux)
	t.Cleanup(func() {
		close(s.stop)
		s.http.Close()
	})
	return s
}

// Origin returns the URL of the server, without a path.
func (s *Server) Origin() string { return s.http.URL }

// ServeHTTP answers as the server does, for an address that speaks more wires than one.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.http.Config.Handler.ServeHTTP(w, r)
}

// URL returns the base URL of the wire.
func (s *Server) URL() string { return s.http.URL + s.wire.Base }

// Push adds answers, one per request, in order. A request beyond the last one is refused as the wire says.
func (s *Server) Push(answers ...Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, answers...)
}

// Requests returns the requests for a generation so far, refused ones too.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Pending returns how many answers were not asked for yet.
func (s *Server) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.script)
}

// Refused returns why requests were refused by the check of the wire.
func (s *Server) Refused() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]error(nil), s.refused...)
}

// SetModels sets the body of the list of models; "" makes it 404.
func (s *Server) SetModels(body string) { s.SetModelPages(func(*http.Request) string { return body }) }

// SetModelPages sets the body of the list of models by request; "" makes it 404.
func (s *Server) SetModelPages(page func(*http.Request) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models = page
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	page := s.models
	s.mu.Unlock()
	body := page(r)
	if body == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body)
}

// next records r and returns its answer.
func (s *Server) next(r Request) Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	if s.wire.Check != nil {
		if err := s.wire.Check(r); err != nil {
			s.refused = append(s.refused, err)
			return s.wire.Refuse(err)
		}
	}
	if len(s.script) == 0 {
		return s.wire.Unscripted
	}
	answer := s.script[0]
	s.script = s.script[1:]
	return answer
}

func (s *Server) generate(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	answer := s.next(Request{Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone(), Body: body})
	w.Header().Set("Content-Type", "text/event-stream")
	for name, value := range answer.Header {
		w.Header().Set(name, value)
	}
	if answer.Status == 0 {
		answer.Status = http.StatusOK
	}
	w.WriteHeader(answer.Status)
	control := http.NewResponseController(w)
	_ = control.Flush()
	for _, step := range answer.Steps {
		if !s.wait(r, step) {
			return
		}
		if step.Write != "" {
			_, _ = io.WriteString(w, step.Write)
			_ = control.Flush()
		}
	}
	s.end(answer.End, control, r)
}

// wait returns false when the client left or the test ended first.
func (s *Server) wait(r *http.Request, step Step) bool {
	if step.Delay > 0 {
		timer := time.NewTimer(step.Delay)
		defer timer.Stop()
		if !until(s, r, timer.C) {
			return false
		}
	}
	return step.Until == nil || until(s, r, step.Until)
}

func until[T any](s *Server, r *http.Request, c <-chan T) bool {
	select {
	case <-c:
		return true
	case <-r.Context().Done():
	case <-s.stop:
	}
	return false
}

func (s *Server) end(end End, control *http.ResponseController, r *http.Request) {
	switch end {
	case Hang:
		until[struct{}](s, r, nil)
	case Drop, Reset:
		conn, _, err := control.Hijack()
		if err != nil {
			return
		}
		if tcp, ok := conn.(*net.TCPConn); ok && end == Reset {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}
