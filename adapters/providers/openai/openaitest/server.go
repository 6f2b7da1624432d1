// Package openaitest is a local server of the Chat Completions wire for tests: it plays answers from byte scripts, with
// exact control over what is written when and how a connection ends, and keeps the requests that it got.
package openaitest

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

// Server is a scripted backend. Its methods are safe for concurrent use.
type Server struct {
	http *httptest.Server
	stop chan struct{} // closed when the test ends

	mu       sync.Mutex
	script   []Response
	requests []Request
	models   string
}

// Request is one that the server got for a completion.
type Request struct {
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
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{stop: make(chan struct{}), models: `{"object":"list","data":[{"id":"test-model","object":"model"}]}`}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.complete)
	mux.HandleFunc("GET /v1/models", s.list)
	s.http = httptest.NewServer(mux)
	t.Cleanup(func() {
		close(s.stop)
		s.http.Close()
	})
	return s
}

// URL returns the base URL, /v1 included.
func (s *Server) URL() string { return s.http.URL + "/v1" }

// Push adds answers, one per request, in order. A request beyond the last one is refused with 400.
func (s *Server) Push(answers ...Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, answers...)
}

// Requests returns the completion requests so far.
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

// SetModels sets the body of GET /models; "" makes it 404.
func (s *Server) SetModels(body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models = body
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	body := s.models
	s.mu.Unlock()
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
	if len(s.script) == 0 {
		return Error(http.StatusBadRequest, `{"error":{"message":"openaitest: no answer is scripted for this request","code":"unscripted"}}`)
	}
	answer := s.script[0]
	s.script = s.script[1:]
	return answer
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	answer := s.next(Request{Header: r.Header.Clone(), Body: body})
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
