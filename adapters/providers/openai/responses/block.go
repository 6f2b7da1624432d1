package responses

import (
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// block is a block of the reply on its way.
type block struct {
	kind  kind
	text  wire.Text // of a call its arguments
	place string    // of a text in its message, of the newest piece in a thought

	signature string // of a thought

	ordinal int // of a call
	id      string
	name    string
	shown   bool
	waiting string // arguments that came before the name
	whole   bool   // all arguments have come
}

const behind = "a piece of text belongs to an item behind which another one began"

// write appends a piece of text.
func (d *decoder) write(p *block, literal wire.Raw) error {
	if !tells(literal) {
		return nil
	}
	if d.newest[p.kind] != p { // texts are shown as they come, so they have to come one after the other
		return wire.Malformed(behind)
	}
	d.size += len(literal)
	d.show(p, p.text.Add(literal))
	return nil
}

// tells reports whether literal is a JSON string that is not empty.
func tells(literal wire.Raw) bool {
	return len(literal) > 0 && literal.Kind() == '"' && string(literal) != `""`
}

// think appends a piece of thinking. A new place begins a new paragraph.
func (d *decoder) think(p *block, place string, literal wire.Raw) error {
	if tells(literal) && p.place != place {
		if p.text.Len() > 0 {
			if err := d.write(p, wire.Raw(`"\n\n"`)); err != nil {
				return err
			}
		}
		p.place = place
	}
	return d.write(p, literal)
}

// settle takes the whole text of p. What had not come yet is added.
func (d *decoder) settle(p *block, literal wire.Raw) error {
	if !tells(literal) {
		return nil
	}
	d.close(p)
	whole, came := wire.String(literal), p.text.String()
	rest, ok := strings.CutPrefix(whole, came)
	switch {
	case ok:
		return d.write(p, quotedRest(rest))
	case strings.TrimSpace(whole) == strings.TrimSpace(came):
		return nil
	}
	return wire.Malformed("a text is not what its pieces were")
}

func quotedRest(s string) wire.Raw {
	if s == "" {
		return nil
	}
	return wire.Quoted(s)
}

// settleThought takes a reasoning item that is whole: its signature, and its text where no piece of it came.
func (d *decoder) settleThought(p *block, item outputItem) error {
	if s := signature(item); s != "" {
		d.size += len(s)
		p.signature = s
	}
	if p.text.Len() > 0 || d.newest[thought] != p {
		return nil
	}
	pieces := wire.Array(item.Summary)
	if len(pieces) == 0 {
		pieces = wire.Array(item.Content)
	}
	var texts []string
	for _, raw := range pieces {
		if s := wire.String(wire.Object(raw)["text"]); s != "" {
			texts = append(texts, s)
		}
	}
	return d.write(p, quotedRest(strings.Join(texts, "\n\n")))
}

// argue takes a piece of the argument text of a call.
func (d *decoder) argue(p *block, literal wire.Raw) {
	if tells(literal) {
		d.size += len(literal)
		p.waiting += p.text.Add(literal)
		d.showCall(p)
	}
}

// settleArguments takes the whole argument text of a call: a string, or the value that some backends send in its place.
func (d *decoder) settleArguments(p *block, raw wire.Raw) error {
	p.whole = true
	if wire.IsNull(raw) || string(raw) == `""` {
		return nil
	}
	whole := string(raw)
	if raw.Kind() == '"' {
		whole = wire.String(raw)
	}
	d.close(p)
	rest, ok := strings.CutPrefix(whole, p.text.String())
	switch {
	case ok:
		d.size += len(rest)
		p.waiting += p.text.AddRaw(rest) + p.text.End()
		d.showCall(p)
		return nil
	case sameArguments(whole, p.text.String()):
		return nil
	}
	return wire.Malformed("the arguments of a call are not what their pieces were")
}

// sameArguments reports whether both texts are the same object.
func sameArguments(a, b string) bool {
	x, _ := wire.FinishArguments(a)
	y, _ := wire.FinishArguments(b)
	return x != "" && x == y
}

func (p *block) named() bool { return strings.TrimSpace(p.name) != "" }

func (d *decoder) show(p *block, text string) {
	switch {
	case text == "":
	case p.kind == thought:
		d.emit(ports.Delta{Thinking: text})
	default:
		d.emit(ports.Delta{Text: text})
	}
}

func (d *decoder) showCall(p *block) {
	if !p.named() || p.shown && p.waiting == "" {
		return
	}
	shown := &ports.ToolCallPart{Index: p.ordinal, Arguments: p.waiting}
	if !p.shown {
		shown.Name = p.name
	}
	p.shown, p.waiting = true, ""
	d.emit(ports.Delta{ToolCall: shown})
}

// close gives out what a block still held back.
func (d *decoder) close(p *block) {
	held := p.text.End()
	if p.kind != call {
		d.show(p, held)
		return
	}
	p.waiting += held
	d.showCall(p)
}

// finished returns what p became. ok is false when that is nothing. In an answer that was cut off, missing arguments were
// never written.
func (p *block) finished(cut bool) (b domain.Block, ok bool) {
	text := p.text.String()
	switch p.kind {
	case saying:
		return domain.Block{Type: domain.TextBlock, Text: text}, text != ""
	case thought:
		return domain.Block{Type: domain.ThinkingBlock, Thinking: text, Signature: p.signature}, text != "" || p.signature != ""
	case call:
		b = domain.Block{Type: domain.CallBlock, Name: p.name, ProviderID: p.id}
		if cut || !p.whole {
			b.Arguments, b.RawArguments = wire.CutArguments(text)
		} else {
			b.Arguments, b.RawArguments = wire.FinishArguments(text)
		}
		return b, p.named()
	}
	return b, false
}
