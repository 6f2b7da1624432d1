package openai

import (
	"context"
	"slices"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

// Models lists what the backend lists; see wire.Catalogue.
func (p *Provider) Models(ctx context.Context, credential ports.Confidential) ([]ports.Model, error) {
	return p.catalogue.Models(ctx, credential)
}

func listModels(ctx context.Context, backend *wire.Backend) ([]ports.Model, error) {
	body, err := backend.Get(ctx, "/models")
	if err != nil {
		return nil, err
	}
	return readModels(body), nil
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
		m := ports.Model{ID: wire.String(e), Listed: true}
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
