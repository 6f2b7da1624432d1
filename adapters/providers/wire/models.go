package wire

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/keel-agent/keel/ports"
)

// Catalogue knows the models of a backend. It is safe for concurrent use.
type Catalogue struct {
	Default string                                                       // the configured model, "" for none
	Backend *Backend                                                     // of the provider itself
	List    func(ctx context.Context, b *Backend) ([]ports.Model, error) // asks the backend

	KeyHeader, KeyScheme string // where a tenant's credential stands; see Backend.As

	first atomic.Pointer[string] // of the list, where no model is configured
}

// Models lists what the backend lists for a credential, the configured model first even if the backend keeps it to
// itself. A backend without such a list (404, 405) has that one model, or none. No error tells the credential.
func (c *Catalogue) Models(ctx context.Context, credential ports.Confidential) ([]ports.Model, error) {
	b, err := c.Backend.As(c.KeyHeader, c.KeyScheme, credential)
	if err != nil {
		return nil, err
	}
	models, err := c.models(ctx, b)
	return models, b.Redact(err)
}

func (c *Catalogue) models(ctx context.Context, b *Backend) ([]ports.Model, error) {
	found, err := c.List(ctx, b)
	if fault := (*ports.ProviderError)(nil); errors.As(err, &fault) && (fault.Status == http.StatusNotFound || fault.Status == http.StatusMethodNotAllowed) {
		found, err = nil, nil
	}
	if err != nil || c.Default == "" {
		return found, err
	}
	first := ports.Model{ID: c.Default}
	if i := slices.IndexFunc(found, func(m ports.Model) bool { return m.ID == c.Default }); i >= 0 {
		first = found[i]
		found = slices.Delete(found, i, i+1)
	}
	return slices.Insert(found, 0, first), nil
}

// DefaultModel returns the configured model, or the first one that the backend lists for whoever asks as b. What it lists
// for the provider itself is asked once.
func (c *Catalogue) DefaultModel(ctx context.Context, b *Backend) (string, error) {
	if c.Default != "" {
		return c.Default, nil
	}
	if id := c.first.Load(); id != nil && b == c.Backend {
		return *id, nil
	}
	models, err := c.models(ctx, b)
	if err != nil {
		return "", err
	}
	if len(models) == 0 {
		return "", &ports.ProviderError{Class: ports.Fatal, Code: "no_model", Message: "no model is configured, and the backend lists none"}
	}
	if b == c.Backend {
		c.first.Store(&models[0].ID)
	}
	return models[0].ID, nil
}
