package responses

import (
	"cmp"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

// decoder reads the events of one answer; see wire.Decoder.
type decoder struct {
	wire.Draft
	items []*output
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
	if life == wire.Finished { // it was the last event
		life = wire.Done
	}
	return life, err
}

// take reads an event. One of an unknown name says nothing.
func (d *decoder) take(name string, v event) error {
	switch name {
	case "response.created", "response.queued", "response.in_progress":
		d.about(wire.Members[response](v.Response))
	case "response.output_item.added":
		item := wire.Members[outputItem](v.Item)
		d.head(d.open(typeOf(item), indexOf(v.OutputIndex), wire.String(item.ID)), item)
	case "response.output_text.delta":
		return d.Write(d.text(v, false), v.Delta)
	case "response.refusal.delta":
		return d.Write(d.text(v, true), v.Delta)
	case "response.output_text.done":
		return d.settle(d.text(v, false), v.Text)
	case "response.refusal.done":
		return d.settle(d.text(v, true), v.Refusal)
	case "response.reasoning_summary_text.delta":
		return d.think(d.item(domain.ThinkingBlock, v).first(), "summary "+wire.Label(v.SummaryIndex), v.Delta)
	case "response.reasoning_text.delta":
		return d.think(d.item(domain.ThinkingBlock, v).first(), "text "+wire.Label(v.ContentIndex), v.Delta)
	case "response.function_call_arguments.delta":
		d.Argue(d.item(domain.CallBlock, v).first().Part, v.Delta)
	case "response.function_call_arguments.done":
		return d.settleArguments(d.item(domain.CallBlock, v).first().Part, v.Arguments)
	case "response.output_item.done":
		item := wire.Members[outputItem](v.Item)
		v.ItemID = item.ID
		return d.settleItem(d.item(typeOf(item), v), item)
	case "response.completed", "response.done", "response.incomplete", "response.failed", "response.cancelled":
		return d.finish(name[len("response."):], wire.Members[response](v.Response))
	}
	return nil
}

// about takes what a response tells of itself. It is told at the beginning, and again at the end.
func (d *decoder) about(r response) {
	d.Model = cmp.Or(wire.Clean(wire.String(r.Model)), d.Model)
	if u := readUsage(r.Usage); u != nil {
		d.Usage = u
	}
}

// Whole takes a response that is no stream.
func (d *decoder) Whole(body []byte) error {
	var r response
	err := wire.Decode(body, &r)
	if err != nil || wire.IsNull(r.Status) || wire.CallsItselfError(r.Object) {
		return wire.EventFault(body, err)
	}
	return d.finish("", r)
}
