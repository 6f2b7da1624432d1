package responses

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

// itemTypes are the types of items that this server asks for, by what they become.
var itemTypes = map[string]domain.BlockType{"message": domain.TextBlock, reasoningType: domain.ThinkingBlock, "function_call": domain.CallBlock}

func typeOf(item outputItem) domain.BlockType { return itemTypes[wire.String(item.Type)] }

// output is an item on its way.
type output struct {
	kind   domain.BlockType // "" for an item that this server did not ask for
	index  int64            // -1 where none was told
	id     string
	blocks []*block // of a message one for each of its texts, else one
}

// block is what an item, or a text of it, becomes.
type block struct {
	*wire.Part
	place string // of a text in its message, of the newest piece in a thought
}

// first returns the block of an item that has one.
func (o *output) first() *block { return o.blocks[0] }

// open begins an item at an index, even where one is already: some backends say 0 of each.
func (d *decoder) open(t domain.BlockType, index int64, id string) *output {
	o := &output{kind: t, index: index, id: id}
	d.items = append(d.items, o)
	d.Grow(1) // an item is something, whatever it holds
	if t == domain.ThinkingBlock || t == domain.CallBlock {
		d.begin(o, "")
	}
	return o
}

// begin begins a block of o.
func (d *decoder) begin(o *output, place string) *block {
	p := &block{d.Open(domain.Block{Type: o.kind}), place}
	p.Pending = true
	o.blocks = append(o.blocks, p)
	return p
}

// indexOf returns the index that raw tells, -1 for none.
func indexOf(raw wire.Raw) int64 {
	if i, ok := wire.Int(raw); ok {
		return i
	}
	return -1
}

// item returns the item that an event is about: the latest of its kind with both its index and its id, else with its
// index, else with its id where the event has no index. Ids alone prove little: some backends give a new one to each
// event. An item that was never announced begins here.
func (d *decoder) item(t domain.BlockType, v event) *output {
	index, indexed := wire.Int(v.OutputIndex)
	id := wire.String(v.ItemID)
	var near *output
	for _, o := range slices.Backward(d.items) {
		if o.kind != t || indexed && o.index != index {
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
	return d.open(t, indexOf(v.OutputIndex), id)
}

// text returns the text that an event is about. refusal says that the model declines in it.
func (d *decoder) text(v event, refusal bool) *wire.Part {
	o := d.item(domain.TextBlock, v)
	place := wire.Label(v.ContentIndex)
	d.Declined = d.Declined || refusal
	for _, p := range slices.Backward(o.blocks) {
		if place == "" || p.place == place {
			return p.Part
		}
	}
	return d.begin(o, place).Part
}

// head takes what an item tells of itself when it begins, and again when it is done.
func (d *decoder) head(o *output, item outputItem) {
	if o.kind != domain.CallBlock {
		return
	}
	p := o.first().Part
	p.ProviderID = cmp.Or(wire.Label(item.CallID), p.ProviderID, wire.Label(item.ID))
	if !p.Named() {
		d.Name(p, wire.Clean(wire.String(item.Name)))
	}
}

// settleItem takes an item that is whole.
func (d *decoder) settleItem(o *output, item outputItem) error {
	d.head(o, item)
	switch o.kind {
	case domain.CallBlock:
		return d.settleArguments(o.first().Part, item.Arguments)
	case domain.ThinkingBlock:
		return d.settleThought(o.first().Part, item)
	case domain.TextBlock:
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
			d.Declined = d.Declined || wire.String(literal) != ""
		}
		if wire.String(literal) == "" {
			continue
		}
		place := strconv.Itoa(i)
		p := o.at(place)
		if p == nil {
			p = d.begin(o, place)
		}
		if err := d.settle(p.Part, literal); err != nil {
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
