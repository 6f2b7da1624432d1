package openai

import (
	"cmp"
	"context"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

func listModels(ctx context.Context, get func(path string) ([]byte, error)) ([]ports.Model, error) {
	body, err := get("/models")
	if err != nil {
		return nil, err
	}
	return readModels(ctx, body)
}

// readModels reads {"data":[…]}, {"models":[…]} or a bare list, of objects or of names.
func readModels(ctx context.Context, body wire.Raw) ([]ports.Model, error) {
	page := wire.Members[struct {
		Data   wire.Raw `json:"data"`
		Models wire.Raw `json:"models"`
	}](body)
	var list wire.ModelList
	for _, entries := range []wire.Raw{body, page.Data, page.Models} {
		if len(list.Models()) > 0 {
			break
		}
		if err := list.Add(ctx, entries, readModel); err != nil {
			return nil, err
		}
	}
	return list.Models(), nil
}

type modelEntry struct {
	ID               wire.Raw `json:"id"`
	Name             wire.Raw `json:"name"`
	Model            wire.Raw `json:"model"`
	ContextLength    wire.Raw `json:"context_length"`
	ContextWindow    wire.Raw `json:"context_window"`
	MaxModelLen      wire.Raw `json:"max_model_len"`
	MaxContextLength wire.Raw `json:"max_context_length"`
	Meta             wire.Raw `json:"meta"` // of llama.cpp
}

func readModel(entry wire.Raw) ports.Model {
	m := wire.Members[modelEntry](entry)
	return ports.Model{
		ID:            cmp.Or(wire.String(entry), wire.String(m.ID), wire.String(m.Name), wire.String(m.Model)),
		ContextWindow: m.window(),
		Listed:        true,
	}
}

func (m modelEntry) window() int {
	meta := wire.Members[struct {
		Window wire.Raw `json:"n_ctx"`
	}](m.Meta)
	return int(cmp.Or(wire.Count(m.ContextLength), wire.Count(m.ContextWindow), wire.Count(m.MaxModelLen),
		wire.Count(m.MaxContextLength), wire.Count(meta.Window)))
}
