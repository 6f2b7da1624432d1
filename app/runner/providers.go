package runner

import (
	"fmt"
	"slices"

	"github.com/keel-agent/keel/ports"
)

// Providers finds a provider by its name.
type Providers struct {
	all []ports.Provider
}

// NewProviders returns the set of all, the default first. It returns an error when there is none, or when two share a
// name.
func NewProviders(all ...ports.Provider) (*Providers, error) {
	if len(all) == 0 {
		return nil, fmt.Errorf("no provider is configured")
	}
	p := &Providers{all: all}
	names := p.names()
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("two providers are named %q", name)
		}
	}
	return p, nil
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

// names returns the names of all, the default first.
func (p *Providers) names() []string {
	var names []string
	for _, each := range p.all {
		names = append(names, each.Name())
	}
	return names
}
