package output

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Ends is a writer that keeps the first and the last bytes of what is written, each half of the limit, and counts what
// lies between. Its memory is bounded by the limit. Not for concurrent use.
type Ends struct {
	half  int
	head  []byte
	tail  []byte // at most twice half, of which the last half counts
	total int64
}

// NewEnds keeps at most limit bytes; 0 means DefaultLimit.
func NewEnds(limit int) *Ends {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return &Ends{half: max(limit/2, 1)}
}

// Write never fails.
func (e *Ends) Write(p []byte) (int, error) {
	n := len(p)
	e.total += int64(n)
	first := min(e.half-len(e.head), n)
	e.head = append(e.head, p[:first]...)
	p = p[first:]
	if len(p) > e.half {
		p = p[len(p)-e.half:]
	}
	e.tail = append(e.tail, p...)
	if len(e.tail) > 2*e.half {
		e.tail = append(e.tail[:0], e.tail[len(e.tail)-e.half:]...)
	}
	return n, nil
}

// String returns valid UTF-8: all that was written, or its ends with a line between that says how much is missing. It
// cuts at borders of code points; bytes that are not UTF-8 become U+FFFD.
func (e *Ends) String() string {
	if e.total == int64(len(e.head)+len(e.tail)) && len(e.tail) <= e.half {
		return strings.ToValidUTF8(string(e.head)+string(e.tail), "\uFFFD")
	}
	head := string(e.head[:wholeRunes(e.head)])
	tail := string(e.tail[len(e.tail)-e.half:])
	for skipped := 0; skipped < utf8.UTFMax-1 && tail != "" && !utf8.RuneStart(tail[0]); skipped++ {
		tail = tail[1:]
	}
	missing := e.total - int64(len(head)+len(tail))
	return strings.ToValidUTF8(head, "\uFFFD") + fmt.Sprintf("\n[cut: %d of %d bytes are missing here]\n", missing, e.total) +
		strings.ToValidUTF8(tail, "\uFFFD")
}

// wholeRunes is the length of b without a code point at its end that was cut.
func wholeRunes(b []byte) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return len(b)
}
