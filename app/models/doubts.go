package models

import (
	"errors"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/domain"
)

// doubt warns once of what the operator has chosen and the providers, now that they list what they have, do not list. They
// may have it nevertheless, so nothing is refused.
func (c *Catalogues) doubt(listed map[string]list) {
	var known []domain.Model
	all, _ := merged(c.names, listed)
	for _, m := range all {
		if m.Listed {
			known = append(known, m)
		}
	}
	catalogue := domain.NewCatalogue(c.names, known)
	for _, m := range all {
		if !m.Listed {
			c.doubtOf("the default model of a provider is not in its list", catalogue, m.Provider+"/"+m.Name)
		}
	}
	if c.cfg.Compact != "" {
		c.doubtOf("the model that writes summaries is not in its provider's list", catalogue, c.cfg.Compact)
	}
}

func (c *Catalogues) doubtOf(message string, catalogue *domain.Catalogue, model string) {
	_, err := catalogue.Resolve(model)
	if refusal, ok := errors.AsType[*domain.Error](err); ok && !c.doubted[message+model] {
		c.doubted[message+model] = true
		c.cfg.Log.Warn(message, zap.String("problem", refusal.Detail))
	}
}
