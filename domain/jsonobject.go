package domain

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// The readers of this file take text that ParseValue returned. They do not check it again: on other text they return
// an error or unspecified pieces of it, without panic.

// object is a JSON object split into its members, in order. Names match exactly, case counts. The zero value is the
// empty object.
type object struct{ members []member }

type member struct{ name, raw string }

// parseObject splits the object raw. It returns ErrInvalidJSON if raw is none.
func parseObject(raw string) (object, error) {
	members := make([]member, 0, 8)
	var bad error
	err := eachMember(raw, func(quoted, value string) {
		name, err := unquoteJSON(quoted)
		if err != nil {
			bad = err
		}
		members = append(members, member{name, value})
	})
	if err != nil {
		return object{}, err
	}
	if bad != nil {
		return object{}, bad
	}
	return object{members}, nil
}

// get returns the raw value of the member name.
func (o object) get(name string) (raw string, ok bool) {
	for i := range o.members {
		if o.members[i].name == name {
			return o.members[i].raw, true
		}
	}
	return "", false
}

// has reports whether there is a member name; null counts.
func (o object) has(name string) bool {
	_, ok := o.get(name)
	return ok
}

// str returns the text of the member name. It returns ErrInvalidPayload if that is present and no string.
func (o object) str(name string) (s string, ok bool, err error) {
	raw, ok := o.get(name)
	if !ok {
		return "", false, nil
	}
	if kindOf(raw) != '"' {
		return "", true, ErrInvalidPayload.At(name).With("must be a string")
	}
	s, err = unquoteJSON(raw)
	return s, true, err
}

// int returns the integer member name exactly, however it is spelled: 1, 1.0, 1e0 and 10e-1 are 1. It returns
// ErrInvalidPayload if the member is present and no number, not whole, or beyond int64.
func (o object) int(name string) (n int64, ok bool, err error) {
	raw, ok := o.get(name)
	if !ok {
		return 0, false, nil
	}
	if kindOf(raw) != '0' {
		return 0, true, ErrInvalidPayload.At(name).With("must be an integer")
	}
	n, whole := parseInt(raw)
	if !whole {
		return 0, true, ErrInvalidPayload.At(name).With("must be a whole number of 64 bits")
	}
	return n, true, nil
}

// elements splits the array raw into its raw elements. It returns ErrInvalidJSON if raw is none.
func elements(raw string) ([]string, error) {
	var list []string
	c := cursor{s: raw}
	if !c.accept('[') {
		return nil, errNotStrict
	}
	for first := true; !c.accept(']'); first = false {
		if !first && !c.accept(',') {
			return nil, errNotStrict
		}
		value := c.value()
		if value == "" {
			return nil, errNotStrict
		}
		list = append(list, value)
	}
	return list, c.end()
}

// eachMember calls visit for each member of the object raw, in order, with the name as it is spelled, quotes and all,
// and the raw value. It returns ErrInvalidJSON if raw is no object; visit may then have seen some members.
func eachMember(raw string, visit func(quoted, value string)) error {
	c := cursor{s: raw}
	if !c.accept('{') {
		return errNotStrict
	}
	for first := true; !c.accept('}'); first = false {
		if !first && !c.accept(',') {
			return errNotStrict
		}
		name := c.value()
		if kindOf(name) != '"' || !c.accept(':') {
			return errNotStrict
		}
		value := c.value()
		if value == "" {
			return errNotStrict
		}
		visit(name, value)
	}
	return c.end()
}

var errNotStrict error = ErrInvalidJSON.With("not the object or array that was expected")

// kindOf returns the kind of the value raw: one of { [ " t f n, 0 for any number, or the byte 0 if raw is no value.
func kindOf(raw string) byte {
	if raw == "" {
		return 0
	}
	switch c := raw[0]; c {
	case '{', '[', '"', 't', 'f', 'n':
		return c
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return '0'
	}
	return 0
}

// quoteJSON returns s as a JSON string in its shortest spelling. Bytes that are not UTF-8 become U+FFFD.
func quoteJSON(s string) string {
	b, _ := jsontext.AppendQuote(nil, s)
	return string(b)
}

// unquoteJSON returns the text of the JSON string raw, or ErrInvalidJSON if raw is none.
func unquoteJSON(raw string) (string, error) {
	n := len(raw) - 1
	if n > 0 && raw[0] == '"' && strings.IndexByte(raw[1:], '"') == n-1 && strings.IndexByte(raw, '\\') < 0 {
		return raw[1:n], nil
	}
	b, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return "", ErrInvalidJSON.With("not a string")
	}
	return string(b), nil
}

// cursor reads JSON text from left to right.
type cursor struct {
	s string
	i int
}

func (c *cursor) space() {
	for c.i < len(c.s) {
		switch c.s[c.i] {
		case ' ', '\t', '\n', '\r':
			c.i++
		default:
			return
		}
	}
}

// accept steps over b, and reports whether that came next.
func (c *cursor) accept(b byte) bool {
	c.space()
	if c.i < len(c.s) && c.s[c.i] == b {
		c.i++
		return true
	}
	return false
}

// value steps over the next value and returns it, "" if none comes next.
func (c *cursor) value() string {
	c.space()
	start := c.i
	c.i = endOfValue(c.s, start)
	return c.s[start:c.i]
}

func (c *cursor) end() error {
	if c.space(); c.i < len(c.s) {
		return errNotStrict
	}
	return nil
}

// endOfValue returns the index after the value that begins at i, or i if none does.
func endOfValue(s string, i int) int {
	if i >= len(s) {
		return i
	}
	switch s[i] {
	case '"':
		return endOfString(s, i)
	case '{', '[':
		return endOfContainer(s, i)
	}
	return endOfScalar(s, i)
}

func endOfScalar(s string, i int) int {
	for ; i < len(s); i++ {
		switch s[i] {
		case ',', ':', '{', '}', '[', ']', '"', ' ', '\t', '\n', '\r':
			return i
		}
	}
	return i
}

func endOfString(s string, i int) int {
	for j := i + 1; ; {
		n := strings.IndexByte(s[j:], '"')
		if n < 0 {
			return i
		}
		quote := j + n
		k := quote
		for k > j && s[k-1] == '\\' {
			k--
		}
		j = quote + 1
		if (quote-k)%2 == 0 {
			return j
		}
	}
}

func endOfContainer(s string, i int) int {
	depth := 0
	for j := i; j < len(s); j++ {
		switch s[j] {
		case '"':
			end := endOfString(s, j)
			if end == j {
				return i
			}
			j = end - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return j + 1
			}
		}
	}
	return i
}
