package wire

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/keel-agent/keel/ports"
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

// MaxDescription is how many characters of a tool's description the backends take that bound it. Those of the OpenAI wires
// differ in that, and no documentation tells which do.
const MaxDescription = 1024

// IsLong reports whether a tool's description is longer than MaxDescription.
func IsLong(description string) bool { return utf8.RuneCountInString(description) > MaxDescription }

// Description returns the description of a tool as backends take it, within MaxDescription where brief is set.
func Description(s string, brief bool) string {
	s = Clean(s)
	if !brief || !IsLong(s) {
		return s
	}
	const mark = "… (cut)"
	runes := []rune(s)
	return string(runes[:MaxDescription-utf8.RuneCountInString(mark)]) + mark
}

var longDescription = regexp.MustCompile(`(?i)description.*(too long|maximum length|max[_ ]length|at most)`)

// RefusesDescription reports whether the body of a refusal says that a tool's description is too long.
func RefusesDescription(body []byte) bool { return longDescription.Match(body) }

// CheckToolCount returns a *ports.ProviderError when n tools are more than a backend takes.
func CheckToolCount(n, limit int) error {
	if n <= limit {
		return nil
	}
	return &ports.ProviderError{
		Class: ports.Fatal, Code: "too_many_tools",
		Message: fmt.Sprintf("%d tools are offered and this backend takes at most %d: name fewer in the session's tools or in the input's selection", n, limit),
	}
}
