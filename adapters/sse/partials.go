package sse

import (
	"bytes"
	"encoding/json"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// partialJSON is the wire form of a partial.
type partialJSON struct {
	GenerationID string      `json:"generationId"`
	RunID        string      `json:"runId"`
	Attempt      int         `json:"attempt"`
	Delta        ports.Delta `json:"delta"`
}

func encodePartial(p ports.Partial) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(partialJSON{GenerationID: p.GenerationID, RunID: p.Run, Attempt: p.Attempt, Delta: p.Delta})
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// partialFilter keeps back what would mislead a reader: frames of an attempt that a later one replaced, and frames of
// a generation whose message has been sent.
type partialFilter struct {
	epoch  int64
	landed string
}

// committed notes a frame that was sent.
func (f *partialFilter) committed(frame Frame) {
	f.epoch = max(f.epoch, frame.Epoch)
	if frame.Generation != "" {
		f.landed = frame.Generation
	}
}

// pass reports whether p may be sent.
func (f *partialFilter) pass(p ports.Partial) bool {
	if p.Epoch < f.epoch || p.GenerationID == f.landed && f.landed != "" {
		return false
	}
	f.epoch = p.Epoch
	return true
}

// subscribePartials returns a channel that never receives when partials are off.
func subscribePartials(from ports.Partials, ref domain.SessionRef, on bool) (<-chan ports.Partial, func()) {
	if !on || from == nil {
		return nil, func() {}
	}
	return from.Subscribe(ref)
}
