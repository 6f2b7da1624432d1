package wire

import (
	"bytes"
	"io"
	"iter"

	"github.com/tmaxmax/go-sse"
)

const (
	// maxEvent bounds one event of a stream in bytes. A whole answer can come in one event.
	maxEvent = 16 << 20
	// maxStray bounds how much of a body that is no SSE is kept for the error message.
	maxStray = 64 << 10
)

// Event is one server-sent event.
type Event struct {
	Type string // the event field, mostly ""
	Data string // the data lines, joined by line feeds
}

// Stream reads a body that should be server-sent events. It keeps the lines that are none, since some backends write
// an error, or a whole answer, as plain JSON under the content type of a stream.
type Stream struct{ tap strayTap }

// NewStream returns the stream of body. The caller closes body.
func NewStream(body io.Reader) *Stream { return &Stream{strayTap{r: body}} }

// Events yields the events that carry data, in order. Comments are skipped. An event that the end of the body cuts off
// is dropped, and a body that ends is no error: whether it ended too early is for the codec to say. Any other read
// error, or an event larger than the limit, ends the sequence as its last element.
func (s *Stream) Events() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for e, err := range sse.Read(&s.tap, &sse.ReadConfig{MaxEventSize: maxEvent}) {
			if err == nil && e.Data == "" {
				continue
			}
			if !yield(Event{Type: e.Type, Data: e.Data}, err) || err != nil {
				return
			}
		}
	}
}

// Stray returns what the body held so far beside server-sent events, at most 64 KiB of it.
func (s *Stream) Stray() []byte { return s.tap.found() }

// strayTap copies the lines that are no lines of an event stream while they are read.
type strayTap struct {
	r     io.Reader
	begun bool   // the byte order mark has been looked for
	known bool   // the current line is a field, a comment or blank
	kept  bool   // the current line is stray
	head  []byte // the current line as long as it is neither
	stray []byte
}

func (t *strayTap) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.see(p[:n])
	return n, err
}

const (
	byteOrderMark = "\xef\xbb\xbf"
	// enough bytes of a line tell what it is: the longest field name with its colon, behind a byte order mark.
	enough = len(byteOrderMark) + len("event:")
)

func (t *strayTap) see(p []byte) {
	for len(p) > 0 {
		end := bytes.IndexAny(p, "\r\n")
		line, ended := p, end >= 0
		if ended {
			line = p[:end]
		}
		t.add(line, ended)
		if !ended {
			return
		}
		p = p[end+1:]
	}
}

// add takes a piece of the current line and, if ended, closes the line.
func (t *strayTap) add(piece []byte, ended bool) {
	if !t.known && !t.kept {
		n := min(len(piece), enough-len(t.head))
		t.head = append(t.head, piece[:n]...)
		piece = piece[n:]
		if ended || len(t.head) == enough {
			t.decide()
		}
	}
	if t.kept {
		t.keep(piece)
		if ended {
			t.keep([]byte{'\n'})
		}
	}
	if ended {
		t.known, t.kept, t.head = false, false, t.head[:0]
	}
}

func (t *strayTap) decide() {
	if !t.begun {
		t.begun = true
		t.head = bytes.TrimPrefix(t.head, []byte(byteOrderMark))
	}
	t.known = isFieldLine(t.head)
	if t.kept = !t.known; t.kept {
		t.keep(t.head)
	}
}

// isFieldLine reports whether line, whole or its first bytes, belongs to an event stream.
func isFieldLine(line []byte) bool {
	if len(bytes.TrimSpace(line)) == 0 {
		return true
	}
	name, _, _ := bytes.Cut(line, []byte{':'})
	switch string(name) {
	case "", "data", "event", "id", "retry":
		return true
	}
	return false
}

func (t *strayTap) keep(b []byte) {
	t.stray = append(t.stray, b[:min(len(b), maxStray-len(t.stray))]...)
}

func (t *strayTap) found() []byte {
	if !t.known && !t.kept && !isFieldLine(t.head) {
		return append(bytes.Clone(t.stray), t.head...)
	}
	return t.stray
}
