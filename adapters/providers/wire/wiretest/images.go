package wiretest

import (
	"bytes"
	"encoding/base64"
	"image"
	_ "image/gif"  // what image.Decode knows
	_ "image/jpeg" // likewise
	"image/png"
	"slices"
)

// PNG is an image of one pixel.
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAADklEQVR42mJiAAQAAP//AAYAA+e4F9gAAAAASUVORK5CYII="

// LargePNG returns an image of the size in pixels, in base64.
func LargePNG(width, height int) string {
	var b bytes.Buffer
	_ = png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))) // into memory
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// WebImages are the types of images that the common backends take.
var WebImages = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// IsImage reports whether data is an image in base64, of one of the types and of the one that it claims to be. It reads
// each pixel, as a backend does.
func IsImage(mimeType, data string, types ...string) bool {
	_, format, err := decode(data)
	return err == nil && slices.Contains(types, mimeType) && mimeType == "image/"+format
}

// Side returns the pixels of the longer side of an image in base64, 0 when it is none.
func Side(data string) int {
	size, _, err := decode(data)
	if err != nil {
		return 0
	}
	return max(size.X, size.Y)
}

func decode(data string) (size image.Point, format string, err error) {
	decoded, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return size, "", err
	}
	i, format, err := image.Decode(bytes.NewReader(decoded))
	if err != nil {
		return size, "", err
	}
	return i.Bounds().Size(), format, nil
}
