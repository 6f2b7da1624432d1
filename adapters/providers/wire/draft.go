package wire

import (
	"cmp"
	"strings"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Draft is an answer on its way. A decoder embeds it, opens parts in it and adds what comes to them; the draft shows that as it
// becomes certain, and puts the reply together in the end.
type Draft struct {
	Emit  func(ports.Delta)
	Names map[string]string // of tools by the one that they have on the wire

	Model    string            // that answers; "" is the one that was asked for
	Usage    *domain.Usage     // nil as long as nothing was counted
	Stop     domain.StopReason // "" as long as the answer is not complete
	Declined bool              // text came that the wire calls a refusal

	parts  []*Part
	newest map[domain.BlockType]*Part
	calls  int
	size   int // of all that came, in bytes or so
	heard  int // size when Heard was called last
}

// Part is a block of a draft.
type Part struct {
	domain.Block      // what is known of it but for its text; one of another type than the kernel's becomes nothing
	Early        Raw  // arguments that came with the head of a call; pieces take their place
	Pending      bool // its end is still to come, on a wire that tells it

	text    Text   // of a call its arguments
	ordinal int    // of a call
	shown   bool   // the name was
	waiting string // arguments that were not shown, since the name is still to come
}

// Said returns what has come of a text, or of the arguments of a call.
func (p *Part) Said() string { return p.text.String() }

// Named reports whether p is a call whose name has come.
func (p *Part) Named() bool { return strings.TrimSpace(p.Name) != "" }

// Open begins a part. What the texts before it held back is shown first.
func (d *Draft) Open(b domain.Block) *Part {
	d.Close(d.newest[domain.ThinkingBlock])
	d.Close(d.newest[domain.TextBlock])
	if d.newest == nil {
		d.newest = map[domain.BlockType]*Part{}
	}
	p := &Part{Block: b, ordinal: d.calls}
	if b.Type == domain.CallBlock {
		d.calls++
		d.Grow(1) // it is something, even without a name
	}
	d.parts, d.newest[b.Type] = append(d.parts, p), p
	d.Grow(len(b.Signature) + len(b.Data))
	return p
}

// Append adds a piece, a JSON string, to the last part if that is an unsigned one of a type, else to a new one.
func (d *Draft) Append(t domain.BlockType, literal Raw) {
	if !Tells(literal) {
		return
	}
	if n := len(d.parts); n == 0 || d.parts[n-1].Type != t || d.parts[n-1].Signature != "" {
		d.Open(domain.Block{Type: t})
	}
	d.write(d.parts[len(d.parts)-1], literal)
}

// Write adds a piece of text or thinking, a JSON string, to p; anything else says nothing. Texts are shown as they come, so
// one to which another was added meanwhile takes no more: that is a fault.
func (d *Draft) Write(p *Part, literal Raw) error {
	if !Tells(literal) {
		return nil
	}
	if !d.Newest(p) {
		return Malformed("a piece of text belongs to a block behind which another one began")
	}
	d.write(p, literal)
	return nil
}

func (d *Draft) write(p *Part, literal Raw) {
	d.Grow(len(literal))
	d.show(p, p.text.Add(literal))
}

// Newest reports whether p is the newest part of its type.
func (d *Draft) Newest(p *Part) bool { return d.newest[p.Type] == p }

// Name gives a call the name that it has on the wire, again if need be.
func (d *Draft) Name(p *Part, name string) {
	d.Grow(len(name))
	p.Name = name
	if own, ok := d.Names[name]; ok {
		p.Name = own
	}
	d.showCall(p)
}

// Argue adds a piece of the arguments of a call: a JSON string, or the value that some backends send in its place.
func (d *Draft) Argue(p *Part, raw Raw) {
	if IsNull(raw) || string(raw) == `""` {
		return
	}
	d.Grow(len(raw))
	if raw.Kind() == '"' {
		p.waiting += p.text.Add(raw)
	} else {
		p.waiting += p.text.AddRaw(string(raw))
	}
	d.showCall(p)
}

// Close shows what p still held back, nil for no part. More may come all the same.
func (d *Draft) Close(p *Part) {
	switch {
	case p == nil:
	case p.Type != domain.CallBlock:
		d.show(p, p.text.End())
	default:
		p.waiting += p.text.End()
		if p.text.Len() == 0 {
			p.waiting += p.text.AddRaw(string(p.Early))
		}
		d.showCall(p)
	}
}

func (d *Draft) show(p *Part, text string) {
	switch {
	case text == "":
	case p.Type == domain.ThinkingBlock:
		d.Emit(ports.Delta{Thinking: text})
	default:
		d.Emit(ports.Delta{Text: text})
	}
}

func (d *Draft) showCall(p *Part) {
	if !p.Named() || p.shown && p.waiting == "" {
		return
	}
	shown := &ports.ToolCallPart{Index: p.ordinal, Arguments: p.waiting}
	if !p.shown {
		shown.Name = p.Name
	}
	p.shown, p.waiting = true, ""
	d.Emit(ports.Delta{ToolCall: shown})
}

// Grow says that something came, of a size in bytes, which the draft does not hold otherwise.
func (d *Draft) Grow(n int) { d.size += n }

// Size returns the size of all that came.
func (d *Draft) Size() int { return d.size }

// Heard returns what came since it was called last meant to the answer; see Decoder.Event.
func (d *Draft) Heard() (Life, error) {
	grown := d.size > d.heard
	d.heard = d.size
	switch {
	case d.size > MaxReply:
		return Ping, Malformed("the answer is larger than this server reads")
	case d.Complete():
		return Finished, nil
	case grown:
		return Alive, nil
	}
	return Ping, nil
}

// Complete reports whether a stop reason has come; see Decoder.
func (d *Draft) Complete() bool { return d.Stop != "" }

// Partial returns what had come of an answer that failed; see Decoder.
func (d *Draft) Partial(asked string) ports.Reply { return d.assemble(asked, true) }

// Reply returns the complete answer, or the fault that makes it a failed attempt beside what had come; see Decoder.
func (d *Draft) Reply(asked string) (ports.Reply, error) {
	r := d.assemble(asked, d.Stop == domain.StopLength || d.Stop == domain.StopRefusal)
	r.StopReason = d.Stop
	switch {
	case d.unnamed():
		return r, failed("unnamed_tool_call", "a tool call ended without a name")
	case d.Stop == domain.StopToolUse && d.calls == 0:
		return r, failed("missing_tool_call", "the answer announced tool calls and held none")
	case d.Stop == domain.StopEndTurn && d.calls > 0:
		r.StopReason = domain.StopToolUse
	case d.Stop == domain.StopEndTurn && d.Declined:
		r.StopReason = domain.StopRefusal
	}
	return Complete(r)
}

func failed(code, message string) error {
	return &ports.ProviderError{Class: ports.Retryable, Code: code, Message: message}
}

func (d *Draft) unnamed() bool {
	for _, p := range d.parts {
		if p.Type == domain.CallBlock && !p.Named() {
			return true
		}
	}
	return false
}

func (d *Draft) assemble(asked string, cut bool) ports.Reply {
	r := ports.Reply{Usage: d.Usage, Model: cmp.Or(d.Model, asked)}
	for _, p := range d.parts {
		d.Close(p)
		if b, ok := p.finished(cut); ok {
			r.Content = append(r.Content, b)
		}
	}
	return r
}

// finished returns what p became. ok is false when that is nothing. In an answer that was cut off, missing arguments were
// never written.
func (p *Part) finished(cut bool) (b domain.Block, ok bool) {
	b = p.Block
	switch text := p.Said(); b.Type {
	case domain.TextBlock:
		b.Text = text
		return b, text != "" || b.Signature != ""
	case domain.ThinkingBlock:
		b.Thinking = text
		return b, text != "" || b.Signature != ""
	case domain.CallBlock:
		finish := FinishArguments
		if cut || p.Pending {
			finish = CutArguments
		}
		b.Arguments, b.RawArguments = finish(text)
		return b, p.Named()
	}
	return b, b.Type == domain.ImageBlock
}
