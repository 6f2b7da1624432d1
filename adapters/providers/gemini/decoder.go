package gemini

import (
	"cmp"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

// decoder reads the chunks of one answer; see wire.Decoder.
type decoder struct {
	wire.Draft
	index  *int64 // of the candidate that is read
	calls  []call
	chunks int
	ended  domain.StopReason // what finish reasons said so far; content behind them makes Stop wait for the next
}

// Event takes the data of one event.
func (d *decoder) Event(e wire.Event) (wire.Life, error) {
	if err := d.take([]byte(e.Data)); err != nil {
		return wire.Ping, err
	}
	return d.Heard()
}

// Whole takes an answer that is no stream: one chunk, or the list of all.
func (d *decoder) Whole(body []byte) error {
	list := []wire.Raw{body}
	if wire.Raw(body).Kind() == '[' {
		if list = wire.Array(body); list == nil {
			return wire.Malformed("the answer is neither a stream nor a list of chunks")
		}
	}
	for _, raw := range list {
		if err := d.take(raw); err != nil {
			return err
		}
	}
	if !d.Complete() {
		return wire.Malformed("the answer is neither a stream nor whole")
	}
	return nil
}

// take reads a chunk.
func (d *decoder) take(data []byte) error {
	var c chunk
	err := wire.Decode(data, &c)
	if err != nil || wire.IsError(c.Error) {
		return wire.EventFault(data, err)
	}
	d.chunks++
	d.Model = cmp.Or(plainModel(wire.Clean(wire.String(c.ModelVersion))), d.Model)
	if u := readUsage(c.UsageMetadata); u != nil {
		d.Usage = u
	}
	for _, raw := range wire.Array(c.Candidates) {
		if err := d.candidate(wire.Members[candidate](raw)); err != nil {
			return err
		}
	}
	d.blocked(wire.String(wire.Members[feedback](c.PromptFeedback).BlockReason))
	return nil
}

// candidate reads one of the answers that the backend offers. Only the first one that it names is read.
func (d *decoder) candidate(c candidate) error {
	index, _ := wire.Int(c.Index)
	if d.index == nil {
		d.index = &index
	}
	if *d.index != index {
		return nil
	}
	before := d.Size()
	for _, raw := range wire.Array(wire.Members[content](c.Content).Parts) {
		d.part(wire.Members[answerPart](raw))
	}
	if d.Size() > before {
		d.Stop = ""
	}
	return d.end(wire.String(c.FinishReason), wire.String(c.FinishMessage))
}
