package sqlite

import (
	"bytes"
	"context"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// secrets implements ports.Secrets.
type secrets struct{ s *Store }

// Secrets returns the store's ports.Secrets.
func (s *Store) Secrets() ports.Secrets { return secrets{s} }

var secretColumns = sqlstore.Names((&sqlstore.SecretRow{}).Fields())

var (
	knownSecretText = "SELECT 1 FROM secrets WHERE tenant_id = ?1 AND name = ?2"
	putSecretText   = "INSERT INTO secrets (" + secretColumns + ") VALUES (?1, ?2, ?3, ?4, ?5, ?6)" +
		" ON CONFLICT (tenant_id, name) DO UPDATE SET key_id = excluded.key_id, sealed = excluded.sealed, updated_at = excluded.updated_at"
	secretText       = "SELECT " + secretColumns + " FROM secrets WHERE tenant_id = ?1 AND name = ?2"
	listSecretsText  = "SELECT " + secretColumns + " FROM secrets WHERE tenant_id = ?1 AND name > ?2 ORDER BY name LIMIT ?3"
	allSecretsText   = "SELECT " + secretColumns + " FROM secrets WHERE (tenant_id, name) > (?1, ?2) ORDER BY tenant_id, name LIMIT ?3"
	deleteSecretText = "DELETE FROM secrets WHERE tenant_id = ?1 AND name = ?2"
	resealText       = "UPDATE secrets SET key_id = ?5, sealed = ?6 WHERE tenant_id = ?1 AND name = ?2 AND key_id = ?3 AND sealed = ?4"
)

// Put implements ports.Secrets.
func (p secrets) Put(ctx context.Context, s ports.SealedSecret) (created bool, err error) {
	err = p.s.writing(ctx, func(t tx) (bool, error) {
		created = true
		var one int
		err := each(t, knownSecretText, []any{s.Tenant, s.Name}, []any{&one}, func() error {
			created = false
			return nil
		})
		if err == nil {
			_, err = t.exec(putSecretText, sqlstore.Values(sqlstore.NewSecretRow(s).Fields())...)
		}
		return true, err
	}, nil)
	return created, err
}

// Get implements ports.Secrets.
func (p secrets) Get(ctx context.Context, tenant, name string) (ports.SealedSecret, error) {
	found, err := p.rows(ctx, secretText, tenant, name)
	if err != nil {
		return ports.SealedSecret{}, err
	}
	if len(found) == 0 {
		return ports.SealedSecret{}, domain.ErrNotFound
	}
	return found[0], nil
}

// List implements ports.Secrets.
func (p secrets) List(ctx context.Context, tenant, after string, limit int) ([]ports.SealedSecret, error) {
	found, err := p.rows(ctx, listSecretsText, tenant, after, max(limit, 0))
	for i := range found {
		found[i].Sealed = nil
	}
	return found, err
}

// All implements ports.Secrets.
func (p secrets) All(ctx context.Context, tenant, after string, limit int) ([]ports.SealedSecret, error) {
	return p.rows(ctx, allSecretsText, tenant, after, max(limit, 0))
}

func (p secrets) rows(ctx context.Context, text string, args ...any) (found []ports.SealedSecret, err error) {
	err = p.s.reading(ctx, func(q querier) error {
		var row sqlstore.SecretRow
		return each(q, text, args, sqlstore.Dests(nil, row.Fields()), func() error {
			secret := row.Secret()
			secret.Sealed = bytes.Clone(row.Sealed)
			found = append(found, secret)
			return nil
		})
	})
	return found, err
}

// Delete implements ports.Secrets.
func (p secrets) Delete(ctx context.Context, tenant, name string) error {
	return p.s.writing(ctx, func(t tx) (bool, error) {
		_, err := t.exec(deleteSecretText, tenant, name)
		return true, err
	}, nil)
}

// Reseal implements ports.Secrets.
func (p secrets) Reseal(ctx context.Context, s, next ports.SealedSecret) (done bool, err error) {
	err = p.s.writing(ctx, func(t tx) (bool, error) {
		n, err := t.exec(resealText, s.Tenant, s.Name, s.KeyID, s.Sealed, next.KeyID, next.Sealed)
		done = n > 0
		return done, err
	}, nil)
	return done && err == nil, err
}
