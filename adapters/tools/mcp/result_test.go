package mcp

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
)

func text(s string) domain.Block { return domain.Block{Type: domain.TextBlock, Text: s} }

func TestResults(t *testing.T) {
	png := []byte("\x89PNG....")
	image := domain.Block{Type: domain.ImageBlock, MimeType: "image/png", Data: base64.StdEncoding.EncodeToString(png)}
	for name, c := range map[string]struct {
		in   mcp.CallToolResult
		want []domain.Block
	}{
		"text":  {mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "a"}, &mcp.TextContent{Text: " "}, &mcp.TextContent{Text: "b"}}}, []domain.Block{text("a"), text("b")}},
		"image": {mcp.CallToolResult{Content: []mcp.Content{&mcp.ImageContent{MIMEType: "image/png", Data: png}}}, []domain.Block{image}},
		"images that backends refuse": {mcp.CallToolResult{Content: []mcp.Content{
			&mcp.ImageContent{MIMEType: "image/svg+xml", Data: []byte("<svg/>")}, &mcp.ImageContent{MIMEType: "image/png"},
			&mcp.ImageContent{MIMEType: "image/png", Data: bytes.Repeat([]byte("x"), largestImages)},
		}}, []domain.Block{
			text("[an image is left out: image/svg+xml, 6 bytes]"), text("[an image is left out: image/png, 0 bytes]"),
			text("[an image is left out: image/png, 524288 bytes]"),
		}},
		"audio": {mcp.CallToolResult{Content: []mcp.Content{&mcp.AudioContent{MIMEType: "audio/wav", Data: png}}}, []domain.Block{text("[audio is left out: audio/wav, 8 bytes]")}},
		"resources": {mcp.CallToolResult{Content: []mcp.Content{
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///a.txt", MIMEType: "text/plain", Text: "inside"}},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///a.png", MIMEType: "image/png", Blob: png}},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///a.gz", MIMEType: "application/gzip", Blob: png}},
			&mcp.ResourceLink{URI: "file:///b", Name: "b", MIMEType: "text/plain"},
			&mcp.EmbeddedResource{},
		}}, []domain.Block{
			text("[resource file:///a.txt]\ninside"), image, text("[a binary resource is left out: application/gzip, 8 bytes, file:///a.gz]"),
			text("[link to a resource: file:///b, b, text/plain]"), text("[an empty resource]"),
		}},
		"structured": {mcp.CallToolResult{StructuredContent: map[string]any{"t": 1}}, []domain.Block{text(`{"t":1}`)}},
		"structured, and as text": {mcp.CallToolResult{
			Content: []mcp.Content{&mcp.TextContent{Text: `{"t": 1}`}}, StructuredContent: map[string]any{"t": 1},
		}, []domain.Block{text(`{"t": 1}`)}},
		"structured beside an image": {mcp.CallToolResult{
			Content: []mcp.Content{&mcp.ImageContent{MIMEType: "image/png", Data: png}}, StructuredContent: []any{"x"},
		}, []domain.Block{image, text(`["x"]`)}},
		"nothing":        {mcp.CallToolResult{}, []domain.Block{text("[the tool gave no output]")}},
		"broken text":    {mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "a\xff"}}}, []domain.Block{text("a\uFFFD")}},
		"too long":       {mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Repeat("é", 40)}, &mcp.TextContent{Text: "b"}, &mcp.TextContent{Text: "c"}}}, []domain.Block{text(strings.Repeat("é", 25) + "\n[cut: the first 50 of 80 bytes]"), text("[cut: the rest of the output]")}},
		"exactly enough": {mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Repeat("x", 51)}}}, []domain.Block{text(strings.Repeat("x", 51))}},
	} {
		limit := 1000
		if name == "too long" || name == "exactly enough" {
			limit = 51
		}
		got := result(&c.in, limit, nil)
		require.Equal(t, c.want, got.Content, name)
		require.False(t, got.IsError)
	}
	require.True(t, result(&mcp.CallToolResult{IsError: true}, 0, nil).IsError)
	asks := result(&mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"a": nil}}, 0, nil)
	require.True(t, asks.IsError)
	require.Contains(t, asks.Content[0].Text, "input of a person")
}
