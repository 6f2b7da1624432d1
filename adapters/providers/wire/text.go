package wire

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/keel-agent/keel/domain"
)

// Text joins the pieces of one text that a backend sends as JSON strings. A character that is cut between two pieces,
// as a surrogate pair of escapes or within its bytes, is held back until its second half comes; what never becomes
// whole is U+FFFD. The zero value is an empty text.
type Text struct {
	whole strings.Builder
	high  rune   // a high surrogate that waits for its low one, else 0
	tail  []byte // the first bytes of a character
}

// Add appends the piece that the JSON string literal spells and returns the text that became certain with it. Anything
// that is not a JSON string, null above all, adds nothing.
func (t *Text) Add(literal []byte) string {
	if len(literal) < 2 || literal[0] != '"' {
		return ""
	}
	literal = literal[1 : len(literal)-1]
	return t.take(t.unescape(literal))
}

// AddRaw appends s as it stands, and returns the text that became certain with it.
func (t *Text) AddRaw(s string) string {
	if s == "" {
		return ""
	}
	return t.take(append(t.settle(nil), s...))
}

// End returns what had been held back, as U+FFFD. Text may still be added afterwards.
func (t *Text) End() string {
	b := t.settle(nil)
	if len(t.tail) > 0 {
		t.tail = t.tail[:0]
		b = utf8.AppendRune(b, utf8.RuneError)
	}
	t.whole.Write(b)
	return string(b)
}

// String returns all that was returned before. After End it is the whole text.
func (t *Text) String() string { return t.whole.String() }

// Len returns the length of String.
func (t *Text) Len() int { return t.whole.Len() }

// settle appends U+FFFD to b for a high surrogate whose low one did not follow.
func (t *Text) settle(b []byte) []byte {
	if t.high != 0 {
		t.high = 0
		b = utf8.AppendRune(b, utf8.RuneError)
	}
	return b
}

// take appends bytes that follow the tail to the text and holds the beginning of a character at their end back.
func (t *Text) take(b []byte) string {
	if len(t.tail) > 0 {
		b = append(t.tail, b...)
		t.tail = nil
	}
	cut := len(b) - unfinished(b)
	s := strings.ToValidUTF8(string(b[:cut]), "\uFFFD")
	if cut < len(b) {
		t.tail = append([]byte(nil), b[cut:]...)
	}
	t.whole.WriteString(s)
	return s
}

// unfinished returns the number of bytes at the end of b that begin a character and do not finish it.
func unfinished(b []byte) int {
	for n := 1; n <= min(len(b), utf8.UTFMax-1); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// unescape returns the bytes that the inner part of a valid JSON string literal stands for, as far as they are certain.
func (t *Text) unescape(s []byte) []byte {
	b := make([]byte, 0, len(s)+utf8.UTFMax)
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b = append(t.settle(b), s[i])
			continue
		}
		i++
		if s[i] != 'u' {
			b = append(t.settle(b), unescaped(s[i]))
			continue
		}
		if i+4 >= len(s) {
			break
		}
		b = t.codeUnit(b, hex4(s[i+1:i+5]))
		i += 4
	}
	return b
}

func (t *Text) codeUnit(b []byte, u rune) []byte {
	switch {
	case 0xD800 <= u && u < 0xDC00:
		b = t.settle(b)
		t.high = u
		return b
	case 0xDC00 <= u && u < 0xE000 && t.high != 0:
		u = utf16.DecodeRune(t.high, u)
		t.high = 0
		return utf8.AppendRune(b, u)
	}
	return utf8.AppendRune(t.settle(b), u) // a lone low surrogate is appended as U+FFFD
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

func hex4(s []byte) (u rune) {
	for _, c := range s {
		u <<= 4
		switch {
		case c >= 'a':
			u |= rune(c-'a') + 10
		case c >= 'A':
			u |= rune(c-'A') + 10
		default:
			u |= rune(c - '0')
		}
	}
	return u
}

// Clean returns s as it can be sent to any backend: U+0000 and bytes that are not UTF-8 become U+FFFD.
func Clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// CleanJSON is Clean for JSON text: the escape of U+0000 becomes that of U+FFFD. Text that merely spells the escape
// (an escaped backslash before u0000) stays.
func CleanJSON(raw string) string {
	raw = Clean(raw)
	if !strings.Contains(raw, `\u0000`) {
		return raw
	}
	b := []byte(raw)
	for i := 0; i+1 < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		if strings.HasPrefix(raw[i:], `\u0000`) {
			copy(b[i:], `\ufffd`)
		}
		i++
	}
	return string(b)
}

// CleanThinking returns a thinking block as it can be sent to a backend. A signed one that would change is of no use,
// since its signature proves the exact text: ok is false and the block is left out whole.
func CleanThinking(b domain.Block) (clean domain.Block, ok bool) {
	clean = b
	clean.Thinking = Clean(b.Thinking)
	if b.Signature != "" {
		return clean, clean.Thinking == b.Thinking && Clean(b.Signature) == b.Signature
	}
	return clean, true
}
