package anthropic

import (
	"context"
	"net/url"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

func listModels(ctx context.Context, get func(path string) ([]byte, error)) ([]ports.Model, error) {
	var list wire.ModelList
	query := url.Values{"limit": {"1000"}}
	for range wire.MaxModelPages {
		body, err := get("/v1/models?" + query.Encode())
		if err != nil {
			return nil, err
		}
		page := wire.Members[modelPage](body)
		if err := list.Add(ctx, page.Data, readModel); err != nil {
			return nil, err
		}
		next := wire.String(page.LastID)
		if list.Full() || string(page.HasMore) != "true" || next == "" || next == query.Get("after_id") {
			break
		}
		query.Set("after_id", next)
	}
	return list.Models(), nil
}

type modelPage struct {
	Data    wire.Raw `json:"data"`
	HasMore wire.Raw `json:"has_more"`
	LastID  wire.Raw `json:"last_id"`
}

func readModel(entry wire.Raw) ports.Model {
	m := wire.Members[struct {
		ID     wire.Raw `json:"id"`
		Window wire.Raw `json:"max_input_tokens"`
	}](entry)
	return ports.Model{ID: wire.String(m.ID), ContextWindow: int(wire.Count(m.Window))}
}
