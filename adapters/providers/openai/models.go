package openai

import (
	"context"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

const (
	modelsTimeout = 10 * time.Second
	maxModels     = 8 << 20
)

// Models lists what the backend lists, the configured model first even if the backend keeps it to itself. A backend
// without such a list has that one model, or none.
func (p *Provider) Models(ctx context.Context) ([]ports.Model, error) {
	models, err := p.models(ctx)
	return models, p.secrets.Redact(err)
}

func (p *Provider) models(ctx context.Context) ([]ports.Model, error) {
	watched, watch := wire.NewWatch(ctx, modelsTimeout)
	defer watch.Stop()
	r, err := p.request(watched, http.MethodGet, "/models", nil)
	if err != nil {
		return nil, err
	}
	resp, err := p.client.Do(r)
	if err != nil {
		return nil, watch.Fault(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxModels))
	if err != nil {
		return nil, watch.Fault(err)
	}
	var found []ports.Model
	switch {
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed:
	case resp.StatusCode >= 300:
		f := wire.BodyFault(resp.StatusCode, body)
		f.RetryAfter = wire.RetryAfter(resp.Header, time.Now())
		return nil, f.Error()
	default:
		found = readModels(body)
	}
	return p.defaultFirst(found), nil
}

func (p *Provider) defaultFirst(found []ports.Model) []ports.Model {
	if p.cfg.Model == "" {
		return found
	}
	first := ports.Model{ID: p.cfg.Model}
	if i := slices.IndexFunc(found, func(m ports.Model) bool { return m.ID == first.ID }); i >= 0 {
		first = found[i]
		found = slices.Delete(found, i, i+1)
	}
	return slices.Insert(found, 0, first)
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
