package anthropic

import (
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// kind is what a block is to a reply.
type kind int

const (
	ignored  kind = iota // of a type that this server did not ask for
	saying               // text
	thought              // thinking, redacted or not
	toolCall             // a call
)

var kinds = map[string]kind{"text": saying, "thinking": thought, "redacted_thinking": thought, "tool_use": toolCall}

// part is a block on its way.
type part struct {
	kind      kind
	text      wire.Text
	signature string

	ordinal int // of a call
	id      string
	name    string
	args    wire.Text
	input   wire.Raw // arguments that came with the head; pieces replace them
	whole   bool     // its end has come
}

// open begins a block, with what its head already holds of it.
func (d *decoder) open(index int64, b contentBlock) error {
	for _, k := range []kind{thought, saying} {
		if p := d.newest[k]; p != nil {
			d.close(p)
		}
	}
	p := &part{kind: kinds[wire.String(b.Type)]}
	d.parts = append(d.parts, p)
	if d.at == nil {
		d.at, d.newest = map[int64]*part{}, map[kind]*part{}
	}
	d.at[index], d.newest[p.kind] = p, p
	d.size++ // a block is something, whatever it holds
	if p.kind == toolCall {
		d.head(p, b)
		return nil
	}
	if data := wire.String(b.Data); data != "" && wire.String(b.Type) == "redacted_thinking" {
		d.size += len(data)
		p.signature = redactedMark + data
		return nil
	}
	return d.piece(p, contentDelta{Text: b.Text, Thinking: b.Thinking, Signature: b.Signature})
}

// head reads the head of a call.
func (d *decoder) head(p *part, b contentBlock) {
	p.ordinal, p.id, p.name = d.calls, wire.Label(b.ID), wire.Clean(wire.String(b.Name))
	if own, ok := d.names[p.name]; ok {
		p.name = own
	}
	if len(wire.Object(b.Input)) > 0 {
		p.input = append(p.input, b.Input...)
	}
	d.size += len(p.id) + len(p.name) + len(p.input)
	if p.named() {
		d.calls++
		d.emit(ports.Delta{ToolCall: &ports.ToolCallPart{Index: p.ordinal, Name: p.name}})
	}
}

func (p *part) named() bool { return strings.TrimSpace(p.name) != "" }

// piece takes what a delta adds to p. Members that a block of its kind has no place for say nothing.
func (d *decoder) piece(p *part, v contentDelta) error {
	switch {
	case p == nil:
		return wire.Malformed("a piece of the answer belongs to no block")
	case p.kind == saying:
		return d.write(p, v.Text)
	case p.kind == thought:
		d.sign(p, wire.String(v.Signature))
		return d.write(p, v.Thinking)
	case p.kind == toolCall:
		d.argue(p, v.PartialJSON)
	default:
		d.size += len(v.Type)
	}
	return nil
}

// write appends to a text. Texts are shown as they come, so they have to come one after the other.
func (d *decoder) write(p *part, literal wire.Raw) error {
	if len(literal) == 0 || literal.Kind() != '"' || string(literal) == `""` {
		return nil
	}
	if d.newest[p.kind] != p {
		return wire.Malformed("a piece of text belongs to a block behind which another one began")
	}
	d.size += len(literal)
	d.show(p, p.text.Add(literal))
	return nil
}

func (d *decoder) show(p *part, text string) {
	switch {
	case text == "":
	case p.kind == thought:
		d.emit(ports.Delta{Thinking: text})
	default:
		d.emit(ports.Delta{Text: text})
	}
}

// sign takes a piece of a signature. It mostly comes at once; some backends grow it, or send it again.
func (d *decoder) sign(p *part, s string) {
	switch {
	case s == "":
		return
	case strings.HasPrefix(s, p.signature):
		p.signature = s
	default:
		p.signature += s
	}
	d.size += len(s)
}

// argue takes a piece of the argument text of a call: a string, or the value that some backends send in its place.
func (d *decoder) argue(p *part, raw wire.Raw) {
	if wire.IsNull(raw) || string(raw) == `""` {
		return
	}
	d.size += len(raw)
	if raw.Kind() == '"' {
		d.showArguments(p, p.args.Add(raw))
		return
	}
	d.showArguments(p, p.args.AddRaw(string(raw)))
}

func (d *decoder) showArguments(p *part, text string) {
	if text != "" && p.named() {
		d.emit(ports.Delta{ToolCall: &ports.ToolCallPart{Index: p.ordinal, Arguments: text}})
	}
}

// close gives out what a block still held back.
func (d *decoder) close(p *part) {
	switch p.kind {
	case saying, thought:
		d.show(p, p.text.End())
	case toolCall:
		d.showArguments(p, p.args.End())
		if p.args.Len() == 0 && len(p.input) > 0 {
			d.showArguments(p, p.args.AddRaw(string(p.input)))
		}
	}
}

// block returns what p became. ok is false when that is nothing. In an answer that was cut off, missing arguments were
// never written.
func (p *part) block(cut bool) (b domain.Block, ok bool) {
	switch p.kind {
	case saying:
		return domain.Block{Type: domain.TextBlock, Text: p.text.String()}, p.text.Len() > 0
	case thought:
		b = domain.Block{Type: domain.ThinkingBlock, Thinking: p.text.String(), Signature: p.signature}
		return b, p.text.Len() > 0 || p.signature != ""
	case toolCall:
		b = domain.Block{Type: domain.CallBlock, Name: p.name, ProviderID: p.id}
		if cut || !p.whole {
			b.Arguments, b.RawArguments = wire.CutArguments(p.args.String())
		} else {
			b.Arguments, b.RawArguments = wire.FinishArguments(p.args.String())
		}
		return b, p.named()
	}
	return b, false
}
