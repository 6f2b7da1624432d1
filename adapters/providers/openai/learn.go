package openai

import (
	"bytes"

	"github.com/keel-agent/keel/adapters/providers/wire"
)

// learn reads the body of the refusal of r and reports whether the next request will be shaped otherwise: it goes without
// a parameter that r had, or with less of the descriptions of tools.
func (p *Provider) learn(r *request, body []byte) bool {
	has := func(name string) bool { return bytes.Contains(body, []byte(name)) }
	switch {
	case r.StreamOptions != nil && (has("stream_options") || has("include_usage")):
		p.noStreamOptions.Store(true)
	case r.MaxTokens > 0 && has("max_completion_tokens") && has("max_tokens"):
		p.completionTokens.Store(r.Model, true)
	case wire.RefusesDescription(body) && r.describesAtLength():
		p.briefTools.Store(r.Model, true)
	case r.Temperature != nil && has("temperature"):
		p.noTemperature.Store(r.Model, true)
	default:
		return false
	}
	return true
}
