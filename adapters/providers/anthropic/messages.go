package anthropic

import (
	"slices"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// block is a content block. Which members are set follows from its type.
type block struct {
	Type         string        `json:"type"`
	Text         string        `json:"text,omitzero"`
	Thinking     *string       `json:"thinking,omitzero"` // there even if empty
	Signature    string        `json:"signature,omitzero"`
	Data         string        `json:"data,omitzero"`
	Source       *source       `json:"source,omitzero"`
	ID           string        `json:"id,omitzero"`
	Name         string        `json:"name,omitzero"`
	Input        wire.Raw      `json:"input,omitzero"`
	ToolUseID    string        `json:"tool_use_id,omitzero"`
	Content      []block       `json:"content,omitempty"`
	IsError      bool          `json:"is_error,omitzero"`
	CacheControl *cacheControl `json:"cache_control,omitzero"`
}

// source holds an image.
type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

// messages returns list as this wire wants it: user and assistant by turns, beginning and ending with the user; the
// results of an answer's calls at the head of the user message behind it; no blank text; thinking only to its maker.
func messages(list []domain.Message, to maker) []message {
	b := builder{to: to, images: images.For(list)}
	for _, m := range list {
		switch m.Role {
		case domain.RoleUser:
			b.user(m)
		case domain.RoleAssistant:
			b.assistant(m)
		case domain.RoleTool:
			b.results = append(b.results, b.result(m))
		}
	}
	b.flush()
	if len(b.out) == 0 || b.out[len(b.out)-1].Role != "user" {
		b.say(wire.GoOn)
	}
	return b.out
}

type builder struct {
	to     maker
	images wire.Images
	out    []message
	// Of the user message that comes next:
	results []block
	parts   []block
}

// flush writes the user message that was put together.
func (b *builder) flush() {
	if content := slices.Concat(b.results, b.parts); len(content) > 0 {
		b.out = append(b.out, message{"user", content})
	}
	b.results, b.parts = nil, nil
}

// say writes a user message of the server's own.
func (b *builder) say(s string) { b.out = append(b.out, message{"user", []block{textBlock(s)}}) }

func (b *builder) user(m domain.Message) {
	parts := wire.Visible(m.Content, textBlock, b.image)
	if len(parts) == 0 {
		parts = []block{textBlock(wire.EmptyInput)}
	}
	b.parts = append(b.parts, parts...)
}

// assistant writes an answer. One of thinking alone is none: the wire wants something behind it.
func (b *builder) assistant(m domain.Message) {
	var content []block
	said := 0 // up to and including the last block that is no thinking
	for _, k := range m.Content {
		out, ok := b.answered(m, k)
		if !ok {
			continue
		}
		content = append(content, out)
		if !out.isThinking() {
			said = len(content)
		}
	}
	if content = content[:said]; len(content) == 0 {
		return
	}
	b.flush()
	switch n := len(b.out); {
	case n == 0:
		b.say(wire.EmptyInput)
	case b.out[n-1].Role == "assistant":
		b.out[n-1].Content = append(b.out[n-1].Content, content...)
		return
	}
	b.out = append(b.out, message{"assistant", content})
}

// answered returns a block of an answer. ok is false for what the wire has no place for.
func (b *builder) answered(m domain.Message, k domain.Block) (out block, ok bool) {
	switch k.Type {
	case domain.TextBlock:
		return textBlock(wire.Clean(k.Text)), strings.TrimSpace(k.Text) != ""
	case domain.ThinkingBlock:
		return b.to.replay(m, k)
	case domain.CallBlock:
		return block{
			Type: "tool_use", ID: wireID(k.ID), Name: wire.ToolName(k.Name, maxName), Input: wire.Raw(wire.CallArguments(k)),
		}, true
	}
	return block{}, false
}

// failedImage stands in place of an image in the result of a call that failed, where the wire takes text alone.
const failedImage = "(an image was left out: this backend takes none from a call that failed)"

func (b *builder) result(m domain.Message) block {
	content := wire.Visible(m.Content, textBlock, b.image)
	for i, c := range content {
		if m.IsError && c.Type == "image" {
			content[i] = textBlock(failedImage)
		}
	}
	if len(content) == 0 {
		content = []block{textBlock(wire.EmptyOutput)}
	}
	return block{Type: "tool_result", ToolUseID: wireID(m.CallID), Content: content, IsError: m.IsError}
}

// images is what the backend takes of images, as it documents it.
var images = wire.Images{Types: wire.WebImages, MaxBytes: 5 << 20, MaxSide: 8000, Many: 20, ManySide: 2000}

// image returns an image, or the text in its place.
func (b *builder) image(k domain.Block) block {
	shown, instead := b.images.Show(k)
	if instead != "" {
		return textBlock(instead)
	}
	return block{Type: "image", Source: &source{"base64", shown.MimeType, shown.Data}}
}

func textBlock(s string) block { return block{Type: "text", Text: s} }

// wireID returns the id of a call as the wire takes it.
func wireID(id string) string { return wire.CallID(id, 64) }
