package runner

import (
	"context"

	"github.com/keel-agent/keel/ports"
)

// Credentials knows the credentials that tenants have brought for providers.
type Credentials interface {
	// Credential returns the tenant's own credential for a provider, none when there is none. It returns
	// ports.ErrUnavailable while that cannot be known.
	Credential(ctx context.Context, tenant, provider string) (ports.Confidential, error)
}

// credential returns the credential of the attempt's tenant for a provider. One that there is but cannot be read fails the
// attempt: nobody else's takes its place, and another process may have the key that opens it.
func (a *attempt) credential(provider string) (ports.Confidential, error) {
	if a.r.Credentials == nil {
		return ports.Confidential{}, nil
	}
	return retried(a, func(ctx context.Context) (ports.Confidential, error) {
		return a.r.Credentials.Credential(ctx, a.ref.Tenant, provider)
	})
}
