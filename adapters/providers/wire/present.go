package wire

import (
	"encoding/base64"
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

// imageTypes are the types of images that the common backends take.
var imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// ImageType returns the type of an image that can be shown, or a text to send in its place: an image that the backend
// refuses would be refused in every later request, too.
func ImageType(b domain.Block) (mimeType, instead string) {
	mimeType = strings.ToLower(b.MimeType)
	if !slices.Contains(imageTypes, mimeType) {
		return "", "(an image of the type " + Clean(b.MimeType) + ", which cannot be shown)"
	}
	if data, err := base64.StdEncoding.DecodeString(b.Data); err != nil || len(data) == 0 {
		return "", "(an image whose data is damaged)"
	}
	return mimeType, ""
}
