package wire

import (
	"bytes"
	"iter"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Raw is a piece of a chunk that is looked at only when its kind is known: backends disagree about kinds.
type Raw = jsontext.Value

// Decode reads JSON from a backend into v. Names are matched exactly; unknown members, duplicate names, lone
// surrogate escapes and bytes that are not UTF-8 are let through. Numbers and strings that must not change belong in
// Raw members.
func Decode(data []byte, v any) error {
	return json.Unmarshal(data, v, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// Encode returns the JSON of v, the same bytes for equal values. HTML characters are not escaped.
func Encode(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

// Quoted returns s as a JSON string.
func Quoted(s string) Raw {
	b, _ := Encode(s) // a string always encodes
	return b
}

// IsNull reports whether raw is absent or null.
func IsNull(raw Raw) bool { return len(raw) == 0 || raw.Kind() == 'n' }

// Tells reports whether raw is a JSON string that is not empty.
func Tells(raw Raw) bool { return len(raw) > 0 && raw.Kind() == '"' && string(raw) != `""` }

// String returns the text of the JSON string raw, "" for any other value.
func String(raw Raw) string {
	var t Text
	return t.Add(raw) + t.End()
}

// Label returns the text of the JSON string or number raw, "" for any other value. Codes come as either.
func Label(raw Raw) string {
	if len(raw) > 0 && raw.Kind() == '0' {
		return string(raw)
	}
	return String(raw)
}

// Int returns the whole number that raw spells, as a number or as a string of one.
func Int(raw Raw) (n int64, ok bool) {
	s := strings.TrimSpace(Label(raw))
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<63 {
		return 0, false
	}
	return int64(f), true
}

// Count is Int for counters, which are never negative: anything else is 0.
func Count(raw Raw) int64 {
	n, _ := Int(raw)
	return max(n, 0)
}

// Object returns the members of the JSON object raw, nil for any other value.
func Object(raw Raw) map[string]Raw {
	var o map[string]Raw
	if len(raw) == 0 || raw.Kind() != '{' || Decode(raw, &o) != nil {
		return nil
	}
	return o
}

// Members returns the members of the JSON object raw that T, a struct, has; the zero T for any other value.
func Members[T any](raw Raw) T {
	var o, none T
	if len(raw) == 0 || raw.Kind() != '{' || Decode(raw, &o) != nil {
		return none
	}
	return o
}

// Elements yields the elements of the JSON array raw, each of which holds until the next; none of any other value.
func Elements(raw Raw) iter.Seq[Raw] {
	return func(yield func(Raw) bool) {
		lax := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
		if len(raw) == 0 || raw.Kind() != '[' || !raw.IsValid(lax...) {
			return
		}
		d := jsontext.NewDecoder(bytes.NewReader(raw), lax...)
		_, err := d.ReadToken()
		for err == nil && d.PeekKind() != ']' {
			var e Raw
			if e, err = d.ReadValue(); err == nil && !yield(e) {
				return
			}
		}
	}
}

// Array returns the elements of the JSON array raw, nil for any other value.
func Array(raw Raw) []Raw {
	var a []Raw
	if len(raw) == 0 || raw.Kind() != '[' || Decode(raw, &a) != nil {
		return nil
	}
	return a
}
