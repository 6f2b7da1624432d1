package anthropic

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
)

// thinking asks a model to think. Models from 4.6 on judge for themselves how long (adaptive) and are told the effort;
// older ones, and imitations, are given a budget of tokens.
type thinking struct {
	Type         string `json:"type"`
	BudgetTokens int    `json:"budget_tokens,omitzero"`
}

type outputConfig struct {
	Effort string `json:"effort"`
}

const (
	adaptive = "adaptive"
	budgeted = "enabled"
)

// levels holds the levels of thinking: what they are to each kind of model.
var levels = map[string]struct {
	effort string
	budget int // tokens
}{
	"none": {}, "off": {},
	"minimal": {"low", 1024}, "low": {"low", 2048}, "medium": {"medium", 8192}, "high": {"high", 16384},
	"xhigh": {"xhigh", 32768}, "max": {"max", 65536},
}

// minBudget is the smallest budget that the wire takes.
const minBudget = 1024

// think asks for thinking of a level, "" for the backend's default. A budget takes at most three quarters of the token
// cap, since the answer has to fit in as well; where less than the least remains, there is none.
func (p *Provider) think(r *request, level string) error {
	if level == "" {
		return nil
	}
	l, ok := levels[strings.ToLower(level)]
	switch budget := min(l.budget, r.MaxTokens/4*3); {
	case !ok:
		return wire.UnknownThinking(level)
	case l.effort == "":
	case p.thinksAdaptively(r.Model):
		r.Thinking, r.OutputConfig = &thinking{Type: adaptive}, &outputConfig{l.effort}
	case budget >= minBudget && turnBeganThinking(r.Messages):
		r.Thinking = &thinking{budgeted, budget}
	}
	return nil
}

// thinksAdaptively reports how a model is told to think, by what it refused or else by its name.
func (p *Provider) thinksAdaptively(model string) bool {
	if learned, ok := p.adaptive.Load(model); ok {
		return learned.(bool)
	}
	m := modelVersion.FindStringSubmatch(family(model))
	if m == nil {
		return false
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2]) // "" is 0
	return major > 4 || major == 4 && minor >= 6
}

var modelVersion = regexp.MustCompile(`^claude-(?:[a-z]+-)?(\d+)(?:-(\d+))?`)

// turnBeganThinking reports whether the turn that the results at the end of messages belong to began with thinking, or
// there is no such turn. A model with a budget refuses to go on thinking in the middle of one that did not.
func turnBeganThinking(messages []message) bool {
	began := true
	for i := len(messages) - 1; i > 0 && messages[i].Content[0].Type == "tool_result"; i -= 2 {
		began = messages[i-1].Content[0].isThinking()
	}
	return began
}
