package gemini

import (
	"cmp"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

// part takes one part of the answer. Those of kinds that this server did not ask for say nothing.
func (d *decoder) part(p answerPart) {
	signature, thought := wire.String(p.ThoughtSignature), string(p.Thought) == "true"
	switch {
	case !wire.IsNull(p.FunctionCall):
		d.call(wire.Members[functionCall](p.FunctionCall), signature)
	case !wire.IsNull(p.InlineData):
		if !thought {
			d.image(wire.Members[inlineData](p.InlineData), signature)
		}
	case thought:
		d.text(domain.ThinkingBlock, p.Text, signature)
	default:
		d.text(domain.TextBlock, p.Text, signature)
	}
}

// text takes a piece of text. The pieces without a signature are one block; a part with one, even without text, is its own.
func (d *decoder) text(t domain.BlockType, literal wire.Raw, signature string) {
	if signature == "" {
		d.Append(t, literal)
		return
	}
	_ = d.Write(d.Open(domain.Block{Type: t, Signature: signature}), literal) // it is the newest
}

func (d *decoder) image(i inlineData, signature string) {
	b := domain.Block{Type: domain.ImageBlock, MimeType: wire.Clean(wire.String(i.MimeType)), Data: wire.Clean(wire.String(i.Data)), Signature: signature}
	if b.Data != "" {
		d.Open(b)
	}
}

// call is a call that came.
type call struct {
	part  *wire.Part
	name  string // on the wire
	chunk int    // in which it came
}

// call takes a call, which comes whole. One that a later chunk repeats, id, name and arguments, is the same call.
func (d *decoder) call(f functionCall, signature string) {
	id, name, args := wire.Label(f.ID), wire.Clean(wire.String(f.Name)), argumentText(f.Args)
	if _, known := d.Names[name]; !known && wireName(name) != name {
		signature = "" // it proves a name that does not go back
	}
	for _, k := range d.calls {
		if id != "" && k.part.ProviderID == id && k.name == name && k.part.Said() == args && k.chunk != d.chunks {
			k.part.Signature = cmp.Or(k.part.Signature, signature)
			return
		}
	}
	p := d.Open(domain.Block{Type: domain.CallBlock, ProviderID: id, Signature: signature})
	d.calls = append(d.calls, call{p, name, d.chunks})
	d.Argue(p, wire.Quoted(args))
	d.Close(p)
	d.Name(p, name)
}

// argumentText returns the arguments of a call: mostly an object; of imitations, and where they were cut off, a text.
func argumentText(raw wire.Raw) string {
	switch {
	case wire.IsNull(raw):
		return ""
	case raw.Kind() == '"':
		return wire.String(raw)
	}
	return strings.ToValidUTF8(string(raw), "\uFFFD")
}
