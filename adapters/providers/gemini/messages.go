package gemini

import (
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

type turn struct {
	Role  string        `json:"role,omitzero"`
	Parts []requestPart `json:"parts"`
}

// requestPart is a part of a request. It has one of text, call, response and data.
type requestPart struct {
	Text             *string       `json:"text,omitzero"` // there even if empty
	Thought          bool          `json:"thought,omitzero"`
	ThoughtSignature string        `json:"thoughtSignature,omitzero"`
	FunctionCall     *callPart     `json:"functionCall,omitzero"`
	FunctionResponse *responsePart `json:"functionResponse,omitzero"`
	InlineData       *dataPart     `json:"inlineData,omitzero"`
}

type callPart struct {
	ID   string   `json:"id,omitzero"`
	Name string   `json:"name"`
	Args wire.Raw `json:"args"`
}

type responsePart struct {
	ID       string   `json:"id,omitzero"`
	Name     string   `json:"name"`
	Response response `json:"response"`
}

// response is what a tool printed, as a success or a failure.
type response struct {
	Output *string `json:"output,omitzero"`
	Error  *string `json:"error,omitzero"`
}

type dataPart struct {
	MimeType string `json:"mimeType"`
	Data     string `json:"data"`
}

// images is what the wire takes of images; it bounds their sizes by that of the whole request alone.
var images = wire.Images{Types: []string{"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}}

// messages returns list as this wire wants it: user and model by turns, beginning and ending with the user; the results
// of an answer's calls, in call order, as a turn of their own behind it, and the user's next one behind that, as newer
// models refuse other parts beside results; no blank text but a signed one.
func messages(list []domain.Message, to maker) []turn {
	b := builder{to: to, ids: map[string]string{}}
	for _, m := range list {
		switch m.Role {
		case domain.RoleUser:
			b.user(m)
		case domain.RoleAssistant:
			b.assistant(m)
		case domain.RoleTool:
			b.result(m)
		}
	}
	b.flush()
	if len(b.out) == 0 || b.out[len(b.out)-1].Role != "user" {
		b.say(wire.GoOn)
	}
	return b.out
}

type builder struct {
	to  maker
	out []turn
	ids map[string]string // of calls, as they were sent, by our own
	// Of the user turns that come next:
	results []requestPart
	parts   []requestPart
}

// flush writes the user turns that were put together.
func (b *builder) flush() {
	for _, parts := range [][]requestPart{b.results, b.parts} {
		if len(parts) > 0 {
			b.out = append(b.out, turn{"user", parts})
		}
	}
	b.results, b.parts = nil, nil
}

// say writes a user turn of the server's own.
func (b *builder) say(s string) { b.out = append(b.out, turn{"user", []requestPart{textPart(s)}}) }

func (b *builder) user(m domain.Message) {
	parts := wire.Visible(m.Content, textPart, image)
	if len(parts) == 0 {
		parts = []requestPart{textPart(wire.EmptyInput)}
	}
	b.parts = append(b.parts, parts...)
}

// assistant writes an answer. One that holds nothing but thinking and signatures is none.
func (b *builder) assistant(m domain.Message) {
	parts, said := b.answered(m)
	if !said {
		return
	}
	b.flush()
	switch n := len(b.out); {
	case n == 0:
		b.say(wire.EmptyInput)
	case b.out[n-1].Role == "model":
		b.out[n-1].Parts = append(b.out[n-1].Parts, parts...)
		return
	}
	b.out = append(b.out, turn{"model", parts})
}

// answered returns the parts of an answer, and whether they say anything.
func (b *builder) answered(m domain.Message) (parts []requestPart, said bool) {
	called := false
	for _, k := range m.Content {
		signature := b.to.signature(m, k)
		switch k.Type {
		case domain.TextBlock:
			blank := strings.TrimSpace(k.Text) == ""
			if !blank || signature != "" {
				p := textPart(wire.Clean(k.Text))
				p.ThoughtSignature = signature
				parts, said = append(parts, p), said || !blank
			}
		case domain.ThinkingBlock:
			if signature != "" {
				parts = append(parts, requestPart{Text: &k.Thinking, Thought: true, ThoughtSignature: signature})
			}
		case domain.CallBlock:
			if signature == "" && !called && b.to.strict {
				signature = noSignature
			}
			called, said = true, true
			parts = append(parts, requestPart{ThoughtSignature: signature, FunctionCall: b.call(m, k)})
		case domain.ImageBlock:
			if p := image(k); p.InlineData != nil {
				p.ThoughtSignature = signature
				parts, said = append(parts, p), true
			}
		}
	}
	return parts, said
}

// call returns a call of m with the id that this backend gave it, if it did and to no other call of m.
func (b *builder) call(m domain.Message, k domain.Block) *callPart {
	if id := k.ProviderID; m.Provider == b.to.provider && id != "" && wire.Clean(id) == id {
		same := 0
		for _, other := range m.Content {
			if other.Type == domain.CallBlock && other.ProviderID == id {
				same++
			}
		}
		if same == 1 {
			b.ids[k.ID] = id
		}
	}
	return &callPart{ID: b.ids[k.ID], Name: wireName(k.Name), Args: wire.Raw(wire.CallArguments(k))}
}

func (b *builder) result(m domain.Message) {
	var text []string
	for _, p := range wire.Visible(m.Content, textPart, image) {
		if p.InlineData == nil {
			text = append(text, *p.Text)
			continue
		}
		text = append(text, "(an image, shown below)")
		b.parts = append(b.parts, textPart("Image from a result of "+wire.Clean(m.ToolName)+":"), p)
	}
	if len(text) == 0 {
		text = []string{wire.EmptyOutput}
	}
	said := strings.Join(text, "\n")
	r := response{Output: &said}
	if m.IsError {
		r = response{Error: &said}
	}
	b.results = append(b.results, requestPart{FunctionResponse: &responsePart{b.ids[m.CallID], wireName(m.ToolName), r}})
}

// image returns an image, or a text that says why it is not shown: an image that the wire refuses would be refused in
// every later request, too.
func image(b domain.Block) requestPart {
	b, instead := images.Show(b)
	if instead != "" {
		return textPart(instead)
	}
	return requestPart{InlineData: &dataPart{b.MimeType, b.Data}}
}

func textPart(s string) requestPart { return requestPart{Text: &s} }
