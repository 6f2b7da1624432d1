package openai

import (
	"crypto/sha256"
	"encoding/hex"
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

// What stands in place of nothing: backends refuse empty messages, and a result may not be left out.
const (
	emptyInput  = "(empty message)"
	emptyOutput = "(no output)"
)

// messages returns the messages of req as this wire wants them: no blank text, no thinking (the wire has no place for
// it), each result after its call, images of results in a user message behind them, neighbouring user messages as one.
func messages(req ports.ModelRequest) []message {
	var b builder
	if s := wire.Clean(req.System); strings.TrimSpace(s) != "" {
		b.out = append(b.out, message{Role: "system", Content: jsonText(s)})
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
	return b.out
}

type builder struct {
	out     []message
	pending []contentPart // of the user message that comes next
}

// flush writes the user message that was put together.
func (b *builder) flush() {
	if len(b.pending) > 0 {
		b.out = append(b.out, message{Role: "user", Content: userContent(b.pending)})
		b.pending = nil
	}
}

func (b *builder) user(m domain.Message) {
	parts := visible(m.Content)
	if len(parts) == 0 {
		parts = []contentPart{textPart(emptyInput)}
	}
	b.pending = append(b.pending, parts...)
}

func (b *builder) assistant(m domain.Message) {
	out := message{Role: "assistant", Content: wire.Raw("null")}
	var text strings.Builder
	for _, block := range m.Content {
		switch block.Type {
		case domain.TextBlock:
			text.WriteString(wire.Clean(block.Text))
		case domain.CallBlock:
			out.ToolCalls = append(out.ToolCalls, callMessage(block))
		}
	}
	if s := text.String(); strings.TrimSpace(s) != "" {
		out.Content = jsonText(s)
	} else if len(out.ToolCalls) == 0 {
		return
	}
	b.flush()
	b.out = append(b.out, out)
}

func callMessage(block domain.Block) toolCall {
	args := wire.CleanJSON(block.Arguments)
	if args == "" {
		args = malformedArguments(block.RawArguments)
	}
	return toolCall{ID: wireID(block.ID), Type: "function", Function: functionCall{Name: wire.Clean(block.Name), Arguments: args}}
}

// malformedArguments wraps argument text that is no object in one: backends parse what they get back.
func malformedArguments(raw string) string {
	b, _ := wire.Encode(struct {
		Malformed string `json:"malformed"`
	}{wire.Clean(raw)})
	return string(b)
}

func (b *builder) result(m domain.Message) {
	// The images of earlier results wait until all of them are told: nothing may come between a call and its results.
	if n := len(b.out); n == 0 || b.out[n-1].Role != "tool" {
		b.flush()
	}
	var text []string
	for _, part := range visible(m.Content) {
		if part.ImageURL == nil {
			text = append(text, part.Text)
			continue
		}
		text = append(text, "(an image, shown below)")
		b.pending = append(b.pending, textPart("Image from a result of "+wire.Clean(m.ToolName)+":"), part)
	}
	if len(text) == 0 {
		text = []string{emptyOutput}
	}
	b.out = append(b.out, message{Role: "tool", Content: jsonText(strings.Join(text, "\n")), ToolCallID: wireID(m.CallID)})
}

// visible returns the texts and images of blocks, without blank ones.
func visible(blocks []domain.Block) []contentPart {
	var parts []contentPart
	for _, b := range blocks {
		switch {
		case b.Type == domain.TextBlock && strings.TrimSpace(b.Text) != "":
			parts = append(parts, textPart(wire.Clean(b.Text)))
		case b.Type == domain.ImageBlock && b.Data != "":
			url := "data:" + wire.Clean(b.MimeType) + ";base64," + wire.Clean(b.Data)
			parts = append(parts, contentPart{Type: "image_url", ImageURL: &imageURL{url}})
		}
	}
	return parts
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
	return jsonText(strings.Join(texts, "\n\n"))
}

func jsonText(s string) wire.Raw { return quoted(s) }

// maxID is the longest id of a tool call that OpenAI takes.
const maxID = 40

// wireID returns id as every backend takes it. A call and its result get the same one.
func wireID(id string) string {
	plain := strings.IndexFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '_' && r != '-'
	}) < 0
	if plain && len(id) <= maxID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}
