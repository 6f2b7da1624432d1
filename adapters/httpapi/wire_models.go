package httpapi

import "github.com/keel-agent/keel/domain"

type modelSettingsJSON struct {
	Revision  int64          `json:"revision"`
	Document  domain.Payload `json:"document"` // as the tenant wrote it
	Defaults  defaultsJSON   `json:"defaults"`
	Models    []modelJSON    `json:"models"`
	Providers []string       `json:"providers"`
}

type defaultsJSON struct {
	Model       string   `json:"model"` // what "" stands for, "" when only the provider knows
	Thinking    string   `json:"thinking,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
}

// modelJSON is an entry; what is not known is absent.
type modelJSON struct {
	ID             string             `json:"id"`
	Provider       string             `json:"provider"`
	Model          string             `json:"model"`
	Enabled        bool               `json:"enabled"`
	ContextWindow  int                `json:"contextWindow,omitempty"`
	MaxOutput      int                `json:"maxOutput,omitempty"`
	Modalities     []string           `json:"modalities,omitempty"`
	Thinking       []string           `json:"thinking,omitzero"`
	ThinkingValues map[string]string  `json:"thinkingValues,omitempty"`
	Prices         *pricesJSON        `json:"prices,omitempty"`
	Source         domain.ModelSource `json:"source"`
}

type pricesJSON struct {
	Currency   string        `json:"currency"`
	Input      domain.Amount `json:"input"`
	Output     domain.Amount `json:"output"`
	CacheRead  domain.Amount `json:"cacheRead,omitempty"`
	CacheWrite domain.Amount `json:"cacheWrite,omitempty"`
}

func toModelSettings(s domain.ModelSettings) modelSettingsJSON {
	c := s.Catalogue
	d := defaultsJSON{Model: c.Defaults.Model, Thinking: c.Defaults.Thinking, Temperature: c.Defaults.Temperature}
	if m, err := c.Resolve(""); err == nil && d.Model == "" {
		d.Model = m.ID
	}
	out := modelSettingsJSON{Revision: s.Revision, Document: s.Document, Defaults: d, Models: []modelJSON{}, Providers: c.Providers()}
	for _, m := range c.Models() {
		out.Models = append(out.Models, toModel(m))
	}
	return out
}

func toModel(m domain.Model) modelJSON {
	out := modelJSON{
		ID: m.ID, Provider: m.Provider, Model: m.Name, Enabled: !m.Disabled, ContextWindow: m.ContextWindow, MaxOutput: m.MaxOutput,
		Modalities: m.Modalities, Thinking: m.Thinking, ThinkingValues: m.Levels, Source: m.Source,
	}
	if p := m.Prices; p.Currency != "" {
		out.Prices = &pricesJSON{p.Currency, p.Input, p.Output, p.CacheRead, p.CacheWrite}
	}
	return out
}
