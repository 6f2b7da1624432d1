package wire

import (
	"bytes"
	"encoding/base64"
	"image"
	_ "image/gif"  // what image.DecodeConfig knows
	_ "image/jpeg" // likewise
	_ "image/png"  // likewise
	"net/http"
	"slices"
	"strings"

	"github.com/keel-agent/keel/domain"
)

// InputSchema returns the schema of a tool's input as strict backends want it: one that says that it is of an object.
func InputSchema(schema string) Raw {
	const object = `{"type":"object"`
	raw := Raw(strings.TrimSpace(CleanJSON(schema)))
	switch members := Object(raw); {
	case len(members) == 0:
		return Raw(object + `,"properties":{}}`)
	case IsNull(members["type"]):
		return Raw(object + "," + string(raw[1:]))
	}
	return raw
}

// WebImages are the types of images that the common backends take.
var WebImages = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// ImageType returns the type of an image that can be shown to a backend which takes the given types, or a text to send in
// its place: an image that the backend refuses would be refused in every later request, too. The type is what the data
// say, which may be another one than the block's.
func ImageType(b domain.Block, types []string) (mimeType, instead string) {
	mimeType = strings.ToLower(b.MimeType)
	if !slices.Contains(types, mimeType) {
		return "", "(an image of the type " + Clean(b.MimeType) + ", which cannot be shown)"
	}
	data, err := base64.StdEncoding.DecodeString(b.Data)
	if err != nil || len(data) == 0 {
		return "", damaged
	}
	if !slices.Contains(WebImages, mimeType) { // nothing here can read it
		return mimeType, ""
	}
	switch mimeType = http.DetectContentType(data); {
	case mimeType == "image/webp":
	case !slices.Contains(WebImages, mimeType) || !readable(data):
		return "", damaged
	case !slices.Contains(types, mimeType):
		return "", "(an image of the type " + mimeType + ", which cannot be shown)"
	}
	return mimeType, ""
}

const damaged = "(an image whose data is damaged)"

func readable(data []byte) bool {
	_, _, err := image.DecodeConfig(bytes.NewReader(data))
	return err == nil
}
