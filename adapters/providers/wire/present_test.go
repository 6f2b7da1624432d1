package wire_test

import (
	"encoding/base64"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
)

// TestImageType: one image that backends refuse would be refused in every later request of its session, too.
func TestImageType(t *testing.T) {
	const damaged = "(an image whose data is damaged)"
	inBase64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	heic := slices.Concat(wire.WebImages, []string{"image/heic"})
	for name, c := range map[string]struct {
		mimeType, data string
		types          []string
		want, instead  string
	}{
		"as it says":           {"image/png", wiretest.PNG, wire.WebImages, "image/png", ""},
		"in capitals":          {"IMAGE/PNG", wiretest.PNG, wire.WebImages, "image/png", ""},
		"of another type":      {"image/jpeg", wiretest.PNG, wire.WebImages, "image/png", ""},
		"of a refused type":    {"image/jpeg", wiretest.PNG, []string{"image/jpeg"}, "", "(an image of the type image/png, which cannot be shown)"},
		"of an unknown type":   {"image/bmp", wiretest.PNG, wire.WebImages, "", "(an image of the type image/bmp, which cannot be shown)"},
		"WebP":                 {"image/webp", inBase64("RIFF\x10\x00\x00\x00WEBPVP8 "), wire.WebImages, "image/webp", ""},
		"what none here reads": {"image/heic", inBase64("x"), heic, "image/heic", ""},
		"no base64":            {"image/png", "A", wire.WebImages, "", damaged},
		"nothing":              {"image/png", "\n", wire.WebImages, "", damaged},
		"no image":             {"image/png", inBase64("pixels"), wire.WebImages, "", damaged},
		"the beginning alone":  {"image/png", inBase64("\x89PNG\r\n\x1a\n"), wire.WebImages, "", damaged},
		"cut in the header":    {"image/png", wiretest.PNG[:24], wire.WebImages, "", damaged},
	} {
		got, instead := wire.ImageType(domain.Block{Type: domain.ImageBlock, MimeType: c.mimeType, Data: c.data}, c.types)
		require.Equal(t, c.want, got, name)
		require.Equal(t, c.instead, instead, name)
	}
}
