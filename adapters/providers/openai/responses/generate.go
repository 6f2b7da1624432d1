package responses

import (
	"context"
	"errors"
	"net/http"

	"github.com/keel-agent/keel/adapters/providers/openai"
	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

// Generate asks for one answer; see ports.Provider.
func (p *Provider) Generate(ctx context.Context, req ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error) {
	backend, err := openai.As(p.backend, req.Credential)
	if err != nil {
		return ports.Reply{Model: req.Model}, err
	}
	reply, err := p.generate(ctx, backend, req, emit)
	return reply, backend.Redact(err)
}

// errLearned tells that the backend refused something which the next request will do otherwise.
var errLearned = errors.New("the backend refused a parameter")

func (p *Provider) generate(ctx context.Context, backend *wire.Backend, req ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error) {
	if req.Model == "" {
		model, err := p.catalogue.DefaultModel(ctx, backend)
		if err != nil {
			return ports.Reply{}, err
		}
		req.Model = model
	}
	var history thoughts
	for {
		r, err := p.build(req, history)
		if err != nil {
			return ports.Reply{Model: req.Model}, err
		}
		body, err := r.encode()
		if err != nil {
			return ports.Reply{Model: req.Model}, err
		}
		refused := func(status int, body []byte) error {
			invalid := status == http.StatusBadRequest || status == http.StatusUnprocessableEntity
			if invalid && (r.reasons() && history.refused(body) || p.learn(r, body)) {
				return errLearned
			}
			return nil
		}
		d := &decoder{emit: emit, names: wire.ToolNames(req.Tools, maxName)}
		reply, err := backend.Generate(ctx, "/responses", body, req.Model, d, refused)
		if !errors.Is(err, errLearned) {
			return reply, err
		}
	}
}
