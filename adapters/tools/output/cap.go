// Package output makes what a tool printed fit for the ledger and for a model.
package output

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// DefaultLimit is how many bytes of one result are kept where nothing else is said.
const DefaultLimit = 64 << 10

// Cap returns s as valid UTF-8 with at most limit bytes of it (0 means DefaultLimit), cut at the border of a code
// point. Bytes that are not UTF-8 become U+FFFD first. A cut is marked by a line of its own behind the text, which the
// limit does not count.
func Cap(s string, limit int) string {
	if limit <= 0 {
		limit = DefaultLimit
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	kept := Prefix(s, limit)
	return kept + fmt.Sprintf("\n[cut: the first %d of %d bytes]", len(kept), len(s))
}

// Prefix returns the longest prefix of s that has at most limit bytes and ends at the border of a code point.
func Prefix(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
