package gemini

import (
	"errors"
	"regexp"
	"strings"

	"github.com/keel-agent/keel/ports"
)

// wrongHistory is what backends say when they refuse signatures, or miss them.
var wrongHistory = regexp.MustCompile(`thought[_ ]signature`)

// learn reads the body of the refusal of r, the request for req, and reports whether the next request will be shaped
// otherwise. What another request learned meanwhile counts.
func (p *Provider) learn(req ports.ModelRequest, r *request, body []byte) bool {
	text := strings.ToLower(string(body))
	switch signatures := wrongHistory.MatchString(text); {
	case signatures && strings.Contains(text, "missing") && !r.strict:
		p.strict.Store(req.Model, true)
		return true
	case !signatures && strings.Contains(text, "thinking") && r.thinks():
		p.thinking.Store(thinkingKey{req.Model, req.Options.Thinking}, max(r.refused+1, p.refusedThinking(req)))
		return true
	}
	return false
}

// thoughts says what one generation does with the signatures of earlier answers.
type thoughts struct{ none bool }

// refused reports whether body refuses the signatures that were just sent back, and has them left out of the next request: a
// session must not die of a signature that its backend no longer takes.
func (t *thoughts) refused(body []byte) bool {
	text := strings.ToLower(string(body))
	t.none = wrongHistory.MatchString(text) && !strings.Contains(text, "missing")
	return t.none
}

// remember keeps what an answer told of the model behind a name.
func (p *Provider) remember(asked, answered string, err error) {
	if answered != "" {
		p.answers.Store(asked, answered)
	}
	if fault := (*ports.ProviderError)(nil); errors.As(err, &fault) && fault.Code == missingSignature {
		p.strict.Store(asked, true)
	}
}
