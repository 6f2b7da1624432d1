package providers_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// What clients, models and tools say in a history.

func payload(text string) domain.Payload { return domaintest.Payload(text) }

// vary rewords a command; see domaintest.Options.
func (h *history) vary(l *domaintest.Ledger, cmd domain.Command) domain.Command {
	switch c := cmd.(type) {
	case domain.SubmitInput:
		c.Payload = h.input(c.Payload)
		return c
	case domain.AppendAssistant:
		return h.reply(l, c)
	case domain.AppendToolResult:
		c.Payload = h.output(c.Payload)
		return c
	case domain.AppendCompaction:
		c.Payload = h.summary(c.Payload)
		return c
	}
	return cmd
}

// some returns a whole number below n.
func (h *history) some(n int) int { return h.random.IntN(n) }

// text returns a text that is unlike all others, unless it is blank.
func (h *history) text() string {
	text := strings.ToValidUTF8(wiretest.OddText(h.random), "")
	if h.some(12) == 0 {
		text = strings.Repeat("x\n", 600)
	}
	if strings.TrimSpace(text) == "" {
		return text
	}
	h.texts++
	return fmt.Sprint(h.texts, " ", text)
}

// pictures are images of one pixel, each of another shade.
var pictures = func() (list []string) {
	for shade := range 64 {
		var b bytes.Buffer
		pixel := &image.Gray{Pix: []byte{byte(shade)}, Stride: 1, Rect: image.Rect(0, 0, 1, 1)}
		if err := png.Encode(&b, pixel); err != nil {
			panic(err)
		}
		list = append(list, base64.StdEncoding.EncodeToString(b.Bytes()))
	}
	return list
}()

func (h *history) picture() string { return wiretest.OneOf(h.random, pictures...) }

// A body without its end, and an image that not every backend takes.
var (
	cutPNG   = wiretest.PNG[:len(wiretest.PNG)-24]
	largePNG = wiretest.LargePNG(9000, 1)
)

// blocks are texts and images of any quality, and what no version knows yet.
func (h *history) blocks() string {
	list := []map[string]string{}
	for range h.some(4) {
		switch h.some(6) {
		case 0:
			list = append(list, map[string]string{"type": "hologram", "data": "x"})
		case 1, 2:
			list = append(list, map[string]string{"type": "text", "text": h.text()})
		default:
			kind := wiretest.OneOf(h.random, "image/png", "image/png", "IMAGE/JPEG", "image/bmp", "", "image/x\x00")
			list = append(list, map[string]string{"type": "image", "mimeType": kind, "data": wiretest.OneOf(h.random, h.picture(), h.picture(), cutPNG, largePNG, "AAAABBBB", "A", "", "\n", "A\x00")})
		}
	}
	b, err := json.Marshal(list)
	require.NoError(h.t, err)
	return string(b)
}

// aged returns e as it may stand in a ledger of an older version, which took any block.
func (h *history) aged(e domain.Event) domain.Event {
	if e.Kind == domain.UserMessage && h.some(3) == 0 {
		e.Payload = e.Payload.With("content", h.blocks())
	}
	return e
}

func (h *history) input(p domain.Payload) domain.Payload {
	if h.some(3) > 0 {
		p = p.With("text", domaintest.Quote(h.text()))
	}
	if h.some(4) == 0 {
		return p.Without("selection")
	}
	chosen := map[string]any{"model": wiretest.OneOf(h.random, catalogue.Models()...).ID}
	if h.some(2) == 0 {
		chosen["thinking"] = wiretest.OneOf(h.random, "low", "medium", "max", "none")
	}
	if h.some(3) == 0 {
		chosen["temperature"] = wiretest.OneOf(h.random, 0, 0.5, 1)
	}
	if h.some(3) == 0 {
		chosen["maxTokens"] = wiretest.OneOf(h.random, 1, 1500, 9000)
	}
	if h.some(2) == 0 {
		tools := []string{}
		for _, name := range slices.Sorted(maps.Keys(toolSchemas)) {
			if h.some(2) == 0 {
				tools = append(tools, name)
			}
		}
		chosen["tools"] = tools
	}
	b, err := json.Marshal(chosen)
	require.NoError(h.t, err)
	return p.With("selection", string(b))
}

// toolSchemas holds the schema of each tool.
var toolSchemas = map[string]string{
	"tool": "", "files.read": `{"type":"object","properties":{"z":{},"a":{}}}`, "ä": `{}`, "7up": `{"properties":{}}`, strings.Repeat("x", 70): `[]`,
}

func toolsOf(names []string) []ports.ToolSpec {
	var specs []ports.ToolSpec
	for _, name := range names {
		specs = append(specs, ports.ToolSpec{Name: name, Description: "does\x00 " + name, Schema: toolSchemas[name]})
	}
	return specs
}

func (h *history) output(p domain.Payload) domain.Payload {
	if out, err := domain.ParseToolOutput(p); err != nil || out.Interrupted {
		return p
	}
	return p.With("content", h.blocks()).With("isError", fmt.Sprint(h.some(3) == 0))
}

func (h *history) summary(p domain.Payload) domain.Payload {
	if _, err := domain.ParseCompaction(p); err != nil {
		return p // there was nothing to compact
	}
	return p.With("summary", domaintest.Quote(h.text()))
}

// reply has the model that the ledger chooses for the inputs of c give the answer, with as many calls as c has.
func (h *history) reply(l *domaintest.Ledger, c domain.AppendAssistant) domain.Command {
	m, err := domain.ParseAssistant(c.Payload)
	require.NoError(h.t, err)
	for _, e := range l.Events[h.read.Head():] {
		require.NoError(h.t, h.read.Apply(e))
	}
	presented := domain.Presented{Seqs: m.InputSeqs}
	model := h.chosen(presented)
	line := h.lines[slices.IndexFunc(h.lines, func(l *line) bool { return l.backend.provider == model.Provider })]
	calls := m.CallIDs()
	got, err := h.generate(line, model, request(h.read, model, presented), m.StopReason, calls)
	m.Provider, m.Model, m.Content = model.Provider, got.Model, got.Content
	switch {
	case !m.StopReason.Completed():
		m.Content = slices.DeleteFunc(got.Content, func(b domain.Block) bool { return b.Type == domain.CallBlock })
	case err != nil:
		h.fail("%s answers %s: %v", model.ID, line.answer.Body(), err)
	default:
		m.StopReason = got.StopReason
	}
	c.Payload, c.Start = h.named(m, calls, c.Start)
	return c
}

// chosen is the model that the ledger chooses, the default where there is none like it.
func (h *history) chosen(p domain.Presented) domain.Model {
	raw, _ := h.read.Selection(p)
	s, err := domain.ParseSelection(raw)
	require.NoError(h.t, err)
	for _, name := range []string{s.Model, ""} {
		if m, err := catalogue.Resolve(name); err == nil && slices.ContainsFunc(catalogue.Models(), func(k domain.Model) bool { return k.ID == m.ID }) {
			return m
		}
	}
	panic("the catalogue has no default")
}

// generate has a model answer over the wire. A failed answer is cut off somewhere.
func (h *history) generate(l *line, m domain.Model, req ports.ModelRequest, stop domain.StopReason, calls []string) (ports.Reply, error) {
	a := h.speak(l.backend, m.Name, len(calls))
	script := l.backend.answer(strings.TrimPrefix(l.backend.maker(m.Name), l.backend.provider+"/"), a)
	if !stop.Completed() {
		script.Steps = script.Steps[:h.some(len(script.Steps))]
	}
	l.answer, l.asked = &script, 0
	reply, err := l.provider.Generate(h.t.Context(), req, func(ports.Delta) {})
	require.Equal(h.t, 1, l.asked)
	if err := h.checkBody(l, m, req.Messages); err != nil {
		h.fail("a request to %s on event %d: %v\n%s", m.ID, h.read.Head(), err, l.body)
	}
	return reply, err
}

// spoil is what no wire takes.
const spoil = "\x00"

// named gives the calls of m ids of any shape, and spoils what an earlier version may have left so.
func (h *history) named(m domain.Assistant, ids, start []string) (domain.Payload, []string) {
	n := 0
	for i := range m.Content {
		b := &m.Content[i]
		switch {
		case b.Type == domain.CallBlock:
			b.ID = wiretest.OneOf(h.random, ids[n], ids[n], "functions.tool:"+ids[n], strings.Repeat("x", 60)+ids[n])
			if at := slices.Index(start, ids[n]); at >= 0 {
				start[at] = b.ID
			}
			n++
		case b.Signature != "" && h.some(8) == 0:
			b.Signature += spoil
		case b.Thinking != "" && h.some(8) == 0:
			b.Thinking += spoil
		}
	}
	start = slices.DeleteFunc(start, func(id string) bool { return !slices.Contains(m.CallIDs(), id) }) // of a call that was repeated
	if h.some(10) == 0 {
		m.Content = append(m.Content, domain.Block{Type: "hologram"})
	}
	p, err := m.Payload(0)
	require.NoError(h.t, err)
	return p, start
}

// said is one thing that a model says.
type said struct {
	kind     domain.BlockType
	text     string // of a call the arguments, of an image its data
	id, name string // as far as the wire has them; of an image the name is its type
	signed   bool
	redacted bool // thinking without a text
}

// answer is all that a model says.
type answer struct {
	list []said
	stop domain.StopReason
}

// proof is what a request may hold of a block only if it goes to the maker of that block.
type proof struct {
	maker     string
	signature string // "" for thinking that was not signed, which goes to nobody
	mark      string // in the text of thinking, "" in other blocks
}

// speak makes up an answer with a number of calls.
func (h *history) speak(b *backend, model string, calls int) answer {
	var a answer
	for range h.some(4) {
		a.list = append(a.list, h.saying(b, model))
	}
	for range calls {
		a.list = slices.Insert(a.list, h.some(len(a.list)+1), h.prove(b, model, said{
			kind: domain.CallBlock, id: wiretest.OneOf(h.random, "call_0", "call_0", "functions.tool:0", strings.Repeat("y", 90), fmt.Sprint("toolu_", len(a.list))),
			name: wiretest.OneOf(h.random, "tool", "files.read", "ü", "made.up", strings.Repeat("x", 70)),
			text: wiretest.OneOf(h.random, `{}`, `{"n":9007199254740993}`, `{"a":"\u0000","b":"\\u0000"}`, `{"a":`, "", "[1]"), signed: h.some(2) == 0,
		}))
	}
	a.stop = domain.StopToolUse
	if calls == 0 {
		a.stop = wiretest.OneOf(h.random, domain.StopEndTurn, domain.StopEndTurn, domain.StopLength, domain.StopRefusal)
		a.list = append(a.list, said{kind: domain.TextBlock, text: wiretest.OneOf(h.random, "Done.", "Done.", " said ")})
	}
	return a
}

func (h *history) saying(b *backend, model string) said {
	s := said{kind: domain.TextBlock, text: h.text(), signed: h.some(2) == 0}
	switch h.some(5) {
	case 0:
		s.kind, s.text, s.name = domain.ImageBlock, wiretest.OneOf(h.random, h.picture(), "AAAA", "A"), wiretest.OneOf(h.random, "image/png", "image/x")
	case 1, 2:
		s.kind, s.id = domain.ThinkingBlock, fmt.Sprintf("rs_%d", len(h.proofs))
		s.text = fmt.Sprintf("thought-%d- %s", len(h.proofs), h.text())
		if s.redacted = b.redacts && h.some(4) == 0; s.redacted {
			s.text, s.signed = "", true
		}
	}
	return h.prove(b, model, s)
}

// prove keeps what the signature of s is, and what thinking that has none is known by.
func (h *history) prove(b *backend, model string, s said) said {
	p := proof{maker: b.maker(model)}
	if s.kind == domain.ThinkingBlock && !s.redacted {
		p.mark, _, _ = strings.Cut(s.text, " ")
	}
	if s.signed = s.signed && b.sign != nil; s.signed {
		p.signature = b.sign(strings.TrimPrefix(p.maker, b.provider+"/"), s)
	}
	if p.mark != "" || p.signature != "" {
		h.proofs = append(h.proofs, p)
	}
	return s
}
