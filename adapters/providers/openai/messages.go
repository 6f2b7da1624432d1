package openai

import (
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

type message struct {
	Role       string     `json:"role"`
	Content    wire.Raw   `json:"content"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitzero"`
}

type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type contentPart struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitzero"`
	ImageURL *imageURL `json:"image_url,omitzero"`
}

type imageURL struct {
	URL string `json:"url"`
}

// messages returns the messages of req as this wire wants them: no blank text, no thinking (the wire has no place for
// it), each result after its call, images of results in a user message behind them; user and assistant by turns, the user
// first, and last but for a tool.
func messages(req ports.ModelRequest) []message {
	var b builder
	if s := wire.Clean(req.System); strings.TrimSpace(s) != "" {
		b.out = append(b.out, message{Role: "system", Content: wire.Quoted(s)})
	}
	for _, m := range req.Messages {
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
	if b.last() == nil || b.last().Role == "assistant" {
		b.say(wire.GoOn)
	}
	return b.out
}

type builder struct {
	out     []message
	pending []contentPart // of the user message that comes next
}

// last returns the message written last, nil when nobody has spoken yet.
func (b *builder) last() *message {
	if n := len(b.out); n > 0 && b.out[n-1].Role != "system" {
		return &b.out[n-1]
	}
	return nil
}

// say writes a user message of the server's own.
func (b *builder) say(s string) {
	b.out = append(b.out, message{Role: "user", Content: wire.Quoted(s)})
}

// flush writes the user message that was put together.
func (b *builder) flush() {
	if len(b.pending) > 0 {
		b.out = append(b.out, message{Role: "user", Content: userContent(b.pending)})
		b.pending = nil
	}
}

func (b *builder) user(m domain.Message) {
	parts := wire.Visible(m.Content, textPart, image)
	if len(parts) == 0 {
		parts = []contentPart{textPart(wire.EmptyInput)}
	}
	b.pending = append(b.pending, parts...)
}

func (b *builder) assistant(m domain.Message) {
	var text strings.Builder
	var calls []toolCall
	for _, block := range m.Content {
		switch block.Type {
		case domain.TextBlock:
			text.WriteString(wire.Clean(block.Text))
		case domain.CallBlock:
			calls = append(calls, callMessage(block))
		}
	}
	said := text.String()
	if strings.TrimSpace(said) == "" {
		said = ""
	}
	if said == "" && len(calls) == 0 {
		return
	}
	b.flush()
	b.answer(said, calls)
}

// answer writes what an assistant said and called, into the message before it where that is an answer as well.
func (b *builder) answer(said string, calls []toolCall) {
	if b.last() == nil {
		b.say(wire.EmptyInput)
	}
	if b.last().Role != "assistant" {
		b.out = append(b.out, message{Role: "assistant", Content: wire.Raw("null")})
	} else if before := wire.String(b.last().Content); before != "" && said != "" {
		said = before + "\n\n" + said
	}
	last := b.last()
	last.ToolCalls = append(last.ToolCalls, calls...)
	if said != "" {
		last.Content = wire.Quoted(said)
	}
}

func callMessage(block domain.Block) toolCall {
	f := functionCall{Name: wire.ToolName(block.Name, maxName), Arguments: wire.CallArguments(block)}
	return toolCall{ID: wireID(block.ID), Type: "function", Function: f}
}

func (b *builder) result(m domain.Message) {
	// The images of earlier results wait until all of them are told: nothing may come between a call and its results.
	if n := len(b.out); n == 0 || b.out[n-1].Role != "tool" {
		b.flush()
	}
	var text []string
	for _, part := range wire.Visible(m.Content, textPart, image) {
		if part.ImageURL == nil {
			text = append(text, part.Text)
			continue
		}
		text = append(text, "(an image, shown below)")
		b.pending = append(b.pending, textPart("Image from a result of "+wire.Clean(m.ToolName)+":"), part)
	}
	if len(text) == 0 {
		text = []string{wire.EmptyOutput}
	}
	b.out = append(b.out, message{Role: "tool", Content: wire.Quoted(strings.Join(text, "\n")), ToolCallID: wireID(m.CallID)})
}

// images is what the wire takes of images; it bounds their sizes by that of the whole request alone.
var images = wire.Images{Types: wire.WebImages}

// image returns an image, or the text in its place.
func image(b domain.Block) contentPart {
	b, instead := images.Show(b)
	if instead != "" {
		return textPart(instead)
	}
	return contentPart{Type: "image_url", ImageURL: &imageURL{"data:" + b.MimeType + ";base64," + b.Data}}
}

func textPart(s string) contentPart { return contentPart{Type: "text", Text: s} }

// userContent returns a plain text where that is enough: not every backend takes a list of parts.
func userContent(parts []contentPart) wire.Raw {
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.ImageURL != nil {
			b, _ := wire.Encode(parts)
			return b
		}
		texts = append(texts, p.Text)
	}
	return wire.Quoted(strings.Join(texts, "\n\n"))
}

// maxName is the longest name of a tool that OpenAI takes. A name that a model made up goes back like any other.
const maxName = 64

// wireID returns the id of a call as OpenAI takes it: of at most 40 characters.
func wireID(id string) string { return wire.CallID(id, 40) }
