package output

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Hidden are texts that outputs must not show: secrets that the other side was sent, and may send back.
type Hidden []string

const (
	redacted = "[redacted]"

	// shortestHidden keeps trivial values, such as a header's "1", from blanking ordinary text.
	shortestHidden = 6
)

// In returns text without what is hidden, as far as it stands there exactly, or as encoding/json (with and without
// escapes for HTML) or %q write it.
func (h Hidden) In(text string) string {
	for _, hidden := range h.longestFirst() {
		text = strings.ReplaceAll(text, hidden, redacted)
	}
	return text
}

// InCut is In for the beginning of a longer text: it leaves out the beginning of what is hidden at the end, too.
func (h Hidden) InCut(text string) string {
	stump := 0
	for _, hidden := range h.longestFirst() {
		for n := min(len(hidden), len(text)); n > stump; n-- {
			if strings.HasSuffix(text, hidden[:n]) {
				stump = n
			}
		}
	}
	return h.In(text[:len(text)-stump])
}

// Error returns err without what is hidden: err itself when it tells nothing.
func (h Hidden) Error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if clean := h.In(text); clean != text {
		return errors.New(clean)
	}
	return err
}

// longestFirst has each value in all of its forms, in the order in which no text leaves the rest of one that it is a part
// of.
func (h Hidden) longestFirst() []string {
	var all []string
	for _, value := range h {
		if len(value) >= shortestHidden {
			all = append(all, value, inJSON(value, true), inJSON(value, false), unquoted(strconv.Quote(value)))
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.Compact(all)
}

// inJSON is how text stands in a JSON string.
func inJSON(text string, escapeHTML bool) string {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(escapeHTML)
	_ = encoder.Encode(text) // any string can be
	return unquoted(strings.TrimSuffix(encoded.String(), "\n"))
}

func unquoted(text string) string { return text[1 : len(text)-1] }
