package openai

import (
	"cmp"
	"sync"
	"sync/atomic"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

const defaultName = "openai"

// Provider generates answers at one backend of the Chat Completions wire.
type Provider struct {
	name      string
	backend   *wire.Backend
	catalogue *wire.Catalogue

	noStreamOptions  atomic.Bool // the backend refuses stream_options
	completionTokens sync.Map    // models that want max_completion_tokens in place of max_tokens
	noTemperature    sync.Map    // models that refuse a temperature
}

var _ ports.Provider = (*Provider)(nil)

// New returns a provider. It returns an error when the base URL is not one of HTTP, or a header is malformed.
func New(cfg Config) (*Provider, error) {
	backend, catalogue, err := cfg.Open()
	if err != nil {
		return nil, err
	}
	return &Provider{name: cmp.Or(cfg.Name, defaultName), backend: backend, catalogue: catalogue}, nil
}

// Name returns the configured name.
func (p *Provider) Name() string { return p.name }

// Close closes the connections that no request uses, unless the client was given.
func (p *Provider) Close() { p.backend.Close() }
