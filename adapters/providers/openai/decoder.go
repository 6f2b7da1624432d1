package openai

import (
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// decoder turns the chunks of one answer into a reply; see wire.Decoder.
type decoder struct {
	emit  func(ports.Delta)
	names map[string]string // names of tools by the one that they have on the wire

	model   string
	parts   []*part
	calls   calls
	usage   *domain.Usage
	finish  domain.StopReason
	refused bool // text came as a refusal
	choice  *int64
	size    int
}

// part is a block on its way.
type part struct {
	kind domain.BlockType
	text wire.Text
	call *call
}

// Event takes the data of one event.
func (d *decoder) Event(e wire.Event) (wire.Life, error) {
	switch {
	case e.Data == "[DONE]":
		return wire.Done, nil
	case e.Type == "error":
		f, ok := wire.ReadFault([]byte(e.Data))
		if !ok {
			f = wire.ErrorValue(errorText(e.Data))
		}
		return wire.Ping, f.Error()
	}
	return d.chunk([]byte(e.Data))
}

// errorText returns data as a JSON value, as a string if it is none.
func errorText(data string) wire.Raw {
	if raw := wire.Raw(data); raw.IsValid() {
		return raw
	}
	return wire.Quoted(data)
}

// chunk takes one chunk, or one whole completion.
func (d *decoder) chunk(data []byte) (wire.Life, error) {
	if len(data) == 0 || string(data) == "null" {
		return wire.Ping, nil
	}
	var c chunk
	err := wire.Decode(data, &c)
	if err != nil || c.faulty() {
		if f, ok := wire.ReadFault(data); ok {
			return wire.Ping, f.Error()
		}
	}
	if err != nil {
		return wire.Ping, wire.Malformed("a chunk of the stream is not an object: " + err.Error())
	}
	if d.model == "" {
		d.model = wire.Clean(wire.String(c.Model))
	}
	if u := readUsage(c.Usage); u != nil {
		d.usage = u
	}
	d.calls.round++
	l := wire.Ping
	before := d.size
	for _, raw := range list(c.Choices) {
		if err := d.take(read[choice](raw)); err != nil {
			return wire.Ping, err
		}
	}
	if d.size > before {
		l = wire.Alive
	}
	if d.size > wire.MaxReply {
		return wire.Ping, wire.Malformed("the answer is larger than this server reads")
	}
	if d.finish != "" {
		l = wire.Finished
	}
	return l, nil
}

// take reads one choice. Only the first one that an answer names is read.
func (d *decoder) take(c choice) error {
	if index, ok := wire.Int(c.Index); ok {
		if d.choice == nil {
			d.choice = &index
		}
		if *d.choice != index {
			return nil
		}
	}
	if wire.IsError(c.Error) {
		return wire.ErrorValue(c.Error).Error()
	}
	body := c.Delta
	if wire.IsNull(body) && len(d.parts) == 0 {
		body = c.Message
	}
	if err := d.delta(read[delta](body)); err != nil {
		return err
	}
	return d.end(wire.String(c.FinishReason))
}

func (d *decoder) delta(m delta) error {
	for _, raw := range thinkingOf(m) {
		d.write(domain.ThinkingBlock, raw)
	}
	d.content(m.Content)
	if s := wire.String(m.Refusal); s != "" {
		d.refused = true
		d.write(domain.TextBlock, m.Refusal)
	}
	for _, raw := range list(m.ToolCalls) {
		if err := d.piece(readPiece(raw)); err != nil {
			return err
		}
	}
	if f := read[functionPiece](m.FunctionCall); !wire.IsNull(m.FunctionCall) {
		return d.piece(piece{name: f.Name, args: f.Arguments})
	}
	return nil
}

// content takes a text, or a list of typed parts of text and thinking.
func (d *decoder) content(raw wire.Raw) {
	if wire.IsNull(raw) {
		return
	}
	if raw.Kind() == '"' {
		d.write(domain.TextBlock, raw)
		return
	}
	for _, e := range list(raw) {
		o := wire.Object(e)
		switch t := wire.String(o["type"]); {
		case o == nil:
			d.write(domain.TextBlock, e)
		case strings.Contains(t, "thinking") || strings.Contains(t, "reasoning"):
			for _, inner := range texts(e) {
				d.write(domain.ThinkingBlock, inner)
			}
		default:
			d.write(domain.TextBlock, o["text"])
		}
	}
}

// thinkingOf returns the pieces of thinking in m. Backends that have several members for it repeat themselves in them.
func thinkingOf(m delta) []wire.Raw {
	for _, raw := range []wire.Raw{m.ReasoningContent, m.Reasoning, m.ReasoningDetails} {
		if pieces := texts(raw); len(pieces) > 0 {
			return pieces
		}
	}
	return nil
}

// texts returns the non-empty strings of a text, of an object that holds one, or of a list of either.
func texts(raw wire.Raw) (found []wire.Raw) {
	switch {
	case wire.IsNull(raw) || string(raw) == `""`:
	case raw.Kind() == '"':
		found = append(found, raw)
	default:
		for _, e := range list(raw) {
			if e.Kind() != '{' {
				found = append(found, texts(e)...)
				continue
			}
			o := wire.Object(e)
			for _, name := range []string{"text", "summary", "content", "thinking"} {
				if inner := texts(o[name]); len(inner) > 0 {
					found = append(found, inner...)
					break
				}
			}
		}
	}
	return found
}

// write appends a piece of text to the open block of its kind, or opens one.
func (d *decoder) write(kind domain.BlockType, literal wire.Raw) {
	if len(literal) == 0 || literal.Kind() != '"' || string(literal) == `""` {
		return
	}
	d.size += len(literal)
	d.show(kind, d.open(kind).text.Add(literal))
}

func (d *decoder) open(kind domain.BlockType) *part {
	if n := len(d.parts); n > 0 {
		last := d.parts[n-1]
		if last.kind == kind {
			return last
		}
		d.close(last)
	}
	p := &part{kind: kind}
	d.parts = append(d.parts, p)
	return p
}

// close gives out what a block still held back.
func (d *decoder) close(p *part) {
	if p.call == nil {
		d.show(p.kind, p.text.End())
		return
	}
	p.call.waiting += p.call.args.End()
	p.call.name.End()
	d.showCall(p.call.show())
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

func (d *decoder) showCall(part *ports.ToolCallPart) {
	if part != nil {
		part.Name = d.ownName(part.Name)
		d.emit(ports.Delta{ToolCall: part})
	}
}

// ownName returns the name of the tool that the wire knows as name.
func (d *decoder) ownName(name string) string {
	if own, ok := d.names[name]; ok {
		return own
	}
	return name
}

func (d *decoder) piece(p piece) error {
	if p.blank() && len(d.calls.all) > 0 && !p.indexed {
		return nil
	}
	k, err := d.calls.place(p)
	if err != nil {
		return err
	}
	if k == nil {
		if n := len(d.parts); n > 0 && d.parts[n-1].call == nil {
			d.close(d.parts[n-1])
		}
		k = d.calls.open(p)
		d.parts = append(d.parts, &part{kind: domain.CallBlock, call: k})
	}
	d.size += len(p.name) + len(p.args)
	d.showCall(k.add(p, d.calls.round))
	return nil
}

// Whole takes the body of an answer that is no stream.
func (d *decoder) Whole(body []byte) error {
	l, err := d.chunk(body)
	if err == nil && l != wire.Finished {
		return wire.Malformed("the answer is neither a stream nor a completion")
	}
	return err
}

// Complete reports whether a finish reason has come.
func (d *decoder) Complete() bool { return d.finish != "" }
