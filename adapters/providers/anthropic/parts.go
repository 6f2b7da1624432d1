package anthropic

import (
	"slices"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

// blockTypes are the types of blocks that this server asks for.
var blockTypes = map[string]domain.BlockType{
	"text": domain.TextBlock, "thinking": domain.ThinkingBlock, "redacted_thinking": domain.ThinkingBlock, "tool_use": domain.CallBlock,
}

// open begins a block, with what its head already holds of it.
func (d *decoder) open(index int64, b contentBlock) error {
	kind, data := wire.String(b.Type), wire.String(b.Data)
	p := d.Open(domain.Block{Type: blockTypes[kind]})
	p.Pending = true
	if d.at == nil {
		d.at = map[int64]*wire.Part{}
	}
	d.at[index], d.blocks = p, append(d.blocks, p)
	d.Grow(1) // it is something, whatever it holds
	switch {
	case p.Type == domain.CallBlock:
		d.head(p, b)
		return nil
	case kind == "redacted_thinking" && data != "":
		d.sign(p, redactedMark+data)
		return nil
	}
	return d.piece(p, contentDelta{Text: b.Text, Thinking: b.Thinking, Signature: b.Signature})
}

// head reads the head of a call.
func (d *decoder) head(p *wire.Part, b contentBlock) {
	p.ProviderID = wire.Label(b.ID)
	if len(wire.Object(b.Input)) > 0 {
		p.Early = slices.Clone(b.Input)
		d.Grow(len(p.Early))
	}
	d.Name(p, wire.Clean(wire.String(b.Name)))
}

// piece takes what a delta adds to p. Members that a block of its type has no place for say nothing.
func (d *decoder) piece(p *wire.Part, v contentDelta) error {
	if p == nil {
		return wire.Malformed("a piece of the answer belongs to no block")
	}
	switch p.Type {
	case domain.TextBlock:
		return d.Write(p, v.Text)
	case domain.ThinkingBlock:
		d.sign(p, wire.String(v.Signature))
		return d.Write(p, v.Thinking)
	case domain.CallBlock:
		d.Argue(p, v.PartialJSON)
	default:
		d.Grow(len(v.Type))
	}
	return nil
}

// sign takes a piece of a signature. It mostly comes at once; some backends grow it, or send it again.
func (d *decoder) sign(p *wire.Part, s string) {
	switch {
	case s == "":
		return
	case strings.HasPrefix(s, p.Signature):
		p.Signature = s
	default:
		p.Signature += s
	}
	d.Grow(len(s))
}
