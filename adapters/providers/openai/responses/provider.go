package responses

import (
	"sync"

	"github.com/keel-agent/keel/adapters/providers/openai"
	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

// DefaultName is the provider's name in events unless the configuration gives another.
const DefaultName = "openai-responses"

// Provider generates answers at one backend of the Responses wire.
type Provider struct {
	*wire.Client

	refused sync.Map // true by refusal: what a model is not asked again
}

var _ ports.Provider = (*Provider)(nil)

// New returns a provider. It returns an error when the base URL is not one of HTTP, or a header is malformed.
func New(cfg openai.Config) (*Provider, error) {
	client, err := cfg.Client(DefaultName)
	if err != nil {
		return nil, err
	}
	return &Provider{Client: client}, nil
}
