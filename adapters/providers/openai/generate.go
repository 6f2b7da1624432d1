package openai

import (
	"context"
	"errors"
	"net/http"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

// errLearned tells that the backend refused a parameter which the next request will leave out.
var errLearned = errors.New("the backend refused a parameter")

// Generate asks for one answer; see ports.Provider.
func (p *Provider) Generate(ctx context.Context, req ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error) {
	backend, err := As(p.backend, req.Credential)
	if err != nil {
		return ports.Reply{Model: req.Model}, err
	}
	reply, err := p.generate(ctx, backend, req, emit)
	return reply, backend.Redact(err)
}

func (p *Provider) generate(ctx context.Context, backend *wire.Backend, req ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error) {
	if req.Model == "" {
		model, err := p.catalogue.DefaultModel(ctx, backend)
		if err != nil {
			return ports.Reply{}, err
		}
		req.Model = model
	}
	for {
		r := p.build(req)
		body, err := r.encode()
		if err != nil {
			return ports.Reply{Model: req.Model}, err
		}
		refused := func(status int, body []byte) error {
			if (status == http.StatusBadRequest || status == http.StatusUnprocessableEntity) && p.learn(r, body) {
				return errLearned
			}
			return nil
		}
		d := &decoder{emit: emit, names: wire.ToolNames(req.Tools, maxName)}
		reply, err := backend.Generate(ctx, "/chat/completions", body, req.Model, d, refused)
		if !errors.Is(err, errLearned) {
			return reply, err
		}
	}
}
