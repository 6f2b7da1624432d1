package responses

import (
	"cmp"
	"context"
	"sync"

	"github.com/keel-agent/keel/adapters/providers/openai"
	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

// DefaultName is the provider's name in events unless the configuration gives another.
const DefaultName = "openai-responses"

// Provider generates answers at one backend of the Responses wire.
type Provider struct {
	name      string
	backend   *wire.Backend
	catalogue *wire.Catalogue

	refused sync.Map // true by refusal: what a model is not asked again
}

var _ ports.Provider = (*Provider)(nil)

// New returns a provider. It returns an error when the base URL is not one of HTTP, or a header is malformed.
func New(cfg openai.Config) (*Provider, error) {
	backend, catalogue, err := cfg.Open()
	if err != nil {
		return nil, err
	}
	return &Provider{name: cmp.Or(cfg.Name, DefaultName), backend: backend, catalogue: catalogue}, nil
}

// Name returns the configured name.
func (p *Provider) Name() string { return p.name }

// Models lists what the backend lists; see wire.Catalogue.
func (p *Provider) Models(ctx context.Context, credential ports.Confidential) ([]ports.Model, error) {
	return p.catalogue.Models(ctx, credential)
}

// Close closes the connections that no request uses, unless the client was given.
func (p *Provider) Close() { p.backend.Close() }
