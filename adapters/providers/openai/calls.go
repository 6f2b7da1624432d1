package openai

import (
	"slices"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

// call is a tool call on its way.
type call struct {
	part    *wire.Part
	name    wire.Text // as far as it has come
	index   int64
	indexed bool
	round   int // the last chunk that named it
}

// calls sorts the pieces of an answer's tool calls. A piece belongs to the call with its id, else to the one at its
// index, else to the only one there is (see place).
type calls struct {
	all   []*call
	at    map[int64]*call // the latest call of each index
	round int             // counts chunks
}

// piece is one delta of a call.
type piece struct {
	index   int64
	indexed bool
	id      string
	name    wire.Raw
	args    wire.Raw
}

func readPiece(raw wire.Raw) piece {
	p := wire.Members[callPiece](raw)
	f := wire.Members[functionPiece](p.Function)
	out := piece{id: wire.Label(p.ID), name: f.Name, args: f.Arguments}
	out.index, out.indexed = wire.Int(p.Index)
	return out
}

func (p piece) named() bool { return wire.String(p.name) != "" }

// blank reports whether p carries nothing at all.
func (p piece) blank() bool {
	return p.id == "" && !p.named() && (wire.IsNull(p.args) || string(p.args) == `""`)
}

// place returns the call that p continues, or nil when p opens a new one. It returns a fault when that cannot be known.
func (c *calls) place(p piece) (*call, error) {
	found := c.find(p)
	switch {
	case found != nil && found.round == c.round && p.named() && found.name.Len() > 0:
		return nil, nil // a second head within one chunk is a second call, whatever its id and index say
	case found != nil || p.id != "" || p.indexed || len(c.all) == 0:
		return found, nil
	case c.isHead(p):
		return nil, nil
	}
	return nil, &ports.ProviderError{
		Class: ports.Retryable, Code: "ambiguous_tool_call",
		Message: "a piece of a tool call has neither index nor id, and more than one call is open",
	}
}

func (c *calls) find(p piece) *call {
	slot, only := c.at[p.index], (*call)(nil)
	if !p.indexed {
		slot = nil
	}
	if len(c.all) == 1 {
		only = c.all[0]
	}
	switch {
	case p.id != "":
		return c.findID(p, slot, only)
	case p.indexed && slot != nil:
		return slot
	case only == nil || p.indexed && (only.indexed || p.named()):
		return nil
	case !p.indexed && only.name.Len() > 0 && c.isHead(p):
		return nil
	}
	return only
}

// findID returns the call with the id of p, at the same index if both tell one, or the call that still lacks its id.
func (c *calls) findID(p piece, slot, only *call) *call {
	for _, k := range slices.Backward(c.all) {
		if k.part.ProviderID == p.id && (!p.indexed || !k.indexed || k.index == p.index) {
			return k
		}
	}
	if !p.indexed {
		slot = only
	}
	if slot != nil && slot.part.ProviderID == "" && !(p.named() && slot.name.Len() > 0) {
		return slot
	}
	return nil
}

// whole reports whether the arguments of k are one complete object already.
func (k *call) whole() bool {
	if !strings.HasSuffix(strings.TrimSpace(k.part.Said()), "}") {
		return false
	}
	_, raw := wire.FinishArguments(k.part.Said())
	return raw == ""
}

// isHead reports whether p, which has neither id nor index, opens a call: it has a name, and each call so far has another
// one or is complete.
func (c *calls) isHead(p piece) bool {
	name := wire.String(p.name)
	for _, k := range c.all {
		if strings.HasPrefix(name, k.name.String()) && !k.whole() {
			return false
		}
	}
	return name != ""
}

// open adds the call that p is the head of.
func (c *calls) open(p piece, part *wire.Part) *call {
	k := &call{part: part, index: p.index, indexed: p.indexed}
	c.all = append(c.all, k)
	if p.indexed {
		if c.at == nil {
			c.at = map[int64]*call{}
		}
		c.at[p.index] = k
	}
	return k
}

// rename takes a piece of the name. Backends send it whole with each piece, grow it, or cut it.
func (k *call) rename(raw wire.Raw) {
	old, next := k.name.String(), wire.String(raw)
	switch {
	case old == next:
	case old != "" && strings.HasPrefix(next, old):
		k.name.Add(wire.Quoted(next[len(old):]))
	default:
		k.name.Add(raw)
	}
}
