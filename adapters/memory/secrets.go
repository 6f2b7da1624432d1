package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Secrets is the Store as ports.Secrets.
type Secrets struct{ store *Store }

// Secrets returns the store's secrets.
func (s *Store) Secrets() Secrets { return Secrets{s} }

type secretKey struct{ tenant, name string }

func keyOf(s ports.SealedSecret) secretKey { return secretKey{s.Tenant, s.Name} }

// Put implements ports.Secrets.
func (p Secrets) Put(ctx context.Context, secret ports.SealedSecret) (created bool, err error) {
	err = p.store.locked(ctx, func(s *Store) error {
		was, ok := s.secrets[keyOf(secret)]
		if created = !ok; ok {
			secret.CreatedAt = was.CreatedAt
		}
		s.putSecret(secret)
		return nil
	})
	return created, err
}

func (s *Store) putSecret(secret ports.SealedSecret) {
	secret.Sealed = bytes.Clone(secret.Sealed)
	s.secrets[keyOf(secret)] = secret
}

// Get implements ports.Secrets.
func (p Secrets) Get(ctx context.Context, tenant, name string) (found ports.SealedSecret, err error) {
	err = p.store.locked(ctx, func(s *Store) error {
		var ok bool
		if found, ok = s.secrets[secretKey{tenant, name}]; !ok {
			return domain.ErrNotFound
		}
		found.Sealed = bytes.Clone(found.Sealed)
		return nil
	})
	return found, err
}

// List implements ports.Secrets.
func (p Secrets) List(ctx context.Context, tenant, after string, limit int) ([]ports.SealedSecret, error) {
	found, err := p.page(ctx, limit, func(s ports.SealedSecret) bool { return s.Tenant == tenant && s.Name > after })
	for i := range found {
		found[i].Sealed = nil
	}
	return found, err
}

// All implements ports.Secrets.
func (p Secrets) All(ctx context.Context, tenant, after string, limit int) ([]ports.SealedSecret, error) {
	return p.page(ctx, limit, func(s ports.SealedSecret) bool {
		return cmp.Or(cmp.Compare(s.Tenant, tenant), cmp.Compare(s.Name, after)) > 0
	})
}

func (p Secrets) page(ctx context.Context, limit int, wanted func(ports.SealedSecret) bool) (found []ports.SealedSecret, err error) {
	err = p.store.locked(ctx, func(s *Store) error {
		for _, secret := range s.secrets {
			if wanted(secret) {
				secret.Sealed = bytes.Clone(secret.Sealed)
				found = append(found, secret)
			}
		}
		return nil
	})
	slices.SortFunc(found, func(a, b ports.SealedSecret) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Name, b.Name))
	})
	return found[:min(max(limit, 0), len(found))], err
}

// Delete implements ports.Secrets.
func (p Secrets) Delete(ctx context.Context, tenant, name string) error {
	return p.store.locked(ctx, func(s *Store) error {
		delete(s.secrets, secretKey{tenant, name})
		return nil
	})
}

// Reseal implements ports.Secrets.
func (p Secrets) Reseal(ctx context.Context, secret, next ports.SealedSecret) (done bool, err error) {
	err = p.store.locked(ctx, func(s *Store) error {
		was, ok := s.secrets[keyOf(secret)]
		if done = ok && was.KeyID == secret.KeyID && bytes.Equal(was.Sealed, secret.Sealed); done {
			was.KeyID, was.Sealed = next.KeyID, next.Sealed
			s.putSecret(was)
		}
		return nil
	})
	return done, err
}
