package anthropic

import (
	"context"
	"net/url"
	"slices"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

// maxPages bounds the pages of a list of models: a backend may always say that there is more.
const maxPages = 20

// Models lists what the backend lists; see wire.Catalogue.
func (p *Provider) Models(ctx context.Context, credential ports.Confidential) ([]ports.Model, error) {
	return p.catalogue.Models(ctx, credential)
}

func listModels(ctx context.Context, backend *wire.Backend) ([]ports.Model, error) {
	var found []ports.Model
	query := url.Values{"limit": {"1000"}}
	for range maxPages {
		body, err := backend.Get(ctx, "/v1/models?"+query.Encode())
		if err != nil {
			return nil, err
		}
		page := wire.Object(body)
		found = appendModels(found, wire.Array(page["data"]))
		next := wire.String(page["last_id"])
		if string(page["has_more"]) != "true" || next == "" || next == query.Get("after_id") {
			break
		}
		query.Set("after_id", next)
	}
	return found, nil
}

func appendModels(found []ports.Model, entries []wire.Raw) []ports.Model {
	for _, e := range entries {
		o := wire.Object(e)
		m := ports.Model{ID: wire.String(o["id"]), ContextWindow: int(wire.Count(o["max_input_tokens"]))}
		if m.ID != "" && !slices.ContainsFunc(found, func(f ports.Model) bool { return f.ID == m.ID }) {
			found = append(found, m)
		}
	}
	return found
}
