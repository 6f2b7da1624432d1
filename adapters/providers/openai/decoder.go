package openai

import (
	"cmp"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

// decoder reads the chunks of one answer; see wire.Decoder.
type decoder struct {
	wire.Draft
	index *int64 // of the choice that is read
	calls calls
}

// Event takes the data of one event.
func (d *decoder) Event(e wire.Event) (wire.Life, error) {
	if err := d.take([]byte(e.Data)); err != nil {
		return wire.Ping, err
	}
	return d.Heard()
}

// Whole takes a completion that is no stream.
func (d *decoder) Whole(body []byte) error {
	err := d.take(body)
	if err == nil && !d.Complete() {
		return wire.Malformed("the answer is neither a stream nor a completion")
	}
	return err
}

// take reads a chunk, or a whole completion.
func (d *decoder) take(data []byte) error {
	var c chunk
	err := wire.Decode(data, &c)
	if err != nil || c.faulty() {
		return wire.EventFault(data, err)
	}
	d.Model = cmp.Or(d.Model, wire.Clean(wire.String(c.Model)))
	if u := readUsage(c.Usage); u != nil {
		d.Usage = u
	}
	d.calls.round++
	for _, raw := range list(c.Choices) {
		if err := d.choice(wire.Members[choice](raw)); err != nil {
			return err
		}
	}
	return nil
}

// choice reads one choice. Only the first one that an answer names is read.
func (d *decoder) choice(c choice) error {
	if index, ok := wire.Int(c.Index); ok {
		if d.index == nil {
			d.index = &index
		}
		if *d.index != index {
			return nil
		}
	}
	if wire.IsError(c.Error) {
		return wire.ErrorValue(c.Error).Error()
	}
	body := c.Delta
	if wire.IsNull(body) && d.Size() == 0 {
		body = c.Message
	}
	if err := d.delta(wire.Members[delta](body)); err != nil {
		return err
	}
	return d.end(wire.String(c.FinishReason))
}

func (d *decoder) delta(m delta) error {
	for _, raw := range thinkingOf(m) {
		d.Append(domain.ThinkingBlock, raw)
	}
	d.content(m.Content)
	if wire.Tells(m.Refusal) {
		d.Declined = true
		d.Append(domain.TextBlock, m.Refusal)
	}
	for _, raw := range list(m.ToolCalls) {
		if err := d.piece(readPiece(raw)); err != nil {
			return err
		}
	}
	if f := wire.Members[functionPiece](m.FunctionCall); !wire.IsNull(m.FunctionCall) {
		return d.piece(piece{name: f.Name, args: f.Arguments})
	}
	return nil
}

// piece takes a piece of a call.
func (d *decoder) piece(p piece) error {
	if p.blank() && len(d.calls.all) > 0 && !p.indexed {
		return nil
	}
	k, err := d.calls.place(p)
	if err != nil {
		return err
	}
	if k == nil {
		k = d.calls.open(p, d.Open(domain.Block{Type: domain.CallBlock}))
	}
	k.part.ProviderID = cmp.Or(k.part.ProviderID, p.id)
	d.Argue(k.part, p.args)
	if p.named() {
		k.round = d.calls.round
		k.rename(p.name)
		d.Name(k.part, wire.Clean(k.name.String()))
	}
	return nil
}
