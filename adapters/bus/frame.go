package bus

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/keel-agent/keel/ports"
)

// wire is a frame between processes. Its session is not in it: the receiver knows that from the digest.
type wire struct {
	Number     uint64      `json:"n"` // no two frames of a process are the same text
	Generation string      `json:"g"`
	Run        string      `json:"r"`
	Attempt    int         `json:"a"`
	Epoch      int64       `json:"e"`
	Delta      ports.Delta `json:"d"`
}

// encoder turns frames into JSON texts of at most max bytes, in which U+0000 is escaped. A frame that needs more is cut
// in two between code points, again and again; what cannot be cut is left out.
type encoder struct {
	max    int
	number uint64
}

func (e *encoder) encode(p ports.Partial) [][]byte {
	text, err := e.text(p)
	if err != nil {
		return nil
	}
	if len(text) <= e.max {
		return [][]byte{text}
	}
	head, tail, ok := halves(p)
	if !ok {
		return nil
	}
	return append(e.encode(head), e.encode(tail)...)
}

func (e *encoder) text(p ports.Partial) ([]byte, error) {
	e.number++
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(wire{
		Number: e.number, Generation: p.GenerationID, Run: p.Run, Attempt: p.Attempt, Epoch: p.Epoch, Delta: p.Delta,
	})
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func decode(text []byte) (p ports.Partial, err error) {
	var w wire
	err = json.Unmarshal(text, &w)
	return ports.Partial{GenerationID: w.Generation, Run: w.Run, Attempt: w.Attempt, Epoch: w.Epoch, Delta: w.Delta}, err
}

// halves cuts the text of a frame in two.
func halves(p ports.Partial) (head, tail ports.Partial, ok bool) {
	head, tail = p, p
	a, b := &head.Delta, &tail.Delta
	switch {
	case p.Delta.Text != "":
		a.Text, b.Text, ok = cut(p.Delta.Text)
	case p.Delta.Thinking != "":
		a.Thinking, b.Thinking, ok = cut(p.Delta.Thinking)
	case p.Delta.ToolCall != nil:
		call := *p.Delta.ToolCall
		first, rest, cuts := cut(call.Arguments)
		a.ToolCall = &ports.ToolCallPart{Index: call.Index, Name: call.Name, Arguments: first}
		b.ToolCall = &ports.ToolCallPart{Index: call.Index, Arguments: rest}
		ok = cuts
	}
	return head, tail, ok
}

func cut(s string) (head, tail string, ok bool) {
	at := len(s) / 2
	for at > 0 && !utf8.RuneStart(s[at]) {
		at--
	}
	return s[:at], s[at:], at > 0
}
