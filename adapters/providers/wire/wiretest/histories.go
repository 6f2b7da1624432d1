package wiretest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// OneOf returns one of list.
func OneOf[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// OddText returns a text of the kinds that have broken requests: none, blank, with U+0000, no UTF-8, beyond ASCII, long.
func OddText(r *rand.Rand) string {
	return OneOf(r, "plain", "", " \n", "a\x00b", "spelled \\u0000", "\xff\xfe", "😀 \u2028 <&>", strings.Repeat("long ", 9))
}

// Histories is what is peculiar to a wire in what its requests may have to present.
type Histories struct {
	Provider string   // of the wire
	Models   []string // that are asked, and that answered
	// Signed returns a block that m's model signed, or that looks so, and may look at the blocks of m before it. Nil for a wire
	// whose models sign nothing. n is a number of its own in the history.
	Signed func(r *rand.Rand, m domain.Message, n int) domain.Block
	// Check makes the request and fails when the strictest backend refuses it.
	Check func(t *testing.T, req ports.ModelRequest)
}

// TestAnyHistory holds that what the kernel may present becomes a request that the strictest backend takes, whatever
// backends wrote it and at whatever point it is asked. Ledgers hold less than these messages: TestAnyHistory of all wires
// goes by them.
func TestAnyHistory(t *testing.T, h Histories) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 1500 {
		req := ports.ModelRequest{Model: OneOf(r, append(h.Models, "m")...), System: OddText(r), Messages: h.messages(r)}
		req.Options.Thinking = OneOf(r, "", "low", "max", "none")
		req.Options.MaxTokens = OneOf(r, 0, 1, 1500, 9000)
		if r.IntN(2) == 0 {
			warm := r.Float64()
			req.Options.Temperature = &warm
		}
		schema := OneOf(r, "", `{}`, `{"type":"object"}`, `[]`, `{"$schema":"x"}`)
		req.Tools = []ports.ToolSpec{{Name: OneOf(r, "f", "a.b", "ä", "7", strings.Repeat("x", 70)), Description: OddText(r), Schema: schema}, {Name: "g"}}
		h.Check(t, req)
	}
}

// messages are each call with its results; answers may be neighbours or come first, and inputs may be neighbours too.
func (h Histories) messages(r *rand.Rand) (list []domain.Message) {
	if r.IntN(4) > 0 {
		list = append(list, User(Text(OddText(r))))
	}
	for n := range r.IntN(6) {
		m := h.answer(r, n)
		list = append(list, m)
		for _, b := range m.Content {
			if b.Type == domain.CallBlock {
				result := Result(b.ID, Text(OddText(r)), oddImage(r))
				result.ToolName, result.IsError = b.Name, r.IntN(2) == 0
				list = append(list, result)
			}
		}
		for r.IntN(3) > 0 {
			list = append(list, User(Text(OddText(r)), Text(OddText(r)), oddImage(r)))
		}
	}
	return list
}

func oddImage(r *rand.Rand) domain.Block {
	return Image(OneOf(r, "image/png", "image/PNG", "image/x", ""), OneOf(r, PNG, "AAAA", "A", "\n", ""))
}

// answer is one of any backend.
func (h Histories) answer(r *rand.Rand, turn int) domain.Message {
	m := domain.Message{Role: domain.RoleAssistant, Provider: OneOf(r, h.Provider, "another", ""), Model: OneOf(r, append(h.Models, "m")...)}
	for i := range r.IntN(5) {
		b := h.block(r, m, 10*turn+i)
		m.Content = append(m.Content, b)
	}
	return m
}

func (h Histories) block(r *rand.Rand, m domain.Message, n int) domain.Block {
	switch kind := r.IntN(7); {
	case kind == 0:
		return Text(OddText(r))
	case kind == 1:
		return Thinking(OddText(r), OneOf(r, "", "c2ln\x00"))
	case kind == 2:
		return OneOf(r, oddImage(r), domain.Block{Type: "hologram"})
	case kind < 5 && h.Signed != nil:
		return h.Signed(r, m, n)
	}
	return OddCall(r, n)
}

// OddCall returns a call with an id, a name and arguments of any shape. Of different n the ids differ.
func OddCall(r *rand.Rand, n int) domain.Block {
	b := Call(fmt.Sprintf(OneOf(r, "call_%d", "functions.x:%d/", strings.Repeat("x", 60)+"%d"), n), OneOf(r, `{}`, `{"a":"\u0000"}`), "")
	if r.IntN(3) == 0 {
		b.Arguments, b.RawArguments = "", OneOf(r, " ", `{"a":`, "\xff\x00")
	}
	b.Name, b.ProviderID = OneOf(r, "f", "a.b", "", "ü\x00", "7"), OneOf(r, "", "call_0", "i\x00", OddText(r))
	return b
}
