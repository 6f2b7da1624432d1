package mcp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/keel-agent/keel/adapters/tools/output"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// largestImages is how many bytes of images one result may hold, as they stand in the ledger.
const largestImages = 512 << 10

// shownImages are the kinds that backends take.
var shownImages = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// blocks gathers the blocks of a result within its limits.
type blocks struct {
	list        []domain.Block
	text        int // bytes of text that may still come
	images      int // bytes of images that may still come
	hidden      output.Hidden
	textContent bool
}

// result is what a model sees of a tool's result: nothing in its text that is hidden.
func result(r *mcp.CallToolResult, limit int, hidden output.Hidden) ports.ToolOutput {
	if limit <= 0 {
		limit = output.DefaultLimit
	}
	b := &blocks{text: limit, images: largestImages, hidden: hidden}
	for _, c := range r.Content {
		b.add(c)
	}
	if r.StructuredContent != nil && !b.textContent {
		b.structured(r.StructuredContent)
	}
	if len(r.InputRequests) > 0 {
		b.say("[the tool asks for input of a person, which it cannot get here]")
		return ports.ToolOutput{Content: b.list, IsError: true}
	}
	if len(b.list) == 0 {
		b.say("[the tool gave no output]")
	}
	return ports.ToolOutput{Content: b.list, IsError: r.IsError}
}

func (b *blocks) add(c mcp.Content) {
	switch c := c.(type) {
	case *mcp.TextContent:
		b.textContent = b.textContent || strings.TrimSpace(c.Text) != ""
		b.say(c.Text)
	case *mcp.ImageContent:
		b.show(c.MIMEType, c.Data, "")
	case *mcp.AudioContent:
		b.say(leftOut("audio", c.MIMEType, len(c.Data), ""))
	case *mcp.ResourceLink:
		b.say(linkText(c))
	case *mcp.EmbeddedResource:
		b.embed(c.Resource)
	default:
		b.say(fmt.Sprintf("[content of an unknown kind: %T]", c))
	}
}

// say adds text as far as there is room. Backends refuse blocks without text.
func (b *blocks) say(text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	text = b.hidden.In(text)
	if b.text <= 0 {
		if b.text == 0 {
			b.text-- // the mark stands once
			b.list = append(b.list, domain.Block{Type: domain.TextBlock, Text: "[cut: the rest of the output]"})
		}
		return
	}
	capped := output.Cap(text, b.text)
	b.text = max(0, b.text-len(text))
	b.list = append(b.list, domain.Block{Type: domain.TextBlock, Text: capped})
}

func (b *blocks) show(kind string, data []byte, uri string) {
	encoded := base64.StdEncoding.EncodedLen(len(data))
	if !slices.Contains(shownImages, kind) || len(data) == 0 || encoded > b.images {
		b.say(leftOut("an image", kind, len(data), uri))
		return
	}
	b.images -= encoded
	b.list = append(b.list, domain.Block{Type: domain.ImageBlock, MimeType: kind, Data: base64.StdEncoding.EncodeToString(data)})
}

func (b *blocks) embed(r *mcp.ResourceContents) {
	switch {
	case r == nil:
		b.say("[an empty resource]")
	case r.Blob != nil && strings.HasPrefix(r.MIMEType, "image/"):
		b.show(r.MIMEType, r.Blob, r.URI)
	case r.Blob != nil:
		b.say(leftOut("a binary resource", r.MIMEType, len(r.Blob), r.URI))
	default:
		b.textContent = b.textContent || strings.TrimSpace(r.Text) != ""
		b.say(fmt.Sprintf("[resource %s]\n%s", r.URI, r.Text))
	}
}

func (b *blocks) structured(content any) {
	text, err := json.Marshal(content)
	if err != nil {
		b.say("[structured content that is no JSON]")
		return
	}
	b.say(string(text))
}

func leftOut(what, kind string, size int, uri string) string {
	text := fmt.Sprintf("[%s is left out: %s, %d bytes", what, kind, size)
	if uri != "" {
		text += ", " + uri
	}
	return text + "]"
}

func linkText(l *mcp.ResourceLink) string {
	parts := slices.DeleteFunc([]string{l.URI, l.Name, l.MIMEType, l.Description}, func(s string) bool { return s == "" })
	return "[link to a resource: " + strings.Join(parts, ", ") + "]"
}
