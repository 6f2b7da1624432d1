package responses

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

	model   string
	items   []*output
	blocks  []*block
	newest  map[kind]*block
	calls   int
	usage   *domain.Usage
	stop    domain.StopReason
	refused bool // text came as a refusal
	size    int
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
	case d.Complete():
		return wire.Done, nil
	case d.size > before:
		return wire.Alive, nil
	}
	return wire.Ping, nil
}

// take reads an event. One of an unknown name says nothing.
func (d *decoder) take(name string, v event) error {
	switch name {
	case "response.created", "response.queued", "response.in_progress":
		d.about(read[response](v.Response))
	case "response.output_item.added":
		item := read[outputItem](v.Item)
		d.head(d.open(kindOf(item), v.OutputIndex, wire.String(item.ID)), item)
	case "response.output_text.delta":
		return d.write(d.text(v, false), v.Delta)
	case "response.refusal.delta":
		return d.write(d.text(v, true), v.Delta)
	case "response.output_text.done":
		return d.settle(d.text(v, false), v.Text)
	case "response.refusal.done":
		return d.settle(d.text(v, true), v.Refusal)
	case "response.reasoning_summary_text.delta":
		return d.think(d.item(thought, v).first(), "summary "+wire.Label(v.SummaryIndex), v.Delta)
	case "response.reasoning_text.delta":
		return d.think(d.item(thought, v).first(), "text "+wire.Label(v.ContentIndex), v.Delta)
	case "response.function_call_arguments.delta":
		d.argue(d.item(call, v).first(), v.Delta)
	case "response.function_call_arguments.done":
		return d.settleArguments(d.item(call, v).first(), v.Arguments)
	case "response.output_item.done":
		item := read[outputItem](v.Item)
		v.ItemID = item.ID
		return d.settleItem(d.item(kindOf(item), v), item)
	case "response.completed", "response.done", "response.incomplete", "response.failed", "response.cancelled":
		return d.finish(name[len("response."):], read[response](v.Response))
	}
	return nil
}

// about takes what a response tells of itself. It is told at the beginning, and again at the end.
func (d *decoder) about(r response) {
	d.model = cmp.Or(wire.Clean(wire.String(r.Model)), d.model)
	if u := readUsage(r.Usage); u != nil {
		d.usage = u
	}
}

// Whole takes a response that is no stream.
func (d *decoder) Whole(body []byte) error {
	var r response
	err := wire.Decode(body, &r)
	if err != nil || wire.IsNull(r.Status) || wire.CallsItselfError(r.Object) {
		if f, ok := wire.ReadFault(body); ok {
			return f.Error()
		}
		return wire.Malformed("the answer is neither a stream nor a response")
	}
	return d.finish("", r)
}

// Complete reports whether the last event has come.
func (d *decoder) Complete() bool { return d.stop != "" }
