package gemini

import (
	"cmp"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// part is a block on its way. The pieces of a text without a signature are one block; a part with one is its own.
type part struct {
	kind      domain.BlockType
	text      wire.Text
	signature string

	// Of a call:
	ordinal int
	chunk   int // in which it came
	id      string
	name    string
	args    wire.Text

	mime, data string // of an image
}

// part takes one part of the answer. Those of kinds that this server did not ask for say nothing.
func (d *decoder) part(p answerPart) {
	signature, thought := wire.String(p.ThoughtSignature), string(p.Thought) == "true"
	switch {
	case !wire.IsNull(p.FunctionCall):
		d.call(read[functionCall](p.FunctionCall), signature)
	case !wire.IsNull(p.InlineData):
		if !thought {
			d.image(read[inlineData](p.InlineData), signature)
		}
	case thought:
		d.write(domain.ThinkingBlock, p.Text, signature)
	default:
		d.write(domain.TextBlock, p.Text, signature)
	}
}

// write takes a piece of text, which may be nothing but a signature.
func (d *decoder) write(kind domain.BlockType, literal wire.Raw, signature string) {
	if len(literal) == 0 || literal.Kind() != '"' {
		literal = wire.Raw(`""`)
	}
	if string(literal) == `""` && signature == "" {
		return
	}
	d.size += len(literal) + len(signature)
	p := d.last()
	if p == nil || p.kind != kind || p.signature != "" || signature != "" {
		p = d.open(&part{kind: kind, signature: signature})
	}
	d.show(kind, p.text.Add(literal))
}

func (d *decoder) last() *part {
	if n := len(d.parts); n > 0 {
		return d.parts[n-1]
	}
	return nil
}

// open adds a block and closes the one before it.
func (d *decoder) open(p *part) *part {
	if last := d.last(); last != nil {
		d.close(last)
	}
	d.parts = append(d.parts, p)
	return p
}

// close gives out what a text still held back.
func (d *decoder) close(p *part) {
	if p.kind == domain.TextBlock || p.kind == domain.ThinkingBlock {
		d.show(p.kind, p.text.End())
	}
}

func (d *decoder) show(kind domain.BlockType, text string) {
	switch {
	case text == "":
	case kind == domain.ThinkingBlock:
		d.emit(ports.Delta{Thinking: text})
	default:
		d.emit(ports.Delta{Text: text})
	}
}

// call takes a call, which comes whole. One that a later chunk repeats, id, name and arguments, is the same call.
func (d *decoder) call(f functionCall, signature string) {
	p := &part{
		kind: domain.CallBlock, ordinal: d.calls, chunk: d.chunks, signature: signature,
		id: wire.Label(f.ID), name: wire.Clean(wire.String(f.Name)),
	}
	if own, ok := d.names[p.name]; ok {
		p.name = own
	} else if wireName(p.name) != p.name {
		p.signature = "" // it proves a name that does not go back
	}
	switch {
	case wire.IsNull(f.Args):
	case f.Args.Kind() == '"': // argument text, of imitations and of what was cut off
		p.args.Add(f.Args)
	default:
		p.args.AddRaw(string(f.Args))
	}
	p.args.End()
	if d.repeated(p) {
		return
	}
	d.open(p)
	d.size += 1 + len(p.id) + len(p.name) + p.args.Len() + len(signature)
	if p.named() {
		d.calls++
		d.emit(ports.Delta{ToolCall: &ports.ToolCallPart{Index: p.ordinal, Name: p.name, Arguments: p.args.String()}})
	}
}

func (d *decoder) repeated(p *part) bool {
	for _, q := range d.parts {
		same := q.kind == domain.CallBlock && q.id == p.id && q.name == p.name && q.args.String() == p.args.String()
		if same && p.id != "" && q.chunk != p.chunk {
			q.signature = cmp.Or(q.signature, p.signature)
			return true
		}
	}
	return false
}

func (p *part) named() bool { return strings.TrimSpace(p.name) != "" }

func (d *decoder) image(i inlineData, signature string) {
	p := &part{kind: domain.ImageBlock, signature: signature, mime: wire.Clean(wire.String(i.MimeType)), data: wire.Clean(wire.String(i.Data))}
	if p.data != "" {
		d.open(p)
		d.size += len(p.data) + len(signature)
	}
}

// block returns what p became. ok is false when that is nothing. In an answer that was cut off, missing arguments were
// never written.
func (p *part) block(cut bool) (b domain.Block, ok bool) {
	b = domain.Block{Type: p.kind, Signature: p.signature}
	switch p.kind {
	case domain.TextBlock:
		b.Text = p.text.String()
		return b, b.Text != "" || b.Signature != ""
	case domain.ThinkingBlock:
		b.Thinking = p.text.String()
		return b, b.Thinking != "" || b.Signature != ""
	case domain.ImageBlock:
		b.MimeType, b.Data = p.mime, p.data
		return b, true
	}
	b.Name, b.ProviderID = p.name, p.id
	if cut {
		b.Arguments, b.RawArguments = wire.CutArguments(p.args.String())
	} else {
		b.Arguments, b.RawArguments = wire.FinishArguments(p.args.String())
	}
	return b, p.named()
}
