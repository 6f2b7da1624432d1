package service

import (
	"context"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Secrets keeps the secrets of tenants and never gives one back. Its errors are those of domain and ports.
type Secrets interface {
	Put(ctx context.Context, tenant, name, value string) (created bool, err error)
	List(ctx context.Context, tenant, after string, limit int) ([]ports.SealedSecret, error)
	Delete(ctx context.Context, tenant, name string) error
}

// PutSecret stores {value} under a name, in place of what was there, and reports whether nothing was. Without a key it
// returns ErrSecretsUnavailable, as the others do.
func (s *Service) PutSecret(ctx context.Context, tenant, name string, request domain.Payload) (created bool, err error) {
	if s.secrets == nil {
		return false, domain.ErrSecretsUnavailable
	}
	b, err := parseBody(request)
	if err != nil {
		return false, err
	}
	if !b.given("value") {
		return false, domain.ErrInvalidRequest.At("value").With("is missing")
	}
	value, err := b.text("value")
	if err != nil {
		return false, err
	}
	return s.secrets.Put(ctx, tenant, name, value)
}

// ListSecrets returns a page of the tenant's secrets by name, without their values.
func (s *Service) ListSecrets(ctx context.Context, tenant, cursor string, limit int) ([]ports.SealedSecret, string, error) {
	if s.secrets == nil {
		return nil, "", domain.ErrSecretsUnavailable
	}
	after := ""
	if cursor != "" {
		p, err := decodePosition(cursor, secretsList)
		if err != nil {
			return nil, "", err
		}
		after = p.ID
	}
	size := pageSize(limit, secretsPageDefault, secretsPageMax)
	list, err := s.secrets.List(ctx, tenant, after, size+1)
	if err != nil || len(list) <= size {
		return list, "", err
	}
	return list[:size], position{List: secretsList, ID: list[size-1].Name}.encode(), nil
}

// DeleteSecret removes a secret. One that is not there is as good as removed.
func (s *Service) DeleteSecret(ctx context.Context, tenant, name string) error {
	if s.secrets == nil {
		return domain.ErrSecretsUnavailable
	}
	return s.secrets.Delete(ctx, tenant, name)
}
