package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Models finds what a turn asks for in the catalogue of its tenant.
type Models interface {
	// Resolve returns what model stands for ("" is the tenant's default) and what holds where a turn does not choose.
	// The model's provider is one of the runner's. It returns domain.ErrUnknownModel when there is no such model.
	Resolve(ctx context.Context, tenant, model string) (domain.Model, domain.ModelDefaults, error)
}

// anyModel is the catalogue of a Runner that is given none: whatever is asked for is left to the provider to refuse.
type anyModel struct{ providers *Providers }

func (m anyModel) Resolve(_ context.Context, _, model string) (domain.Model, domain.ModelDefaults, error) {
	provider, name := m.providers.Resolve(model)
	return domain.Model{Provider: provider.Name(), Name: name}, domain.ModelDefaults{}, nil
}

// model returns the model that answers under c, and completes c by the tenant's defaults. What was there when the input
// was accepted and is no more fails the run for good.
func (a *attempt) model(c *choices) (domain.Model, error) {
	var defaults domain.ModelDefaults
	m, err := retried(a, func(ctx context.Context) (m domain.Model, err error) {
		m, defaults, err = a.r.Models.Resolve(ctx, a.ref.Tenant, cmp.Or(c.Model, a.claim.Session.Model))
		return m, err
	})
	if err == nil {
		c.Selection = defaults.Apply(c.Selection, m)
		err = m.Check(c.Selection)
	}
	if refusal, ok := errors.AsType[*domain.Error](err); ok {
		return m, permanent{fmt.Errorf("the turn cannot have what was chosen for it: %w", refusal)}
	}
	return m, err
}

// replyCost returns what a reply cost that m was asked for, nil when that is not known. What a provider chose by itself
// has the prices of the model that it names.
func (a *attempt) replyCost(m domain.Model, reply ports.Reply) *domain.Cost {
	if m.Name == "" && m.ID == "" && reply.Model != "" && reply.Usage != nil {
		m = a.named(m.Provider, reply.Model, m)
	}
	return m.Prices.Cost(reply.Usage)
}

// named returns the model of a provider as the tenant's catalogue knows it, else otherwise.
func (a *attempt) named(provider, model string, otherwise domain.Model) domain.Model {
	if m, _, err := a.r.Models.Resolve(a.lease.ctx, a.ref.Tenant, provider+"/"+model); err == nil {
		return m
	}
	return otherwise
}

// messages are those of the context of p that m can read, with no more old images than a request may carry.
func (a *attempt) messages(m domain.Model, p domain.Presented) []domain.Message {
	a.t.ShowTo(m.Provider + "/" + m.Name)
	if !m.Takes(domain.ModalityImage) {
		return domain.WithoutImages(a.t.Context(p))
	}
	for a.t.ImageBytes(p) > a.r.cfg.ImageBytes && a.t.LeaveOutImages() {
	}
	return a.t.Context(p)
}
