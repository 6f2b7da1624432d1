package responses

import (
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
)

// reasoning says how hard a model thinks, and that people may read a summary.
type reasoning struct {
	Effort  string `json:"effort"`
	Summary string `json:"summary,omitzero"`
}

// efforts holds the levels of thinking by what they are on this wire.
var efforts = map[string]string{
	"none": "none", "off": "none", "minimal": "minimal", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "xhigh",
}

// think asks for thinking of a level, "" for the backend's default.
func (p *Provider) think(r *request, level string) error {
	if level == "" {
		return nil
	}
	effort, ok := efforts[strings.ToLower(level)]
	if !ok {
		return wire.UnknownThinking(level)
	}
	if p.refuses(r.Model, anyReasoning) {
		return nil
	}
	r.Reasoning = &reasoning{Effort: effort}
	if effort != "none" && !p.refuses(r.Model, summaries) {
		r.Reasoning.Summary = "auto"
	}
	return nil
}
