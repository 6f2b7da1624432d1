package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/keel-agent/keel/adapters/providers/anthropic"
	"github.com/keel-agent/keel/adapters/providers/gemini"
	"github.com/keel-agent/keel/adapters/providers/openai"
	"github.com/keel-agent/keel/adapters/providers/openai/responses"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

const (
	streamPieces    = 4000 // pieces of text in the stream that is decoded
	requestMessages = 10_000
)

// wireOf is a wire to measure: its provider, and a stream with pieces of text between a beginning and an end.
type wireOf struct {
	name  string
	open  func(client *http.Client) (ports.Provider, error)
	begin string
	piece string
	end   string
}

const (
	benchBackend = "http://backend.invalid"
	benchModel   = "m"
	pieceText    = `The quick brown fox said \"5 \u20ac\" and\n`
)

var wires = []wireOf{
	{
		name: "Chat Completions",
		open: func(c *http.Client) (ports.Provider, error) {
			return openai.New(openai.Config{BaseURL: benchBackend, Model: benchModel, HTTPClient: c})
		},
		piece: `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":"` + pieceText + `"},"finish_reason":null}]}`,
		end:   `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
	}, {
		name: "Responses",
		open: func(c *http.Client) (ports.Provider, error) {
			return responses.New(openai.Config{BaseURL: benchBackend, Model: benchModel, HTTPClient: c})
		},
		begin: `data: {"type":"response.output_item.added","output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant","content":[]}}`,
		piece: `data: {"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"` + pieceText + `","logprobs":[],"sequence_number":1}`,
		end:   `data: {"type":"response.completed","response":{"id":"resp_1","status":"completed","model":"m","output":[]}}`,
	}, {
		name: "Messages",
		open: func(c *http.Client) (ports.Provider, error) {
			return anthropic.New(anthropic.Config{BaseURL: benchBackend, Model: benchModel, HTTPClient: c})
		},
		begin: `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		piece: `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + pieceText + `"}}`,
		end:   `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}`,
	}, {
		name: "generateContent",
		open: func(c *http.Client) (ports.Provider, error) {
			return gemini.New(gemini.Config{BaseURL: benchBackend, Model: benchModel, HTTPClient: c})
		},
		piece: `data: {"candidates":[{"content":{"parts":[{"text":"` + pieceText + `"}],"role":"model"},"index":0}],"modelVersion":"m"}`,
		end:   `data: {"candidates":[{"content":{"parts":[{"text":"."}],"role":"model"},"finishReason":"STOP","index":0}],"modelVersion":"m"}`,
	},
}

// stream returns a stream of n pieces.
func (w wireOf) stream(n int) string {
	events := append([]string{w.begin}, strings.Split(strings.Repeat(w.piece+"\n", n), "\n")...)
	return strings.TrimLeft(strings.Join(append(events[:n+1], w.end), "\n\n")+"\n\n", "\n")
}

// canned answers each request with the same stream, and keeps the size of the last request.
type canned struct {
	stream string
	sent   []byte
}

func (c *canned) RoundTrip(r *http.Request) (*http.Response, error) {
	defer func() { _ = r.Body.Close() }()
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	c.sent = sent
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(c.stream)), Request: r,
	}, nil
}

// decode measures how fast the answers of each wire are read, from the body of the HTTP answer to the reply. The limit
// only splits the body into lines and reads the JSON in them.
func decode(ctx context.Context, b *bench) ([]row, error) {
	var rows []row
	for _, w := range wires {
		backend := &canned{stream: w.stream(streamPieces)}
		ask, err := w.asking(backend, nil)
		if err != nil {
			return nil, err
		}
		readJSON := func(context.Context) error { return readData(backend.stream) }
		s, ours, theirs, err := b.beside(ctx, w.name, ask, "encoding/json", readJSON)
		if err != nil {
			return nil, err
		}
		figure := func(side int, allocs float64) string {
			return fmt.Sprintf("%.0f MB/s, %.1f allocations per event", s.median(side)*float64(len(backend.stream))/1e6, allocs/streamPieces)
		}
		rows = append(rows, row{
			measure: "decode, " + w.name, ours: figure(0, ours.count), limit: "`encoding/json` into any, lines split " + figure(1, theirs.count),
			ratio: times(s.ratio(0, 1)),
		})
	}
	return rows, nil
}

// requests measures what one request with a long context costs, until the backend has read its body. The limit writes
// the same request, which is JSON in memory already.
func requests(ctx context.Context, b *bench) ([]row, error) {
	var rows []row
	messages := conversation(requestMessages)
	for _, w := range wires {
		backend := &canned{stream: w.stream(1)}
		ask, err := w.asking(backend, messages)
		if err != nil {
			return nil, err
		}
		if err := ask(ctx); err != nil {
			return nil, err
		}
		var same any
		if err := json.Unmarshal(backend.sent, &same); err != nil {
			return nil, err
		}
		writeJSON := func(context.Context) error {
			_, err := json.Marshal(same)
			return err
		}
		s, ours, theirs, err := b.beside(ctx, w.name, ask, "encoding/json", writeJSON)
		if err != nil {
			return nil, err
		}
		figure := func(side int, a allocated) string {
			return ms(1000/s.median(side)) + ", " + kib(a.bytes) + " allocated"
		}
		rows = append(rows, row{
			measure: fmt.Sprintf("request of %s messages, %s, %s", thousands(requestMessages), w.name, kib(float64(len(backend.sent)))),
			ours:    figure(0, ours), limit: "`encoding/json` of the same in memory " + figure(1, theirs),
			ratio: times(s.ratio(0, 1)),
		})
	}
	return rows, nil
}

// asking returns a function that asks the wire's provider for one answer about messages.
func (w wireOf) asking(backend *canned, messages []domain.Message) (func(context.Context) error, error) {
	p, err := w.open(&http.Client{Transport: backend})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		reply, err := p.Generate(ctx, ports.ModelRequest{Model: benchModel, Messages: messages}, func(ports.Delta) {})
		if err == nil && len(reply.Content) != 1 {
			err = fmt.Errorf("%s: the answer has %d blocks", w.name, len(reply.Content))
		}
		return err
	}, nil
}

// allocated is what one operation allocates.
type allocated struct{ count, bytes float64 }

// beside lets two operations take turns, and counts what one of each allocates.
func (b *bench) beside(ctx context.Context, name string, op func(context.Context) error, peer string, other func(context.Context) error) (s scores, ours, theirs allocated, err error) {
	if ours, err = allocationsOf(ctx, op); err != nil {
		return
	}
	if theirs, err = allocationsOf(ctx, other); err != nil {
		return
	}
	s, err = b.contest(ctx, side{name: name, round: byProcessorTime(op)}, side{name: peer, round: byProcessorTime(other)})
	return
}

// byProcessorTime is a side's round that does op for a time, and returns how often a second of processor time does it:
// nothing here waits, and who else uses the machine shall not count.
func byProcessorTime(op func(context.Context) error) func(context.Context, time.Duration) (float64, error) {
	return func(ctx context.Context, d time.Duration) (float64, error) {
		before, err := processorTime()
		if err != nil {
			return 0, err
		}
		began, done := time.Now(), 0
		for ; time.Since(began) < d; done++ {
			if err := op(ctx); err != nil {
				return 0, err
			}
		}
		after, err := processorTime()
		return float64(done) / (after - before).Seconds(), err
	}
}

// processorTime is what the process has used so far, the collector included.
func processorTime() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

func allocationsOf(ctx context.Context, op func(context.Context) error) (allocated, error) {
	const times = 5
	if err := op(ctx); err != nil { // what the first one sets up does not count
		return allocated{}, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		if err := op(ctx); err != nil {
			return allocated{}, err
		}
	}
	runtime.ReadMemStats(&after)
	return allocated{float64(after.Mallocs-before.Mallocs) / times, float64(after.TotalAlloc-before.TotalAlloc) / times}, nil
}

// readData reads the JSON of each data line.
func readData(stream string) error {
	lines := bufio.NewScanner(strings.NewReader(stream))
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		var v any
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
	}
	return lines.Err()
}

// conversation returns n messages: questions, answers with a call, and results.
func conversation(n int) []domain.Message {
	const prose = "The quick brown fox jumps over the lazy dog, and \"the lazy dog\" does not mind at all.\n"
	text := func(i int) domain.Block {
		return domain.Block{Type: domain.TextBlock, Text: fmt.Sprintf("%d: %s", i, prose)}
	}
	list := make([]domain.Message, 0, n)
	for i := range n {
		id := fmt.Sprintf("call_%d", i/4)
		switch i % 4 {
		case 0:
			list = append(list, domain.Message{Role: domain.RoleUser, Content: []domain.Block{text(i)}})
		case 1:
			call := domain.Block{Type: domain.CallBlock, ID: id, Name: "read", Arguments: fmt.Sprintf(`{"path":"file-%d.txt","limit":100}`, i)}
			list = append(list, domain.Message{Role: domain.RoleAssistant, Content: []domain.Block{text(i), call}})
		case 2:
			list = append(list, domain.Message{Role: domain.RoleTool, CallID: id, ToolName: "read", Content: []domain.Block{text(i)}})
		default:
			list = append(list, domain.Message{Role: domain.RoleAssistant, Content: []domain.Block{text(i)}})
		}
	}
	return list
}
