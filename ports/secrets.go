package ports

import (
	"context"
	"time"
)

// Secrets keeps sealed secrets, one for each tenant and name. It cannot read them.
type Secrets interface {
	// Put stores a secret in place of whatever has its name, and reports whether there was nothing. CreatedAt stays that
	// of the first.
	Put(ctx context.Context, s SealedSecret) (created bool, err error)

	// Get returns a secret, or domain.ErrNotFound.
	Get(ctx context.Context, tenant, name string) (SealedSecret, error)

	// List returns the tenant's secrets after a name, by name in the order of bytes, at most limit, without what is
	// sealed.
	List(ctx context.Context, tenant, after string, limit int) ([]SealedSecret, error)

	// Delete removes a secret. One that is not there is as good as removed.
	Delete(ctx context.Context, tenant, name string) error

	// All returns the secrets of all tenants after a tenant and a name, ordered by both, at most limit.
	All(ctx context.Context, tenant, after string, limit int) ([]SealedSecret, error)

	// Reseal stores next in place of s, another sealing of the same value under another key, and reports whether it did:
	// not when s is no longer what is stored. The times stay.
	Reseal(ctx context.Context, s, next SealedSecret) (done bool, err error)
}

// Vault opens the secrets of tenants, for whoever acts for one.
type Vault interface {
	// Reveal returns the value of a tenant's secret. It returns domain.ErrNotFound when there is none of that name, and
	// ErrUnavailable while that cannot be known. Any other error says why the secret cannot be opened, and nothing of
	// its value. A value is not kept for later calls: the next one may return another.
	Reveal(ctx context.Context, tenant, name string) (Confidential, error)
}

// SealedSecret is a secret that only the holder of a key can open. Tenants and names are text that every store keeps:
// valid UTF-8 without U+0000.
type SealedSecret struct {
	Tenant    string
	Name      string
	KeyID     string // names the key
	Sealed    []byte
	CreatedAt time.Time // times in whole milliseconds, UTC
	UpdatedAt time.Time
}

// Confidential is a text that no log and no document shows: what prints, encodes or compares it sees a pointer at most.
// The zero value holds none.
type Confidential struct{ text *string }

// NewConfidential returns text as a Confidential.
func NewConfidential(text string) Confidential { return Confidential{&text} }

// Reveal returns the text, "" of the zero value.
func (c Confidential) Reveal() string {
	if c.text == nil {
		return ""
	}
	return *c.text
}

// Given reports whether c holds a text.
func (c Confidential) Given() bool { return c.text != nil }

// String returns a mark in place of the text.
func (Confidential) String() string { return "[redacted]" }

// GoString returns a mark in place of the text.
func (Confidential) GoString() string { return "[redacted]" }

// MarshalText returns a mark in place of the text.
func (Confidential) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }
