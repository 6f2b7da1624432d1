// Package backend is a model without a model: a local server of the Chat Completions wire whose answers are made from
// what the request presents alone. Each answer names the inputs that it was made from, so that whoever reads a ledger
// can tell whether the request was right; the inputs say in a directive, [do:…], what is to happen.
package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keel-agent/keel/torture/check"
)

// Server is a running backend.
type Server struct {
	url    string
	http   *http.Server
	healed atomic.Bool
	asked  atomic.Int64
	failed atomic.Int64

	mu     sync.Mutex
	faults map[string]int // input: how often it made an answer fail
}

// Start listens on a loopback port.
func Start(ctx context.Context) (*Server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{url: "http://" + l.Addr().String() + "/v1", faults: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.complete)
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"torture","object":"model"}]}`)
	})
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.http.Serve(l) }()
	return s, nil
}

// URL is the base URL.
func (s *Server) URL() string { return s.url }

// Close ends the server.
func (s *Server) Close() { _ = s.http.Close() }

// Heal ends all faults: from now on every answer is whole.
func (s *Server) Heal() { s.healed.Store(true) }

// Asked returns how many answers were asked for, and how many of them were made to fail.
func (s *Server) Asked() (asked, failed int64) { return s.asked.Load(), s.failed.Load() }

type request struct {
	Messages []message `json:"messages"`
}

type message struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls []struct{}      `json:"tool_calls"`
}

// turn is what the request is about: everything behind the last answer that called no tool.
type turn struct {
	inputs []string // the inputs of the whole context
	recent []string // those of the turn
	do     directive
	rounds int // answers of the turn that called tools
}

func read(r request) turn {
	var t turn
	var text string
	for _, m := range r.Messages {
		switch {
		case m.Role == "user":
			ids := check.Tokens(string(m.Content))
			t.inputs, t.recent = append(t.inputs, ids...), append(t.recent, ids...)
			text += string(m.Content)
		case m.Role == "assistant" && len(m.ToolCalls) > 0:
			t.rounds++
		case m.Role == "assistant":
			t.recent, t.rounds, text = nil, 0, ""
		}
	}
	t.do = parse(text)
	return t
}

// directive is what the inputs of a turn ask for: the first one that names tools decides on them, each fault counts.
type directive struct {
	pieces, delay, rounds, sleep int
	tools                        string
	faults                       []fault
}

type fault struct {
	input string
	kind  string
	times int
}

var asks = regexp.MustCompile(`\[in:([^\[\]\s"\\]+)\] \[do:([^\]]*)\]`)

func parse(text string) directive {
	var d directive
	for _, m := range asks.FindAllStringSubmatch(text, -1) {
		settings := map[string]string{}
		for pair := range strings.SplitSeq(m[2], ",") {
			name, value, _ := strings.Cut(pair, "=")
			settings[name] = value
		}
		number := func(name string) int { n, _ := strconv.Atoi(settings[name]); return n }
		d.pieces, d.delay = max(d.pieces, number("pieces")), max(d.delay, number("delay"))
		if d.tools == "" {
			d.tools, d.rounds, d.sleep = settings["tools"], number("rounds"), number("sleep")
		}
		if kind := settings["fail"]; kind != "" {
			d.faults = append(d.faults, fault{m[1], kind, number("times")})
		}
	}
	return d
}

// due returns how this answer is to fail, "" when it is not.
func (s *Server) due(faults []fault) string {
	if s.healed.Load() {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range faults {
		if s.faults[f.input] < f.times {
			s.faults[f.input]++
			return f.kind
		}
	}
	return ""
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	var req request
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, `{"error":{"message":"the request is not JSON"}}`, http.StatusBadRequest)
		return
	}
	s.asked.Add(1)
	t := read(req)
	failing := s.due(t.do.faults)
	if failing != "" {
		s.failed.Add(1)
	}
	if status, err := strconv.Atoi(failing); err == nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":{"message":"the input wants this to fail","code":"wanted"}}`)
		return
	}
	s.stream(w, r, t, failing)
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request, t turn, failing string) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := stream{w: w, rc: http.NewResponseController(w)}
	pieces := split("saw "+named(t.inputs), max(1, t.do.pieces))
	for i, piece := range pieces {
		if i > 0 && !wait(r.Context(), time.Duration(t.do.delay)*time.Millisecond) {
			return
		}
		out.delta(map[string]any{"content": piece}, nil)
		if failing != "" && i == len(pieces)/2 {
			out.fail(failing)
			return
		}
	}
	reason := "stop"
	if t.rounds < t.do.rounds {
		reason = "tool_calls"
		for i, c := range calls(t) {
			out.delta(map[string]any{"tool_calls": []any{map[string]any{
				"index": i, "id": fmt.Sprint("call-", i), "type": "function", "function": map[string]string{"name": c[0], "arguments": c[1]},
			}}}, nil)
		}
	}
	out.delta(map[string]any{}, reason)
	out.data("[DONE]")
}

// named is the list of inputs as it stands in an answer.
func named(ids []string) string {
	marks := make([]string, len(ids))
	for i, id := range ids {
		marks[i] = check.Token(id)
	}
	return strings.Join(marks, " ")
}

// split cuts text behind spaces into at most n pieces that join to it.
func split(text string, n int) []string {
	words := strings.SplitAfter(text, " ")
	var pieces []string
	for each := (len(words) + n - 1) / n; len(words) > 0; words = words[min(each, len(words)):] {
		pieces = append(pieces, strings.Join(words[:min(each, len(words))], ""))
	}
	return pieces
}

// calls returns name and arguments of each tool call of an answer.
func calls(t turn) [][2]string {
	var list [][2]string
	for i, initial := range t.do.tools {
		switch initial {
		case 'c':
			h := fnv.New32a()
			_, _ = fmt.Fprint(h, t.recent, t.rounds, i)
			list = append(list, [2]string{"calculator", fmt.Sprintf(`{"expression":"%d*%d"}`, h.Sum32(), 1000003+i)})
		case 's':
			list = append(list, [2]string{"sleep", fmt.Sprintf(`{"ms":%d}`, t.do.sleep)})
		case 't':
			list = append(list, [2]string{"time", `{}`})
		}
	}
	return list
}

// wait returns false when the client left first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// stream writes one answer.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (s stream) data(text string) {
	_, _ = fmt.Fprintf(s.w, "data: %s\n\n", text)
	_ = s.rc.Flush()
}

func (s stream) delta(delta map[string]any, reason any) {
	chunk, _ := json.Marshal(map[string]any{ // such a map always encodes
		"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "torture",
		"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": reason}},
	})
	s.data(string(chunk))
}

// fail ends the answer in the middle: with an error inside the stream, by its end without an end marker, or by a reset.
func (s stream) fail(kind string) {
	switch kind {
	case "error":
		s.data(`{"error":{"message":"the input wants this to fail","code":"overloaded"}}`)
	case "reset":
		conn, _, err := s.rc.Hijack()
		if err != nil {
			return
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}
