package responses

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

const (
	reasoningType = "reasoning"
	// itemMark stands in a signature in front of a reasoning item; see the package's comment.
	itemMark = "reasoning_item:"
)

// signed are the members of a reasoning item that go back.
type signed struct {
	ID               wire.Raw `json:"id,omitzero"`
	Summary          wire.Raw `json:"summary"`
	EncryptedContent wire.Raw `json:"encrypted_content"`
}

// signature returns the signature of a reasoning item, "" for one that cannot be sent back.
func signature(v outputItem) string {
	if wire.String(v.EncryptedContent) == "" {
		return ""
	}
	s := signed{v.ID, v.Summary, v.EncryptedContent}
	if wire.String(s.ID) == "" {
		s.ID = nil
	}
	if wire.Array(s.Summary) == nil {
		s.Summary = wire.Raw("[]")
	}
	b, err := wire.Encode(s)
	if err != nil || !utf8.Valid(s.Summary) || !utf8.Valid(s.EncryptedContent) || !utf8.Valid(s.ID) {
		return ""
	}
	return itemMark + string(b)
}

// maker is whom the reasoning of a request goes back to.
type maker struct {
	provider string
	family   string
	none     bool // no reasoning goes back
}

// replay returns a thinking block of m as it goes back. ok is false for one that has to be left out.
func (k maker) replay(m domain.Message, b domain.Block) (out item, ok bool) {
	text, ours := strings.CutPrefix(b.Signature, itemMark)
	if k.none || !ours || m.Provider != k.provider || family(m.Model) != k.family || wire.CleanJSON(text) != text {
		return item{}, false
	}
	var s signed
	if wire.Decode([]byte(text), &s) != nil || wire.IsNull(s.EncryptedContent) {
		return item{}, false
	}
	return item{Type: reasoningType, ID: s.ID, Summary: s.Summary, EncryptedContent: s.EncryptedContent}, true
}

var modelDate = regexp.MustCompile(`-\d{4}-\d{2}-\d{2}$`)

// family returns the name of a model without what differs between an alias and the name that the backend answers with:
// vendor and date.
func family(model string) string {
	return modelDate.ReplaceAllString(strings.ToLower(model[strings.LastIndex(model, "/")+1:]), "")
}
