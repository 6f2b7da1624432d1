package gemini

import (
	"regexp"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

// noSignature stands in place of the signature of a call that has none; see the package's comment.
const noSignature = "skip_thought_signature_validator"

// maker is whom a request goes to, and thereby whose signatures it may hold.
type maker struct {
	provider string
	family   string // "" for that of any model of the provider
	none     bool   // the backend refused its own signatures
	strict   bool   // the first call of each answer has to be signed
}

// maker returns whom a request to model goes to. A name that always means the newest model is that of the model which
// answered to it last; before any did, the signatures of all are tried.
func (p *Provider) maker(model string, history thoughts) maker {
	target := model
	if answered, ok := p.answers.Load(model); ok {
		target = answered.(string)
	}
	_, refused := p.strict.Load(model)
	to := maker{provider: p.Name(), family: family(target), none: history.none, strict: refused || versionOf(target) >= wantsSignature}
	if strings.HasSuffix(target, "-latest") {
		to.family = ""
	}
	return to
}

// signature returns what of the signature of a block of m goes back with it, "" where that is nothing: it proves the exact
// block to the model that made it.
func (k maker) signature(m domain.Message, b domain.Block) string {
	if k.none || m.Provider != k.provider || k.family != "" && family(m.Model) != k.family {
		return ""
	}
	if !unchanged(b.Signature) || !unchanged(b.Text) || !unchanged(b.Thinking) {
		return ""
	}
	if b.Type == domain.CallBlock && wire.CallArguments(b) != b.Arguments {
		return ""
	}
	return b.Signature
}

func unchanged(s string) bool { return wire.Clean(s) == s }

var modelSuffix = regexp.MustCompile(`-(latest|preview.*|exp.*|\d{3})$`)

// family returns the name of a model without what differs between its releases.
func family(model string) string { return modelSuffix.ReplaceAllString(plainModel(model), "") }
