package responses

import (
	"regexp"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
)

// parameter is something that not every model takes.
type parameter int

const (
	temperature parameter = iota
	summaries
	anyReasoning
	encryptedContent
	longDescriptions
)

// refusal is what a model does not take.
type refusal struct {
	model string
	what  parameter
}

func (p *Provider) refuses(model string, what parameter) bool {
	_, known := p.refused.Load(refusal{model, what})
	return known
}

// learn reads the body of the refusal of r and reports whether the next request will be shaped otherwise: it goes without
// a parameter that r had.
func (p *Provider) learn(r *request, body []byte) bool {
	what, ok := r.refusedParameter(body)
	if ok {
		p.refused.Store(refusal{r.Model, what}, true)
	}
	return ok
}

// refusedParameter returns which of its parameters r should go without. A level of thinking that a model does not have
// is none of them: that is for the caller to choose.
func (r *request) refusedParameter(body []byte) (what parameter, ok bool) {
	text := strings.ToLower(string(body))
	has := func(word string) bool { return strings.Contains(text, word) }
	switch {
	case wire.RefusesDescription(body) && r.describesAtLength():
		return longDescriptions, true
	case r.Temperature != nil && has("temperature"):
		return temperature, true
	case len(r.Include) > 0 && (has("encrypted content is not supported") || has("include") && unsupported.MatchString(text)):
		return encryptedContent, true
	case r.Reasoning != nil && r.Reasoning.Summary != "" && (has("reasoning.summary") || has("reasoning summar")):
		return summaries, true
	case r.Reasoning != nil && has("reasoning") && unsupported.MatchString(text):
		return anyReasoning, true
	}
	return 0, false
}

// What backends say.
var (
	unsupported  = regexp.MustCompile(`unsupported_parameter|unsupported parameter|(unknown|unrecognized)[ _](parameter|argument|field)`)
	wrongHistory = regexp.MustCompile(`invalid_encrypted_content|encrypted content .*could not|could not be (verified|decrypted)|[Ii]tem .*(not found|without its required|of type 'reasoning')`)
)

// thoughts says what one generation does with the reasoning of earlier answers.
type thoughts struct{ none bool }

// refused reports whether body refuses the reasoning that was just sent back, and has it left out of the next request: a
// session must not die of an item that its backend no longer takes.
func (t *thoughts) refused(body []byte) bool {
	f := wire.BodyFault(0, body)
	t.none = wrongHistory.MatchString(f.Code + " " + f.Message)
	return t.none
}
