package anthropic

import (
	"regexp"
	"strconv"
	"strings"
)

// What backends say when they refuse a parameter of a request that is otherwise well.
var (
	tooManyTokens = regexp.MustCompile(`max_tokens: \d+ > (\d+)`)
	wrongThinking = regexp.MustCompile(`adaptive|budget_tokens|thinking\.type`)
	wrongHistory  = regexp.MustCompile(`signature|redacted_thinking`)
)

// learn reads the body of the refusal of r and reports whether the next request will be shaped otherwise. Each thing is
// learned once per model, so that the same refusal twice is a fault; what another request learned meanwhile counts.
func (p *Provider) learn(r *request, body []byte) bool {
	text := strings.ToLower(string(body))
	if m := tooManyTokens.FindStringSubmatch(text); m != nil {
		limit, err := strconv.Atoi(m[1])
		if err != nil || limit < 1 || limit >= r.MaxTokens {
			return false
		}
		p.limits.Store(r.Model, limit)
		return true
	}
	if r.Temperature != nil && strings.Contains(text, "temperature") {
		p.noSampling.Store(r.Model, true)
		return true
	}
	if r.Thinking != nil && wrongThinking.MatchString(text) {
		other := r.Thinking.Type != adaptive
		learned, known := p.adaptive.LoadOrStore(r.Model, other)
		return !known || learned == other
	}
	return false
}

// thoughts says what one generation does with the thinking of earlier answers.
type thoughts struct{ none bool }

// refused reports whether body refuses the thinking that was sent back, and has it left out of the next request: a
// session must not die of a signature that its backend no longer takes.
func (t *thoughts) refused(body []byte) bool {
	if t.none || !wrongHistory.Match(body) {
		return false
	}
	t.none = true
	return true
}
