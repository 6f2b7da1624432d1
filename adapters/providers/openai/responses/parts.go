package responses

import (
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
)

// think appends a piece of thinking. A new place begins a new paragraph.
func (d *decoder) think(p *block, place string, literal wire.Raw) error {
	if wire.Tells(literal) && p.place != place {
		if p.Said() != "" {
			if err := d.Write(p.Part, wire.Raw(`"\n\n"`)); err != nil {
				return err
			}
		}
		p.place = place
	}
	return d.Write(p.Part, literal)
}

// settle takes the whole text of p. What had not come yet is added.
func (d *decoder) settle(p *wire.Part, literal wire.Raw) error {
	if !wire.Tells(literal) {
		return nil
	}
	d.Close(p)
	whole, came := wire.String(literal), p.Said()
	rest, ok := strings.CutPrefix(whole, came)
	switch {
	case ok:
		return d.Write(p, quotedRest(rest))
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
func (d *decoder) settleThought(p *wire.Part, item outputItem) error {
	if s := signature(item); s != "" {
		d.Grow(len(s))
		p.Signature = s
	}
	if p.Said() != "" || !d.Newest(p) {
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
	return d.Write(p, quotedRest(strings.Join(texts, "\n\n")))
}

// settleArguments takes the whole argument text of a call: a string, or the value that some backends send in its place.
func (d *decoder) settleArguments(p *wire.Part, raw wire.Raw) error {
	p.Pending = false
	if wire.IsNull(raw) || string(raw) == `""` {
		return nil
	}
	whole := string(raw)
	if raw.Kind() == '"' {
		whole = wire.String(raw)
	}
	d.Close(p)
	rest, ok := strings.CutPrefix(whole, p.Said())
	switch {
	case ok:
		d.Argue(p, quotedRest(rest))
		return nil
	case sameArguments(whole, p.Said()):
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
