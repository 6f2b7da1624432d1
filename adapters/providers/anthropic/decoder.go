package anthropic

import (
	"cmp"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// decoder reads the events of one answer; see wire.Decoder.
type decoder struct {
	wire.Draft
	id     string
	at     map[int64]*wire.Part // the latest block of each index
	blocks []*wire.Part
	counts counters
	full   bool // the model's window ended the answer
}

// Event takes the data of one event.
func (d *decoder) Event(e wire.Event) (wire.Life, error) {
	data := []byte(e.Data)
	var v event
	err := wire.Decode(data, &v)
	name := cmp.Or(wire.String(v.Type), e.Type)
	if err != nil || name == "error" || wire.IsError(v.Error) {
		return wire.Ping, wire.EventFault(data, err)
	}
	if err := d.take(name, v); err != nil {
		return wire.Ping, err
	}
	life, err := d.Heard()
	if err == nil && name == "message_stop" {
		life = wire.Done
	}
	return life, err
}

// take reads an event. One of an unknown name says nothing.
func (d *decoder) take(name string, v event) error {
	switch name {
	case "message_start":
		return d.begin(wire.Members[wholeMessage](v.Message))
	case "content_block_start":
		i, ok := wire.Int(v.Index)
		if !ok {
			i = int64(len(d.blocks))
		}
		return d.open(i, wire.Members[contentBlock](v.ContentBlock))
	case "content_block_delta":
		p, err := d.told(v.Index)
		if err != nil {
			return err
		}
		return d.piece(p, wire.Members[contentDelta](v.Delta))
	case "content_block_stop":
		p, err := d.told(v.Index)
		if p != nil {
			p.Pending = false
			d.Close(p)
		}
		return err
	case "message_delta":
		d.count(v.Usage)
		return d.end(wire.String(wire.Members[wholeMessage](v.Delta).StopReason))
	}
	return nil
}

// told returns the block of an index, where none is told the latest one; nil when there is none. Which of several open
// calls is meant is not guessed.
func (d *decoder) told(index wire.Raw) (*wire.Part, error) {
	if i, ok := wire.Int(index); ok || len(d.blocks) == 0 {
		return d.at[i], nil
	}
	open := 0
	for _, p := range d.blocks {
		if p.Type == domain.CallBlock && p.Pending {
			open++
		}
	}
	if open > 1 {
		return nil, &ports.ProviderError{
			Class: ports.Retryable, Code: "ambiguous_tool_call", Message: "an event without an index came while several tool calls were open",
		}
	}
	return d.blocks[len(d.blocks)-1], nil
}

// begin takes the head of the message. It may come again, but not for another message once this one has content.
func (d *decoder) begin(m wholeMessage) error {
	id := wire.String(m.ID)
	if len(d.blocks) > 0 && id != "" && d.id != "" && id != d.id {
		return wire.Malformed("another message began inside of the answer")
	}
	d.id = cmp.Or(id, d.id)
	d.Model = cmp.Or(wire.Clean(wire.String(m.Model)), d.Model)
	d.count(m.Usage)
	return nil
}

// Whole takes a message that is no stream.
func (d *decoder) Whole(body []byte) error {
	var m wholeMessage
	err := wire.Decode(body, &m)
	if err != nil || wire.IsError(m.Error) || wire.CallsItselfError(m.Type) {
		return wire.EventFault(body, err)
	}
	if err := d.begin(m); err != nil {
		return err
	}
	for i, raw := range wire.Array(m.Content) {
		if err := d.open(int64(i), wire.Members[contentBlock](raw)); err != nil {
			return err
		}
		d.at[int64(i)].Pending = false
	}
	if err := d.end(wire.String(m.StopReason)); err != nil {
		return err
	}
	if !d.Complete() {
		return wire.Malformed("the answer is neither a stream nor a whole message")
	}
	return nil
}

// count takes a usage object.
func (d *decoder) count(raw wire.Raw) {
	d.counts.add(raw)
	d.Usage = d.counts.usage()
}
