package domain

import "slices"

// imageLeftOut stands in a request in place of an image that its model cannot see.
const imageLeftOut = "(an image was left out: this model takes no images)"

// WithoutImages returns messages with a line of text in place of each image. It leaves messages as they are.
func WithoutImages(messages []Message) []Message {
	isImage := func(b Block) bool { return b.Type == ImageBlock }
	out := messages
	for i, m := range messages {
		if !slices.ContainsFunc(m.Content, isImage) {
			continue
		}
		if &out[0] == &messages[0] {
			out = slices.Clone(messages)
		}
		out[i].Content = slices.Clone(m.Content)
		for j, b := range m.Content {
			if isImage(b) {
				out[i].Content[j] = Block{Type: TextBlock, Text: imageLeftOut}
			}
		}
	}
	return out
}
