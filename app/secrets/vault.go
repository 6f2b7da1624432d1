package secrets

import (
	"context"
	"errors"
	"fmt"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Limits of secrets.
const (
	MaxName  = 128      // characters
	MaxValue = 64 << 10 // bytes
)

// Vault keeps the secrets of tenants in a store, sealed. Its methods are safe for concurrent use.
type Vault struct {
	store ports.Secrets
	keys  *Keyring
	clock ports.Clock
	cache cache
}

var _ ports.Vault = (*Vault)(nil)

// New returns the vault of a store.
func New(store ports.Secrets, keys *Keyring, clock ports.Clock) *Vault {
	return &Vault{store: store, keys: keys, clock: clock}
}

// Put stores value under a name, in place of what was there, and reports whether nothing was. It returns
// domain.ErrInvalidRequest for a name or a value that cannot be, and domain.ErrPayloadTooLarge.
func (v *Vault) Put(ctx context.Context, tenant, name, value string) (created bool, err error) {
	if err := checkName(name); err != nil {
		return false, err
	}
	switch {
	case value == "":
		return false, domain.ErrInvalidRequest.At("value").With("must not be empty; DELETE removes a secret")
	case len(value) > MaxValue:
		return false, domain.ErrPayloadTooLarge.At("value").With(fmt.Sprintf("a secret has at most %d bytes", MaxValue))
	}
	now := domain.Millis(v.clock.Now())
	created, err = v.store.Put(ctx, v.keys.seal(ports.SealedSecret{
		Tenant: tenant, Name: name, CreatedAt: now, UpdatedAt: now,
	}, value))
	v.cache.forget(tenant, name) // whatever became of it
	return created, err
}

func checkName(name string) error {
	if !plain(name, MaxName) {
		return domain.ErrInvalidRequest.At("name").With(fmt.Sprintf(
			"must have 1 to %d ASCII letters, digits, dots, dashes and underscores, and begin with a letter or a digit", MaxName))
	}
	return nil
}

// List returns the tenant's secrets after a name, by name, without what is sealed.
func (v *Vault) List(ctx context.Context, tenant, after string, limit int) ([]ports.SealedSecret, error) {
	return v.store.List(ctx, tenant, after, limit)
}

// Delete removes a secret; one that is not there is as good as removed.
func (v *Vault) Delete(ctx context.Context, tenant, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	err := v.store.Delete(ctx, tenant, name)
	v.cache.forget(tenant, name)
	return err
}

// Reveal returns the value of a secret, for whoever acts for the tenant. It returns domain.ErrNotFound, a
// *KeyMissingError or an error that wraps ErrBroken. What another process has changed is seen within Staleness.
func (v *Vault) Reveal(ctx context.Context, tenant, name string) (ports.Confidential, error) {
	now := v.clock.Now()
	value, turn, ok := v.cache.get(tenant, name, now)
	if !ok {
		sealed, err := v.store.Get(ctx, tenant, name)
		if err == nil {
			value, err = v.keys.open(sealed)
		}
		if err != nil && !errors.Is(err, domain.ErrNotFound) {
			return ports.Confidential{}, err
		}
		v.cache.put(tenant, name, value, now, turn)
	}
	if !value.Given() {
		return ports.Confidential{}, domain.ErrNotFound
	}
	return value, nil
}

// Credential returns the tenant's own API key of a provider, the secret PROVIDER.api_key; none when there is none. The
// error is one of Reveal.
func (v *Vault) Credential(ctx context.Context, tenant, provider string) (ports.Confidential, error) {
	key, err := v.Reveal(ctx, tenant, provider+".api_key")
	if errors.Is(err, domain.ErrNotFound) {
		err = nil
	}
	return key, err
}
