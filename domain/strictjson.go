package domain

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// MaxDepth is how deep objects and arrays may nest; the outermost one counts.
	MaxDepth = 64
	// DefaultMaxPayload is the limit, in bytes of compact text, where none is given.
	DefaultMaxPayload = 1 << 20
)

// maxDetail bounds, in bytes, each piece of client text that an error quotes.
const maxDetail = 100

// Payload is an immutable JSON object as the ledger stores it: strict, compact, in member order, each number as it was
// spelled, each string in its shortest spelling (protocol.md §8). Equal payloads may still be spelled differently, so
// compare with Equal, never with ==. The zero value is no payload at all, which is not the empty object.
type Payload struct{ raw string }

// ParsePayload reads one JSON object. The rules are those of ParseValue, and so are the errors; any other value than
// an object is ErrInvalidJSON too.
func ParsePayload(raw []byte, maxBytes int) (Payload, error) {
	s, err := ParseValue(raw, maxBytes)
	if err != nil {
		return Payload{}, err
	}
	if s[0] != '{' {
		return Payload{}, ErrInvalidJSON.With("not an object")
	}
	return Payload{s}, nil
}

// ParseValue reads exactly one JSON value of any kind, surrounded by nothing but white space, and returns it in the
// form that Payload describes. Lone surrogate escapes become U+FFFD. Numbers have no range: 1e400 is one.
//
// It returns ErrInvalidJSON for anything else: bad syntax, bytes that are not UTF-8, a key that occurs twice in one
// object (after unescaping, case counts), nesting beyond MaxDepth, trailing data; and ErrPayloadTooLarge if the
// compact text has more than maxBytes bytes, where 0 means DefaultMaxPayload. The compact text is never longer than
// raw. ParseValue keeps no reference to raw, and its own result parses to itself.
func ParseValue(raw []byte, maxBytes int) (string, error) {
	if maxBytes <= 0 {
		maxBytes = DefaultMaxPayload
	}
	var stack [1536]byte // most payloads fit, and then the result is the only allocation
	text, err := appendStrict(stack[:0], raw)
	if err != nil {
		return "", err
	}
	if len(text) > maxBytes {
		return "", ErrPayloadTooLarge.With(strconv.Itoa(len(text)) + " bytes, at most " + strconv.Itoa(maxBytes) + " are accepted")
	}
	return string(text), nil
}

// StoredPayload trusts text that String returned earlier and a store kept. It checks nothing; "" gives the zero value.
func StoredPayload(s string) Payload { return Payload{s} }

// String returns the stored text, "" for the zero value.
func (p Payload) String() string { return p.raw }

// Bytes returns a copy of the stored text.
func (p Payload) Bytes() []byte { return []byte(p.raw) }

// IsZero reports whether p is the zero value.
func (p Payload) IsZero() bool { return p.raw == "" }

// Equal reports whether p and q have the same content, in the sense of EqualJSON.
func (p Payload) Equal(q Payload) bool { return EqualJSON(p.raw, q.raw) }

// MarshalJSON returns the stored text unchanged, or ErrInvalidJSON for the zero value. encoding/json rewrites <, >, &,
// U+2028 and U+2029 in it to escapes, which changes the spelling and not the value, unless its Encoder has
// SetEscapeHTML(false).
func (p Payload) MarshalJSON() ([]byte, error) {
	if p.IsZero() {
		return nil, ErrInvalidJSON.With("no payload")
	}
	return []byte(p.raw), nil
}

// UnmarshalJSON is ParsePayload without a limit of size: whoever reads from strangers bounds the reader.
func (p *Payload) UnmarshalJSON(raw []byte) error {
	q, err := ParsePayload(raw, math.MaxInt)
	if err != nil {
		return err
	}
	*p = q
	return nil
}

// Without returns p without the named top-level members, the others as they were; p itself if it has none of them.
func (p Payload) Without(keys ...string) Payload {
	var b []byte
	dropped := false
	_ = eachMember(p.raw, func(quoted, value string) {
		if isOneOf(quoted, keys) {
			dropped = true
			return
		}
		b = appendMember(b, quoted, value)
	})
	if !dropped {
		return p
	}
	return closeMembers(b)
}

// With returns p with the top-level member key set to value: in its place if p has it, else as the last one. The value
// is strict, compact JSON text and is not checked. The zero value counts as the empty object.
func (p Payload) With(key, value string) Payload {
	b := make([]byte, 0, len(p.raw)+len(key)+len(value)+len(`{"":,}`))
	found := false
	_ = eachMember(p.raw, func(quoted, old string) {
		if isOneOf(quoted, []string{key}) {
			found, old = true, value
		}
		b = appendMember(b, quoted, old)
	})
	if !found {
		b = appendMember(b, quoteJSON(key), value)
	}
	return closeMembers(b)
}

func isOneOf(quoted string, keys []string) bool {
	name, _ := unquoteJSON(quoted)
	return slices.Contains(keys, name)
}

func appendMember(b []byte, quoted, value string) []byte {
	sep := byte(',')
	if len(b) == 0 {
		sep = '{'
	}
	b = append(append(b, sep), quoted...)
	return append(append(b, ':'), value...)
}

func closeMembers(b []byte) Payload {
	if len(b) == 0 {
		return Payload{"{}"}
	}
	return Payload{string(append(b, '}'))}
}

// strictOptions lets lone surrogate escapes pass as U+FFFD, and with them bytes that are not UTF-8, which appendStrict
// refuses itself. Duplicate names are refused by default.
var strictOptions = []jsontext.Options{jsontext.AllowInvalidUTF8(true)}

// appendStrict appends the strict form of raw to dst, or returns ErrInvalidJSON.
func appendStrict(dst, raw []byte) ([]byte, error) {
	if !utf8.Valid(raw) {
		return nil, ErrInvalidJSON.With("invalid UTF-8 at byte " + strconv.Itoa(validPrefix(raw)))
	}
	if tooDeep(raw) {
		return nil, ErrInvalidJSON.With("nested deeper than " + strconv.Itoa(MaxDepth))
	}
	text, err := jsontext.AppendFormat(dst, raw, strictOptions...)
	if err != nil {
		return nil, ErrInvalidJSON.With(syntaxDetail(raw, err))
	}
	return text, nil
}

// MaxArgumentDepth is how deep the arguments of a tool call may nest: they stand three levels down in the payload of
// their message.
const MaxArgumentDepth = MaxDepth - 3

// Depth returns how deep strict JSON text nests: 0 for a scalar, 1 for {}.
func Depth(text string) int {
	depth, deepest, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
			if c == '\\' {
				i++
			}
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// tooDeep reports whether raw nests deeper than MaxDepth, as far as it is JSON at all.
func tooDeep(raw []byte) bool {
	if bytes.Count(raw, []byte{'{'})+bytes.Count(raw, []byte{'['}) <= MaxDepth {
		return false
	}
	return Depth(string(raw)) > MaxDepth
}

func validPrefix(raw []byte) int {
	n := 0
	for {
		r, size := utf8.DecodeRune(raw[n:])
		if r == utf8.RuneError && size <= 1 {
			return n
		}
		n += size
	}
}

// syntaxDetail says why raw is no strict JSON.
func syntaxDetail(raw []byte, err error) string {
	var se *jsontext.SyntacticError
	if !errors.As(err, &se) || !errors.Is(se.Err, jsontext.ErrDuplicateName) {
		if se != nil && commaTooMany(raw, int(se.ByteOffset)) {
			return "there is a comma too many before '" + string(raw[se.ByteOffset]) + "' at byte " + strconv.FormatInt(se.ByteOffset, 10)
		}
		return clip(strings.TrimPrefix(err.Error(), "jsontext: "), 3*maxDetail)
	}
	s := "duplicate key " + quoteJSON(clip(se.JSONPointer.LastToken(), maxDetail))
	if parent := se.JSONPointer.Parent(); parent != "" {
		s += " at " + clip(string(parent), maxDetail)
	}
	return s
}

// commaTooMany reports whether an object or array ends at raw[at], right after a comma.
func commaTooMany(raw []byte, at int) bool {
	if at >= len(raw) || raw[at] != '}' && raw[at] != ']' {
		return false
	}
	return bytes.HasSuffix(bytes.TrimRight(raw[:at], " \t\r\n"), []byte{','})
}

// clip cuts s to at most n bytes, at the border of a character, and marks the cut.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
