package responses

import (
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

// item is one item of the input. Which members are set follows from its type.
type item struct {
	Type             string   `json:"type"`
	ID               wire.Raw `json:"id,omitzero"` // of reasoning alone: any other id would demand the items around it
	Role             string   `json:"role,omitzero"`
	Content          []part   `json:"content,omitempty"`
	Summary          wire.Raw `json:"summary,omitzero"`
	EncryptedContent wire.Raw `json:"encrypted_content,omitzero"`
	CallID           string   `json:"call_id,omitzero"`
	Name             string   `json:"name,omitzero"`
	Arguments        string   `json:"arguments,omitzero"`
	Output           wire.Raw `json:"output,omitzero"`
}

// part is a piece of content.
type part struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitzero"`
	Detail   string `json:"detail,omitzero"`
	ImageURL string `json:"image_url,omitzero"`
}

// messages returns list as this wire wants it: no blank text, each output right behind the calls of its answer, neighbouring
// user messages as one, reasoning only to its maker and never without something behind it.
func messages(list []domain.Message, to maker) []item {
	b := builder{to: to}
	for _, m := range list {
		switch m.Role {
		case domain.RoleUser:
			b.user(m)
		case domain.RoleAssistant:
			b.assistant(m)
		case domain.RoleTool:
			b.out = append(b.out, item{Type: "function_call_output", CallID: wireID(m.CallID), Output: outputOf(m)})
		}
	}
	if len(b.out) == 0 {
		b.out = []item{message("user", textPart(wire.EmptyInput))}
	}
	return b.out
}

type builder struct {
	to  maker
	out []item
}

func (b *builder) user(m domain.Message) {
	parts := wire.Visible(m.Content, textPart, image)
	if len(parts) == 0 {
		parts = []part{textPart(wire.EmptyInput)}
	}
	if n := len(b.out); n > 0 && b.out[n-1].Role == "user" {
		b.out[n-1].Content = append(b.out[n-1].Content, parts...)
		return
	}
	b.out = append(b.out, message("user", parts...))
}

// assistant writes the items of an answer up to the last one that is no reasoning.
func (b *builder) assistant(m domain.Message) {
	begin, said := len(b.out), len(b.out)
	for _, k := range m.Content {
		switch k.Type {
		case domain.TextBlock:
			if strings.TrimSpace(k.Text) == "" {
				continue
			}
			b.say(begin, part{Type: "output_text", Text: wire.Clean(k.Text)})
		case domain.ThinkingBlock:
			if out, ok := b.to.replay(m, k); ok {
				b.out = append(b.out, out)
			}
			continue
		case domain.CallBlock:
			b.out = append(b.out, item{
				Type: "function_call", CallID: wireID(k.ID), Name: wire.ToolName(k.Name, maxName), Arguments: wire.CallArguments(k),
			})
		default:
			continue
		}
		said = len(b.out)
	}
	b.out = b.out[:said]
}

// say writes a text of an answer, whose items begin at begin: into the message before it, if there is one.
func (b *builder) say(begin int, p part) {
	if n := len(b.out); n > begin && b.out[n-1].Role == "assistant" {
		b.out[n-1].Content = append(b.out[n-1].Content, p)
		return
	}
	b.out = append(b.out, message("assistant", p))
}

// outputOf returns what a tool printed: a plain text where that is enough, since not every backend takes a list of parts.
func outputOf(m domain.Message) wire.Raw {
	parts := wire.Visible(m.Content, textPart, image)
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.ImageURL != "" {
			b, _ := wire.Encode(parts) // strings always encode
			return b
		}
		texts = append(texts, p.Text)
	}
	if len(texts) == 0 {
		texts = []string{wire.EmptyOutput}
	}
	return wire.Quoted(strings.Join(texts, "\n"))
}

// images is what the wire takes of images; it bounds their sizes by that of the whole request alone.
var images = wire.Images{Types: wire.WebImages}

// image returns an image, or the text in its place.
func image(b domain.Block) part {
	b, instead := images.Show(b)
	if instead != "" {
		return textPart(instead)
	}
	return part{Type: "input_image", Detail: "auto", ImageURL: "data:" + b.MimeType + ";base64," + b.Data}
}

func message(role string, parts ...part) item {
	return item{Type: "message", Role: role, Content: parts}
}

func textPart(s string) part { return part{Type: "input_text", Text: s} }

// wireID returns the id of a call as the wire takes it.
func wireID(id string) string { return wire.CallID(id, 64) }
