package wire

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/keel-agent/keel/domain"
)

// WebImages are the types of images that the common backends take.
var WebImages = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// Images says what a backend takes of images. A bound of 0 is none.
type Images struct {
	Types    []string
	MaxBytes int // of one image, in base64
	MaxSide  int // of one image, in pixels

	// A request with more images than Many takes only those of ManySide pixels a side.
	Many, ManySide int

	when string // to people, of MaxSide
}

// Visible returns what shows of blocks, texts without blank ones and images, each as the function of its kind makes it.
func Visible[P any](blocks []domain.Block, text func(string) P, image func(domain.Block) P) []P {
	var parts []P
	for _, b := range blocks {
		switch {
		case b.Type == domain.TextBlock && strings.TrimSpace(b.Text) != "":
			parts = append(parts, text(Clean(b.Text)))
		case b.Type == domain.ImageBlock && b.Data != "":
			parts = append(parts, image(b))
		}
	}
	return parts
}

// For returns what a backend takes in a request that shows list.
func (l Images) For(list []domain.Message) Images {
	shown := 0
	for _, m := range list {
		for _, b := range m.Content {
			if b.Type == domain.ImageBlock {
				shown++
			}
		}
	}
	if l.Many > 0 && shown > l.Many {
		l.MaxSide, l.when = l.ManySide, fmt.Sprintf(" in a request with more than %d images", l.Many)
	}
	return l
}

const damaged = "(an image whose data is damaged)"

// Show returns an image as the backend takes it, or a text to send in its place: an image that the backend refuses would
// be refused in every later request, too. The type is what the data say, which may be another one than the block's. An
// image is not decoded: the cost is that of reading its bytes once.
func (l Images) Show(b domain.Block) (image domain.Block, instead string) {
	b.MimeType = strings.ToLower(b.MimeType)
	if b.MimeType == "image/jpg" { // is no type, and common
		b.MimeType = "image/jpeg"
	}
	if !slices.Contains(l.Types, b.MimeType) {
		return b, unshowable(b.MimeType)
	}
	if strings.Contains(b.Data, "\r") || strings.Contains(b.Data, "\n") {
		b.Data = withoutBreaks.Replace(b.Data)
	}
	if l.MaxBytes > 0 && len(b.Data) > l.MaxBytes {
		return b, fmt.Sprintf("(an image of %d bytes in base64 was left out: this backend takes at most %d)", len(b.Data), l.MaxBytes)
	}
	data, err := base64.StdEncoding.DecodeString(b.Data)
	if err != nil || len(data) == 0 {
		return b, damaged
	}
	if !slices.Contains(WebImages, b.MimeType) { // nothing here can read it
		return b, ""
	}
	b.MimeType = http.DetectContentType(data)
	width, height := measure(data, b.MimeType)
	switch {
	case width == 0:
		return b, damaged
	case !slices.Contains(l.Types, b.MimeType):
		return b, unshowable(b.MimeType)
	case l.MaxSide > 0 && max(width, height) > l.MaxSide:
		return b, fmt.Sprintf("(an image of %d×%d pixels was left out: this backend takes at most %d a side%s)", width, height, l.MaxSide, l.when)
	}
	return b, ""
}

// withoutBreaks takes away what decoders of base64 pass over, and not all backends do.
var withoutBreaks = strings.NewReplacer("\r", "", "\n", "")

func unshowable(mimeType string) string {
	return "(an image of the type " + Clean(mimeType) + ", which cannot be shown)"
}
