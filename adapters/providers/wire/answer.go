package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/keel-agent/keel/ports"
)

// MaxReply bounds what one answer may hold in bytes: a model that loops writes until somebody stops it.
const MaxReply = 32 << 20

const (
	// tail is how long a complete answer waits for its usage where the backend neither sends an end marker nor ends the
	// body, and how long an error waits for its body.
	tail = 3 * time.Second
	// linger is how long the end of a body is waited for after the end marker, so that its connection can serve again.
	linger = 50 * time.Millisecond
)

// Life says what an event meant to a stream.
type Life int

// The meanings, in the order of what they say.
const (
	Ping     Life = iota // nothing
	Alive                // the answer goes on
	Finished             // the answer is complete; usage may follow, or content that shows that it was not
	Done                 // nothing follows
)

// Decoder turns the events of one answer into a reply.
type Decoder interface {
	// Event takes the next event, its data without white space around it. What the event field calls an error does not come here,
	// nor does the line "[DONE]". The error is a *ports.ProviderError that ends the answer.
	Event(Event) (Life, error)
	// Whole takes the JSON body of an answer that is no stream. The error is a *ports.ProviderError.
	Whole(body []byte) error
	// Complete reports whether a stop reason has come.
	Complete() bool
	// Reply returns the complete answer, or what had come beside the fault that makes it a failed attempt. asked is the
	// model that was asked for.
	Reply(asked string) (ports.Reply, error)
	// Partial returns what had come of an answer that failed.
	Partial(asked string) ports.Reply
}

// ReadAnswer reads the body of an answer: a stream, or a whole answer where the backend does not stream. A stream that
// ends before d is complete is a fault.
func ReadAnswer(body io.Reader, asked string, d Decoder, watch *Watch) (ports.Reply, error) {
	buffered := bufio.NewReader(body)
	if startsJSON(buffered) {
		return readWhole(buffered, asked, d, watch)
	}
	stream := NewStream(buffered)
	last, err := readEvents(stream, d, watch)
	var fault *ports.ProviderError
	switch {
	case errors.As(err, &fault):
		return d.Partial(asked), err
	case d.Complete():
		if last == Done {
			watch.Last(linger)
			_, _ = io.Copy(io.Discard, io.LimitReader(buffered, maxErrorBody))
		}
		return d.Reply(asked)
	}
	if fault := StrayFault(stream.Stray()); fault != nil {
		return d.Partial(asked), fault
	}
	if err != nil {
		return d.Partial(asked), watch.Fault(err)
	}
	return d.Partial(asked), Cut(stream.Stray())
}

// readEvents reads until nothing more will come, and returns what the last event meant. The error is a fault of the
// backend, or whatever ended the reading.
func readEvents(stream *Stream, d Decoder, watch *Watch) (Life, error) {
	last := Ping
	for e, err := range stream.Events() {
		if err != nil {
			return last, err
		}
		l, err := take(d, e)
		if err != nil {
			return l, err
		}
		switch {
		case l == Done:
			return Done, nil
		case l == Finished && last != Finished:
			watch.Last(tail)
		case l == Alive:
			watch.Alive()
		}
		if l != Ping {
			last = l
		}
	}
	return last, nil
}

// take gives e to d: line by line where a server ended events with one line feed in place of two.
func take(d Decoder, e Event) (Life, error) {
	e.Data = strings.TrimSpace(e.Data)
	switch {
	case e.Data == "":
		return Ping, nil
	case e.Data == "[DONE]": // of OpenAI, and of imitations of other wires
		return Done, nil
	case e.Type == "error":
		return Ping, errorEvent(e.Data).Error()
	case !strings.Contains(e.Data, "\n") || json.Valid([]byte(e.Data)):
		return d.Event(e)
	}
	best := Ping
	for line := range strings.Lines(e.Data) {
		l, err := take(d, Event{Data: line})
		if err != nil {
			return l, err
		}
		best = max(best, l)
	}
	return best, nil
}

func readWhole(body io.Reader, asked string, d Decoder, watch *Watch) (ports.Reply, error) {
	whole, err := io.ReadAll(io.LimitReader(body, MaxReply))
	if err != nil {
		if fault := StrayFault(whole); fault != nil {
			return d.Partial(asked), fault
		}
		return d.Partial(asked), watch.Fault(err)
	}
	whole = bytes.TrimSpace(whole)
	if len(whole) == 0 {
		return d.Partial(asked), Malformed("the answer is empty")
	}
	if err := d.Whole(whole); err != nil {
		return d.Partial(asked), err
	}
	return d.Reply(asked)
}

// startsJSON reports whether the first byte that is no white space begins a JSON value, and skips to it.
func startsJSON(r *bufio.Reader) bool {
	for {
		b, err := r.ReadByte()
		switch {
		case err != nil:
			return false
		case b == ' ' || b == '\t' || b == '\r' || b == '\n':
			continue
		}
		_ = r.UnreadByte()
		return b == '{' || b == '['
	}
}

// Malformed returns the fault of an answer that breaks the rules of its wire.
func Malformed(why string) *ports.ProviderError {
	return &ports.ProviderError{Class: ports.Retryable, Code: "malformed_stream", Message: why}
}

// UnknownStop returns the fault of an answer that ended for a reason which its wire does not tell. code is what the wire calls
// such a reason.
func UnknownStop(code, reason string) *ports.ProviderError {
	return &ports.ProviderError{Class: ports.Retryable, Code: code, Message: "the answer ended for an unknown reason: " + Clean(reason)}
}
