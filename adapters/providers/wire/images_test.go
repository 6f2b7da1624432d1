package wire_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"image"
	"image/color/palette"
	"image/gif"
	"image/jpeg"
	"image/png"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
)

const (
	damaged      = "(an image whose data is damaged)"
	losslessWebP = "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="
	lossyWebP    = "UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA"
)

func inBase64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

func fromBase64(t *testing.T, s string) []byte {
	b, err := base64.StdEncoding.DecodeString(s)
	require.NoError(t, err)
	return b
}

// TestShownImages: one image that backends refuse would be refused in every later request of its session, too.
func TestShownImages(t *testing.T) {
	heic := slices.Concat(wire.WebImages, []string{"image/heic"})
	for name, c := range map[string]struct {
		mimeType, data string
		types          []string
		want, instead  string
	}{
		"as it says":           {"image/png", wiretest.PNG, wire.WebImages, "image/png", ""},
		"in capitals":          {"IMAGE/PNG", wiretest.PNG, wire.WebImages, "image/png", ""},
		"by its usual misname": {"image/jpg", wiretest.PNG, wire.WebImages, "image/png", ""},
		"of another type":      {"image/jpeg", wiretest.PNG, wire.WebImages, "image/png", ""},
		"of a refused type":    {"image/jpeg", wiretest.PNG, []string{"image/jpeg"}, "", "(an image of the type image/png, which cannot be shown)"},
		"of an unknown type":   {"image/bmp", wiretest.PNG, wire.WebImages, "", "(an image of the type image/bmp, which cannot be shown)"},
		"WebP":                 {"image/webp", losslessWebP, wire.WebImages, "image/webp", ""},
		"WebP without a body":  {"image/webp", inBase64([]byte("RIFF\x06\x00\x00\x00WEBPVP")), wire.WebImages, "", damaged},
		"what none here reads": {"image/heic", inBase64([]byte("x")), heic, "image/heic", ""},
		"no base64":            {"image/png", "A", wire.WebImages, "", damaged},
		"nothing":              {"image/png", "\n", wire.WebImages, "", damaged},
		"no image":             {"image/png", inBase64([]byte("pixels")), wire.WebImages, "", damaged},
		"the beginning alone":  {"image/png", inBase64([]byte("\x89PNG\r\n\x1a\n")), wire.WebImages, "", damaged},
		"cut in the header":    {"image/png", wiretest.PNG[:24], wire.WebImages, "", damaged},
	} {
		got, instead := wire.Images{Types: c.types}.Show(wiretest.Image(c.mimeType, c.data))
		require.Equal(t, c.instead, instead, name)
		if instead == "" {
			require.Equal(t, wiretest.Image(c.want, c.data), got, name)
		}
	}
	broken, instead := wire.Images{Types: wire.WebImages}.Show(wiretest.Image("image/png", wiretest.PNG[:40]+"\r\n"+wiretest.PNG[40:]))
	require.Empty(t, instead)
	require.Equal(t, wiretest.PNG, broken.Data, "not every backend passes over line breaks")
}

// encoded returns an image of the size in each format, with a body that is longer than its frame.
func encoded(t *testing.T, width, height int) map[string][]byte {
	picture := image.NewPaletted(image.Rect(0, 0, width, height), palette.Plan9)
	for i := range picture.Pix {
		picture.Pix[i] = uint8(i * i / 7)
	}
	var p, j, g bytes.Buffer
	require.NoError(t, png.Encode(&p, picture))
	require.NoError(t, jpeg.Encode(&j, picture, nil))
	require.NoError(t, gif.EncodeAll(&g, &gif.GIF{Image: []*image.Paletted{picture, picture}, Delay: []int{1, 1}}))
	extended := []byte("RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00")
	extended = append(extended, byte(width-1), byte((width-1)>>8), 0, byte(height-1), byte((height-1)>>8), 0)
	return map[string][]byte{"image/png": p.Bytes(), "image/jpeg": j.Bytes(), "image/gif": g.Bytes(), "image/webp": extended}
}

// TestCutImages: an image is cut at each byte, and never taken for a whole one; what follows a whole one does no harm.
func TestCutImages(t *testing.T) {
	images := encoded(t, 60, 40)
	thumbnail := slices.Concat([]byte("\xff\xe1"), binary.BigEndian.AppendUint16(nil, uint16(2+len(images["image/jpeg"]))), images["image/jpeg"])
	images["image/jpeg"] = slices.Concat([]byte("\xff\xd8"), thumbnail, []byte("\xff"), images["image/jpeg"][2:])
	for kind, whole := range images {
		shows := func(data []byte) bool {
			_, instead := wire.Images{Types: wire.WebImages}.Show(wiretest.Image(kind, inBase64(data)))
			require.Contains(t, []string{"", damaged}, instead, kind)
			return instead == ""
		}
		require.True(t, shows(whole), kind)
		require.True(t, shows(append(slices.Clone(whole), "\xff\xda behind it"...)), kind)
		for n := range len(whole) {
			require.False(t, shows(whole[:n]), "%s of %d bytes cut at %d", kind, len(whole), n)
			odd := bytes.Clone(whole)
			odd[n] = 0xFF
			shows(odd[:len(odd)-len(odd)%(n+1)]) // whatever it is, it is looked at within its bounds
		}
	}
	for _, data := range []string{losslessWebP, lossyWebP} {
		whole := fromBase64(t, data)
		for n := range len(whole) {
			_, instead := wire.Images{Types: wire.WebImages}.Show(wiretest.Image("image/webp", inBase64(whole[:n])))
			require.Equal(t, damaged, instead)
		}
	}
	spoilt := bytes.Clone(images["image/png"])
	spoilt[len(spoilt)/2] ^= 1
	_, instead := wire.Images{Types: wire.WebImages}.Show(wiretest.Image("image/png", inBase64(spoilt)))
	require.Equal(t, damaged, instead)
}

func TestLargeImages(t *testing.T) {
	limits := wire.Images{Types: wire.WebImages, MaxBytes: 40000, MaxSide: 300, Many: 2, ManySide: 200}
	show := func(width, height, images int) map[string]string {
		list := []domain.Message{wiretest.User(wiretest.Text("x")), wiretest.Result("c")}
		for i := range images {
			list[i%2].Content = append(list[i%2].Content, wiretest.Image("image/png", wiretest.PNG))
		}
		said := map[string]string{}
		for kind, data := range encoded(t, width, height) {
			_, said[kind] = limits.For(list).Show(wiretest.Image(kind, inBase64(data)))
		}
		return said
	}
	each := func(instead string) map[string]string {
		return map[string]string{"image/png": instead, "image/jpeg": instead, "image/gif": instead, "image/webp": instead}
	}
	require.Equal(t, each(""), show(300, 2, 2))
	require.Equal(t, each("(an image of 301×2 pixels was left out: this backend takes at most 300 a side)"), show(301, 2, 2))
	require.Equal(t, each("(an image of 2×301 pixels was left out: this backend takes at most 300 a side)"), show(2, 301, 0))
	require.Equal(t, each(""), show(200, 2, 3))
	require.Equal(t, each("(an image of 201×2 pixels was left out: this backend takes at most 200 a side in a request with more than 2 images)"), show(201, 2, 3))
	for data, want := range map[string]string{lossyWebP: "", losslessWebP: "", strings.Repeat("A", 40004): "(an image of 40004 bytes in base64 was left out: this backend takes at most 40000)"} {
		_, instead := limits.Show(wiretest.Image("image/webp", data))
		require.Equal(t, want, instead)
	}
	for _, data := range []string{lossyWebP, losslessWebP} {
		whole := fromBase64(t, data)
		at, width := 26, uint32(9000)
		if data == losslessWebP {
			at, width = 21, 9000-1
		}
		binary.LittleEndian.PutUint16(whole[at:], uint16(width))
		_, instead := limits.Show(wiretest.Image("image/webp", inBase64(whole)))
		require.Contains(t, instead, "9000×1 pixels")
	}
}

func BenchmarkShow(b *testing.B) {
	picture := image.NewNRGBA(image.Rect(0, 0, 600, 400))
	for i := range picture.Pix {
		picture.Pix[i] = uint8(i * i >> 3 * i)
	}
	var p, j bytes.Buffer
	require.NoError(b, png.Encode(&p, picture))
	require.NoError(b, jpeg.Encode(&j, picture, &jpeg.Options{Quality: 100}))
	for kind, data := range map[string][]byte{"image/png": p.Bytes(), "image/jpeg": j.Bytes()} {
		shown := wiretest.Image(kind, inBase64(data))
		b.Run(kind, func(b *testing.B) {
			b.SetBytes(int64(len(shown.Data)))
			for b.Loop() {
				_, _ = wire.Images{Types: wire.WebImages}.Show(shown)
			}
		})
	}
}
