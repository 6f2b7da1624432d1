package anthropictest

import (
	"fmt"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
)

// The bounds of images, as the backend documents them.
const (
	maxImage = 5 << 20 // bytes of base64
	maxSide  = 8000    // pixels
	many     = 20      // images in a request, beyond which each side has at most
	manySide = 2000    // pixels
)

// shows reports whether c is an image that can be shown.
func (c content) shows() bool {
	return c.Source != nil && c.Source.Type == "base64" && wiretest.IsImage(c.Source.MediaType, c.Source.Data, wiretest.WebImages...)
}

// checkImages wants images of a size that is taken.
func (b body) checkImages() error {
	var all []string
	for _, list := range contents(b.Messages) {
		for _, c := range list {
			for _, part := range append(c.Content, c) {
				if part.Type == "image" && part.shows() {
					all = append(all, part.Source.Data)
				}
			}
		}
	}
	side, requests := maxSide, ""
	if len(all) > many {
		side, requests = manySide, " for many-image requests"
	}
	for _, data := range all {
		if len(data) > maxImage {
			return fmt.Errorf("image.source.base64: image exceeds 5 MB maximum: %d bytes > %d bytes", len(data), maxImage)
		}
		if wiretest.Side(data) > side {
			return fmt.Errorf("image.source.base64.data: At least one of the image dimensions exceed max allowed size%s: %d pixels", requests, side)
		}
	}
	return nil
}
