package sqlstore

import "github.com/keel-agent/keel/ports"

// SecretRow is a row of secrets.
type SecretRow struct {
	Tenant    string
	Name      string
	KeyID     string
	Sealed    []byte
	CreatedAt int64
	UpdatedAt int64
}

// Fields returns the columns in their order.
func (r *SecretRow) Fields() []Field {
	return []Field{
		{"tenant_id", &r.Tenant}, {"name", &r.Name}, {"key_id", &r.KeyID}, {"sealed", &r.Sealed},
		{"created_at", &r.CreatedAt}, {"updated_at", &r.UpdatedAt},
	}
}

// NewSecretRow returns the row of a secret.
func NewSecretRow(s ports.SealedSecret) *SecretRow {
	return &SecretRow{
		Tenant: s.Tenant, Name: s.Name, KeyID: s.KeyID, Sealed: s.Sealed,
		CreatedAt: s.CreatedAt.UnixMilli(), UpdatedAt: s.UpdatedAt.UnixMilli(),
	}
}

// Secret is the inverse of NewSecretRow. What is sealed is the row's own.
func (r *SecretRow) Secret() ports.SealedSecret {
	return ports.SealedSecret{
		Tenant: r.Tenant, Name: r.Name, KeyID: r.KeyID, Sealed: r.Sealed,
		CreatedAt: moment(&r.CreatedAt), UpdatedAt: moment(&r.UpdatedAt),
	}
}
