package gemini

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

// Generate asks for one answer; see ports.Provider.
func (p *Provider) Generate(ctx context.Context, req ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error) {
	backend, err := p.backend.As(keyHeader, "", req.Credential)
	if err != nil {
		return ports.Reply{Model: req.Model}, err
	}
	reply, err := p.generate(ctx, backend, req, emit)
	return reply, backend.Redact(err)
}

// The signs of a refused request that another one should follow.
var (
	errLearned  = errors.New("the backend refused something that the next request does otherwise")
	errUnsigned = errors.New("the backend refused its own signatures")
)

func (p *Provider) generate(ctx context.Context, backend *wire.Backend, req ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error) {
	if req.Model == "" {
		model, err := p.catalogue.DefaultModel(ctx, backend)
		if err != nil {
			return ports.Reply{}, err
		}
		req.Model = model
	}
	req.Model = plainModel(req.Model)
	unsigned := false
	for {
		r, err := p.build(req, unsigned)
		if err != nil {
			return ports.Reply{Model: req.Model}, err
		}
		body, err := r.encode()
		if err != nil {
			return ports.Reply{Model: req.Model}, err
		}
		refused := func(status int, body []byte) error {
			if status != http.StatusBadRequest {
				return nil
			}
			return p.learn(req, r, strings.ToLower(string(body)))
		}
		d := &decoder{emit: emit, names: toolNames(req.Tools)}
		reply, err := backend.Generate(ctx, modelPath(req.Model), body, req.Model, d, refused)
		switch {
		case errors.Is(err, errUnsigned):
			unsigned = true
		case !errors.Is(err, errLearned):
			p.remember(req.Model, d.model, err)
			return reply, err
		}
	}
}

// learn reads why the request r for req was refused. It returns nil when that is final.
func (p *Provider) learn(req ports.ModelRequest, r *request, words string) error {
	signature := strings.Contains(words, "thought_signature") || strings.Contains(words, "thought signature")
	switch {
	case signature && strings.Contains(words, "missing"):
		if !p.maker(req.Model, false).strict {
			p.strict.Store(req.Model, true)
			return errLearned
		}
	case signature && r.signed():
		return errUnsigned
	case !signature && strings.Contains(words, "thinking") && r.thinks():
		key := thinkingKey{req.Model, req.Options.Thinking}
		p.thinking.Store(key, p.refusedThinking(req)+1)
		return errLearned
	}
	return nil
}

// remember keeps what an answer told of the model behind a name.
func (p *Provider) remember(asked, answered string, err error) {
	if answered != "" {
		p.answers.Store(asked, answered)
	}
	if fault := (*ports.ProviderError)(nil); errors.As(err, &fault) && fault.Code == missingSignature {
		p.strict.Store(asked, true)
	}
}
