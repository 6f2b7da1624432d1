package gemini

import (
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

// thinkingConfig asks a model to think. Models from Gemini 3 on are told a level, those of 2.5 a budget of tokens.
type thinkingConfig struct {
	IncludeThoughts bool   `json:"includeThoughts,omitzero"`
	ThinkingLevel   string `json:"thinkingLevel,omitzero"`
	ThinkingBudget  *int   `json:"thinkingBudget,omitzero"`
}

// levels holds the levels of thinking: what they are to each kind of model.
var levels = map[string]struct {
	level  string
	budget int // tokens
}{
	"none": {"MINIMAL", 0}, "off": {"MINIMAL", 0},
	"minimal": {"MINIMAL", 1024}, "low": {"LOW", 2048}, "medium": {"MEDIUM", 8192}, "high": {"HIGH", 16384},
	"xhigh": {"HIGH", 24576}, "max": {"HIGH", 24576},
}

const (
	// minBudget is the smallest budget that every model takes, but for none at all.
	minBudget = 512
	// minProBudget is the smallest one of the models that cannot be kept from thinking.
	minProBudget = 128
)

// thinkingKey is a wish for thinking, of which the backend may refuse first the level, then all.
type thinkingKey struct{ model, level string }

// think returns what to say about thinking at the level that req asks for, of which the backend refused so much already, nil
// for nothing: the backend's default.
func think(req ports.ModelRequest, refused int) (*thinkingConfig, error) {
	name := strings.ToLower(req.Options.Thinking)
	if name == "" {
		return nil, nil
	}
	l, ok := levels[name]
	if !ok {
		return nil, wire.UnknownThinking(name)
	}
	thoughts, pro := l.budget > 0, strings.Contains(req.Model, "-pro")
	g := versionOf(req.Model)
	switch {
	case g < thinksByBudget || refused > 1 || refused > 0 && !thoughts:
		return nil, nil
	case refused > 0:
		return &thinkingConfig{IncludeThoughts: true}, nil
	case g >= thinksByLevel && pro && l.level == "MINIMAL":
		return &thinkingConfig{thoughts, "LOW", nil}, nil
	case g >= thinksByLevel:
		return &thinkingConfig{thoughts, l.level, nil}, nil
	}
	return &thinkingConfig{IncludeThoughts: thoughts, ThinkingBudget: budget(l.budget, pro, req.Options.MaxTokens)}, nil
}

// budget returns a budget of tokens, at most three quarters of the token cap, since the answer has to fit in as well. It
// returns nil, which leaves the choice to the model, where less than the least remains.
func budget(n int, pro bool, limit int) *int {
	if n == 0 && pro {
		n = minProBudget
	}
	if n >= minBudget && limit > 0 {
		if n = min(n, limit/4*3); n < minBudget {
			return nil
		}
	}
	return &n
}

func (p *Provider) refusedThinking(req ports.ModelRequest) int {
	n, _ := p.thinking.Load(thinkingKey{req.Model, req.Options.Thinking})
	refused, _ := n.(int)
	return refused
}
