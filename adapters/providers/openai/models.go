package openai

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

// Models lists what the backend lists, the configured model first even if the backend keeps it to itself. A backend
// without such a list has that one model, or none.
func (p *Provider) Models(ctx context.Context) ([]ports.Model, error) {
	models, err := p.models(ctx)
	return models, p.backend.Redact(err)
}

func (p *Provider) models(ctx context.Context) ([]ports.Model, error) {
	body, err := p.backend.Get(ctx, "/models")
	if fault := (*ports.ProviderError)(nil); errors.As(err, &fault) && (fault.Status == http.StatusNotFound || fault.Status == http.StatusMethodNotAllowed) {
		body, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	return wire.DefaultFirst(p.cfg.Model, readModels(body)), nil
}

// readModels reads {"data":[…]}, {"models":[…]} or a bare list, of objects or of names.
func readModels(body []byte) []ports.Model {
	raw := wire.Raw(body)
	entries := wire.Array(raw)
	for _, name := range []string{"data", "models"} {
		if len(entries) == 0 {
			entries = wire.Array(wire.Object(raw)[name])
		}
	}
	var found []ports.Model
	for _, e := range entries {
		o := wire.Object(e)
		m := ports.Model{ID: wire.String(e)}
		for _, name := range []string{"id", "name", "model"} {
			if m.ID == "" {
				m.ID = wire.String(o[name])
			}
		}
		if m.ID == "" || slices.ContainsFunc(found, func(f ports.Model) bool { return f.ID == m.ID }) {
			continue
		}
		m.ContextWindow = contextWindow(o)
		found = append(found, m)
	}
	return found
}

func contextWindow(o map[string]wire.Raw) int {
	for _, name := range []string{"context_length", "context_window", "max_model_len", "max_context_length"} {
		if n := wire.Count(o[name]); n > 0 {
			return int(n)
		}
	}
	return int(wire.Count(wire.Object(o["meta"])["n_ctx"])) // llama.cpp
}

// defaultModel returns the configured model, or the first one that the backend lists.
func (p *Provider) defaultModel(ctx context.Context) (string, error) {
	if p.cfg.Model != "" {
		return p.cfg.Model, nil
	}
	if id := p.discovered.Load(); id != nil {
		return *id, nil
	}
	models, err := p.models(ctx)
	if err != nil {
		return "", err
	}
	if len(models) == 0 {
		return "", &ports.ProviderError{Class: ports.Fatal, Code: "no_model", Message: "no model is configured, and the backend lists none"}
	}
	p.discovered.Store(&models[0].ID)
	return models[0].ID, nil
}
