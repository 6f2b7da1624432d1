package anthropic

import (
	"regexp"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

// redactedMark stands in a signature in front of the data of redacted thinking; see the package's comment.
const redactedMark = "redacted_thinking:"

// maker is whom the thinking of a request goes back to.
type maker struct {
	provider string
	family   string
	none     bool // no thinking goes back
}

// replay returns a thinking block of m as it goes back. ok is false for one that has to be left out.
func (k maker) replay(m domain.Message, b domain.Block) (out block, ok bool) {
	if k.none || b.Signature == "" || m.Provider != k.provider || family(m.Model) != k.family {
		return block{}, false
	}
	if b, ok = wire.CleanThinking(b); !ok {
		return block{}, false
	}
	if data, redacted := strings.CutPrefix(b.Signature, redactedMark); redacted {
		return block{Type: "redacted_thinking", Data: data}, true
	}
	return block{Type: "thinking", Thinking: &b.Thinking, Signature: b.Signature}, true
}

func (b block) isThinking() bool { return b.Type == "thinking" || b.Type == "redacted_thinking" }

var (
	modelDate    = regexp.MustCompile(`[-@]\d{8}$`)
	firstOfMajor = regexp.MustCompile(`(\D\d)-0$`)
)

// family returns the name of a model without what differs between an alias and the name that the backend answers with:
// vendor, date, "-latest", and the "-0" of a first version.
func family(model string) string {
	s := strings.ToLower(model[strings.LastIndex(model, "/")+1:])
	s = strings.TrimSuffix(modelDate.ReplaceAllString(s, ""), "-latest")
	return firstOfMajor.ReplaceAllString(s, "$1")
}
