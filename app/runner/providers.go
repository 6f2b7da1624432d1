package runner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/keel-agent/keel/ports"
)

// Providers finds the provider of a model.
type Providers struct {
	all []ports.Provider
}

// NewProviders returns the set of all, the default first. It returns an error when there is none, or when two share a
// name.
func NewProviders(all ...ports.Provider) (*Providers, error) {
	if len(all) == 0 {
		return nil, fmt.Errorf("no provider is configured")
	}
	var names []string
	for _, p := range all {
		if slices.Contains(names, p.Name()) {
			return nil, fmt.Errorf("two providers are named %q", p.Name())
		}
		names = append(names, p.Name())
	}
	return &Providers{all: all}, nil
}

// Resolve returns the provider of model and the name that the provider knows it by: "provider/model" or "provider"
// for a named one, anything else goes to the default provider as it is.
func (p *Providers) Resolve(model string) (ports.Provider, string) {
	name, rest, _ := strings.Cut(model, "/")
	for _, candidate := range p.all {
		if candidate.Name() == name {
			return candidate, rest
		}
	}
	return p.all[0], model
}

// Named returns the provider of a name, the default one when there is none.
func (p *Providers) Named(name string) ports.Provider {
	for _, candidate := range p.all {
		if candidate.Name() == name {
			return candidate
		}
	}
	return p.all[0]
}

// All returns the providers, the default first.
func (p *Providers) All() []ports.Provider { return slices.Clone(p.all) }
