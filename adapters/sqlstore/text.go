package sqlstore

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/keel-agent/keel/domain"
)

// quotedMark begins every stored text that EncodeText had to quote.
const quotedMark = "\x01"

// EncodeText returns s as a text column holds it: s itself, unless a database could refuse or cut it (U+0000, invalid
// UTF-8); then it is quoted behind a mark. Different strings stay different.
func EncodeText(s string) string {
	if Storable(s) && !strings.HasPrefix(s, quotedMark) {
		return s
	}
	return quotedMark + strconv.Quote(s)
}

// DecodeText is the inverse of EncodeText. It fails for a text that EncodeText never returns.
func DecodeText(stored string) (string, error) {
	quoted, ok := strings.CutPrefix(stored, quotedMark)
	if !ok {
		return stored, nil
	}
	s, err := strconv.Unquote(quoted)
	if err != nil {
		return "", fmt.Errorf("stored text %q: %w", stored, err)
	}
	return s, nil
}

// ErrUnstorable refuses a document or its name that Storable does.
var ErrUnstorable error = domain.ErrInvalidRequest.With("must be text of valid UTF-8 without U+0000")

// Storable reports whether a text column of every store can hold s as it is. Ids and keys that are not storable occur
// in no row.
func Storable(s string) bool { return strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) }

// nullable returns s as a column that is NULL when s is empty.
func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// text is the inverse of nullable.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
