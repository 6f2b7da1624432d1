package anthropic

import (
	"cmp"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// decoder turns the events of one answer into a reply; see wire.Decoder.
type decoder struct {
	emit  func(ports.Delta)
	names map[string]string // names of tools by the one that they have on the wire

	id     string
	model  string
	parts  []*part
	at     map[int64]*part // the latest block of each index
	newest map[kind]*part
	calls  int
	counts counters
	stop   domain.StopReason
	full   bool // the model's window ended the answer
	size   int
}

// Event takes the data of one event.
func (d *decoder) Event(e wire.Event) (wire.Life, error) {
	if e.Data == "[DONE]" { // of imitations
		return wire.Done, nil
	}
	var v event
	err := wire.Decode([]byte(e.Data), &v)
	name := cmp.Or(wire.String(v.Type), e.Type)
	if err != nil || name == "error" || wire.IsError(v.Error) {
		if f, ok := wire.ReadFault([]byte(e.Data)); ok {
			return wire.Ping, f.Error()
		}
		if name == "error" {
			return wire.Ping, wire.Fault{Message: e.Data}.Error()
		}
		return wire.Ping, wire.Malformed("an event of the stream is not an object: " + err.Error())
	}
	before := d.size
	if err := d.take(name, v); err != nil {
		return wire.Ping, err
	}
	switch {
	case d.size > wire.MaxReply:
		return wire.Ping, wire.Malformed("the answer is larger than this server reads")
	case name == "message_stop":
		return wire.Done, nil
	case d.Complete():
		return wire.Finished, nil
	case d.size > before:
		return wire.Alive, nil
	}
	return wire.Ping, nil
}

// take reads an event. One of an unknown name says nothing.
func (d *decoder) take(name string, v event) error {
	switch name {
	case "message_start":
		return d.begin(read[wholeMessage](v.Message))
	case "content_block_start":
		return d.open(d.index(v.Index, len(d.parts)), read[contentBlock](v.ContentBlock))
	case "content_block_delta":
		return d.piece(d.at[d.index(v.Index, len(d.parts)-1)], read[contentDelta](v.Delta))
	case "content_block_stop":
		if p := d.at[d.index(v.Index, len(d.parts)-1)]; p != nil {
			p.whole = true
			d.close(p)
		}
	case "message_delta":
		d.counts.add(v.Usage)
		return d.end(wire.String(read[wholeMessage](v.Delta).StopReason))
	}
	return nil
}

// index returns the index that raw tells, else the given one.
func (d *decoder) index(raw wire.Raw, otherwise int) int64 {
	if i, ok := wire.Int(raw); ok {
		return i
	}
	return int64(otherwise)
}

// begin takes the head of the message. It may come again, but not for another message once this one has content.
func (d *decoder) begin(m wholeMessage) error {
	id := wire.String(m.ID)
	if len(d.parts) > 0 && id != "" && d.id != "" && id != d.id {
		return wire.Malformed("another message began inside of the answer")
	}
	d.id = cmp.Or(id, d.id)
	d.model = cmp.Or(wire.Clean(wire.String(m.Model)), d.model)
	d.counts.add(m.Usage)
	return nil
}

// Whole takes a message that is no stream.
func (d *decoder) Whole(body []byte) error {
	var m wholeMessage
	err := wire.Decode(body, &m)
	if err != nil || wire.IsError(m.Error) || wire.CallsItselfError(m.Type) {
		if f, ok := wire.ReadFault(body); ok {
			return f.Error()
		}
		return wire.Malformed("the answer is neither a stream nor a message")
	}
	if err := d.begin(m); err != nil {
		return err
	}
	for i, raw := range wire.Array(m.Content) {
		if err := d.open(int64(i), read[contentBlock](raw)); err != nil {
			return err
		}
		d.at[int64(i)].whole = true
	}
	if err := d.end(wire.String(m.StopReason)); err != nil {
		return err
	}
	if !d.Complete() {
		return wire.Malformed("the answer is neither a stream nor a whole message")
	}
	return nil
}

// Complete reports whether a stop reason has come.
func (d *decoder) Complete() bool { return d.stop != "" }
