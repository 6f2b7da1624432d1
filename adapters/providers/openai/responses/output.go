package responses

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/keel-agent/keel/adapters/providers/wire"
)

// kind is what an item is to a reply.
type kind int

const (
	ignored kind = iota // of a type that this server did not ask for
	saying              // a message
	thought             // reasoning
	call                // a function call
)

var kinds = map[string]kind{"message": saying, reasoningType: thought, "function_call": call}

func kindOf(item outputItem) kind { return kinds[wire.String(item.Type)] }

// output is an item on its way.
type output struct {
	kind   kind
	index  int64 // -1 where none was told
	id     string
	blocks []*block // of a message one for each of its texts, else one
}

// first returns the block of an item that has one.
func (o *output) first() *block { return o.blocks[0] }

// open begins an item at an index, even where one is already: some backends say 0 of each.
func (d *decoder) open(k kind, index wire.Raw, id string) *output {
	i, ok := wire.Int(index)
	if !ok {
		i = -1
	}
	return d.opened(k, i, id)
}

func (d *decoder) opened(k kind, index int64, id string) *output {
	o := &output{kind: k, index: index, id: id}
	d.items = append(d.items, o)
	d.size++ // an item is something, whatever it holds
	if k == thought || k == call {
		d.begin(o, "")
	}
	return o
}

// begin begins a block of o. What the ones before still held back comes first.
func (d *decoder) begin(o *output, place string) *block {
	for _, k := range []kind{thought, saying} {
		if p := d.newest[k]; p != nil {
			d.close(p)
		}
	}
	p := &block{kind: o.kind, place: place}
	if d.newest == nil {
		d.newest = map[kind]*block{}
	}
	d.newest[o.kind] = p
	o.blocks, d.blocks = append(o.blocks, p), append(d.blocks, p)
	if o.kind == call {
		p.ordinal = d.calls
		d.calls++
	}
	return p
}

// item returns the item that an event is about: the latest of its kind with both its index and its id, else with its
// index, else with its id where the event has no index. Ids alone prove little: some backends give a new one to each
// event. An item that was never announced begins here.
func (d *decoder) item(k kind, v event) *output {
	index, indexed := wire.Int(v.OutputIndex)
	id := wire.String(v.ItemID)
	var near *output
	for _, o := range slices.Backward(d.items) {
		if o.kind != k || indexed && o.index != index {
			continue
		}
		if id == "" || o.id == id {
			return o
		}
		if near == nil && (indexed || o.id == "") {
			near = o
		}
	}
	if near != nil {
		return near
	}
	return d.open(k, v.OutputIndex, id)
}

// text returns the text that an event is about. refusal says that the model declines in it.
func (d *decoder) text(v event, refusal bool) *block {
	o := d.item(saying, v)
	place := wire.Label(v.ContentIndex)
	d.refused = d.refused || refusal
	for _, p := range slices.Backward(o.blocks) {
		if place == "" || p.place == place {
			return p
		}
	}
	return d.begin(o, place)
}

// head takes what an item tells of itself when it begins, and again when it is done.
func (d *decoder) head(o *output, item outputItem) {
	if o.kind != call {
		return
	}
	p := o.first()
	p.id = cmp.Or(wire.Label(item.CallID), p.id, wire.Label(item.ID))
	if name := wire.Clean(wire.String(item.Name)); !p.named() {
		p.name = name
		if own, ok := d.names[name]; ok {
			p.name = own
		}
	}
	d.showCall(p)
}

// settleItem takes an item that is whole.
func (d *decoder) settleItem(o *output, item outputItem) error {
	d.head(o, item)
	switch o.kind {
	case call:
		return d.settleArguments(o.first(), item.Arguments)
	case thought:
		return d.settleThought(o.first(), item)
	case saying:
		return d.settleTexts(o, wire.Array(item.Content))
	}
	return nil
}

// settleTexts takes the texts of a message that is whole.
func (d *decoder) settleTexts(o *output, parts []wire.Raw) error {
	for i, raw := range parts {
		m := wire.Object(raw)
		literal := m["text"]
		if wire.IsNull(literal) {
			literal = m["refusal"]
			d.refused = d.refused || wire.String(literal) != ""
		}
		if wire.String(literal) == "" {
			continue
		}
		place := strconv.Itoa(i)
		p := o.at(place)
		if p == nil {
			p = d.begin(o, place)
		}
		if err := d.settle(p, literal); err != nil {
			return err
		}
	}
	return nil
}

// at returns the text at a place, else the one that came without telling it, nil for none.
func (o *output) at(place string) *block {
	for _, p := range o.blocks {
		if p.place == place || p.place == "" {
			return p
		}
	}
	return nil
}
