package wiretest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// StartStrict is Start for a wire that checks its requests: one that is refused fails the test when that ends.
func StartStrict(t testing.TB, wire Wire) *Server {
	t.Helper()
	s := Start(t, wire)
	t.Cleanup(func() {
		for _, err := range s.Refused() {
			t.Errorf("the backend refused a request: %v", err)
		}
	})
	return s
}

// ReadStrict reads the body of a request into v as a strict backend does: it is UTF-8, and members that v does not know
// are refused.
func ReadStrict(raw []byte, v any) error {
	if !utf8.Valid(raw) {
		return errors.New("the request body is not valid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("the request body is not valid: %w", err)
	}
	return nil
}

// PlainName matches what most wires take as the name of a tool or the id of a call.
var PlainName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// IsObject reports whether raw is a JSON object.
func IsObject(raw []byte) bool {
	var o map[string]json.RawMessage
	return json.Unmarshal(raw, &o) == nil && o != nil
}

// IsSchema reports whether raw is the schema of an object.
func IsSchema(raw []byte) bool {
	var schema struct{ Type string }
	return json.Unmarshal(raw, &schema) == nil && schema.Type == "object"
}

var dataURL = regexp.MustCompile(`^data:([^;,]+);base64,(.+)$`)

// IsImageURL reports whether url holds an image of one of WebImages.
func IsImageURL(url string) bool {
	m := dataURL.FindStringSubmatch(url)
	return m != nil && IsImage(m[1], m[2], WebImages...)
}

// IsUnsaid reports whether a text is one that no backend takes: a blank one, or one with U+0000.
func IsUnsaid(s string) bool { return strings.TrimSpace(s) == "" || strings.ContainsRune(s, 0) }

// HoldsNUL reports whether any string of the JSON value raw, or the name of a member, holds U+0000.
func HoldsNUL(raw []byte) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	return d.Decode(&v) == nil && holdsNUL(v)
}

func holdsNUL(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.ContainsRune(v, 0)
	case []any:
		return slices.ContainsFunc(v, holdsNUL)
	case map[string]any:
		for name, member := range v {
			if strings.ContainsRune(name, 0) || holdsNUL(member) {
				return true
			}
		}
	}
	return false
}
