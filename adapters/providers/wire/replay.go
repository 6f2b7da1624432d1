package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// What stands in place of nothing: backends refuse empty messages, a result may not be left out, and most want the user to
// have the last word.
const (
	EmptyInput  = "(empty message)"
	EmptyOutput = "(no output)"
	GoOn        = "(continue)"
)

// CallID returns id as backends take it: letters, digits, _ and -, at most limit of them (at least 37). A call and its
// result get the same one, different ids different ones.
func CallID(id string, limit int) string {
	if plainName(id) && len(id) <= limit {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}

// ToolName returns name as backends take it: letters, digits, _ and -, at most limit of them (at least 10). Names that
// differ stay different.
func ToolName(name string, limit int) string {
	if plainName(name) && len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	mark := "_" + hex.EncodeToString(sum[:4])
	plain := strings.Map(func(r rune) rune {
		if plainRune(r) {
			return r
		}
		return '_'
	}, name)
	return plain[:min(len(plain), limit-len(mark))] + mark
}

// ToolNames returns the name of each tool by the one that ToolName gives it.
func ToolNames(specs []ports.ToolSpec, limit int) map[string]string {
	names := make(map[string]string, len(specs))
	for _, spec := range specs {
		names[ToolName(spec.Name, limit)] = spec.Name
	}
	return names
}

func plainName(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return !plainRune(r) }) < 0
}

func plainRune(r rune) bool {
	return '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' || r == '_' || r == '-'
}

// CallArguments returns the arguments of a call as one JSON object to send: what is no object is wrapped in one, since
// backends parse what they get back.
func CallArguments(call domain.Block) string {
	if args := CleanJSON(call.Arguments); args != "" {
		return args
	}
	b, _ := Encode(struct { // a string always encodes
		Malformed string `json:"malformed"`
	}{Clean(call.RawArguments)})
	return string(b)
}
