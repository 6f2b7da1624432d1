package postgres

import (
	"bytes"
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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
	// putSecretText returns whether the row is new: nothing has locked or replaced it.
	putSecretText = "INSERT INTO secrets (" + secretColumns + ")" +
		" VALUES ($1::text, $2::text, $3::text, $4::bytea, $5::bigint, $6::bigint) ON CONFLICT (tenant_id, name)" +
		" DO UPDATE SET key_id = excluded.key_id, sealed = excluded.sealed, updated_at = excluded.updated_at RETURNING xmax = 0"
	secretText      = "SELECT " + secretColumns + " FROM secrets WHERE tenant_id = $1::text AND name = $2::text"
	listSecretsText = "SELECT " + secretColumns + " FROM secrets WHERE tenant_id = $1::text AND name > $2::text" +
		" ORDER BY name LIMIT $3::bigint"
	allSecretsText = "SELECT " + secretColumns + " FROM secrets WHERE (tenant_id, name) > ($1::text, $2::text)" +
		" ORDER BY tenant_id, name LIMIT $3::bigint"
	deleteSecretText = "DELETE FROM secrets WHERE tenant_id = $1::text AND name = $2::text"
	resealText       = "UPDATE secrets SET key_id = $5::text, sealed = $6::bytea" +
		" WHERE tenant_id = $1::text AND name = $2::text AND key_id = $3::text AND sealed = $4::bytea"
)

// Put implements ports.Secrets. When a reply gets lost, the retry finds the secret that it stored itself.
func (p secrets) Put(ctx context.Context, s ports.SealedSecret) (created bool, err error) {
	err = p.s.retry(ctx, func(ctx context.Context, conn *pgxpool.Conn) (bool, error) {
		row := conn.QueryRow(ctx, putSecretText, sqlstore.Values(sqlstore.NewSecretRow(s).Fields())...)
		return true, row.Scan(&created)
	})
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
	found, err := p.rows(ctx, listSecretsText, tenant, after, int64(max(limit, 0)))
	for i := range found {
		found[i].Sealed = nil
	}
	return found, err
}

// All implements ports.Secrets.
func (p secrets) All(ctx context.Context, tenant, after string, limit int) ([]ports.SealedSecret, error) {
	return p.rows(ctx, allSecretsText, tenant, after, int64(max(limit, 0)))
}

func (p secrets) rows(ctx context.Context, text string, args ...any) (found []ports.SealedSecret, err error) {
	err = p.s.read(ctx, func(ctx context.Context, q querier) error {
		found = nil
		rows, err := q.Query(ctx, text, args...)
		if err != nil {
			return err
		}
		var row sqlstore.SecretRow
		_, err = pgx.ForEachRow(rows, sqlstore.Dests(nil, row.Fields()), func() error {
			secret := row.Secret()
			secret.Sealed = bytes.Clone(row.Sealed)
			found = append(found, secret)
			return nil
		})
		return err
	})
	return found, err
}

// Delete implements ports.Secrets.
func (p secrets) Delete(ctx context.Context, tenant, name string) error {
	_, err := p.exec(ctx, deleteSecretText, tenant, name)
	return err
}

// Reseal implements ports.Secrets. When a reply gets lost, the retry reports that it did nothing.
func (p secrets) Reseal(ctx context.Context, s, next ports.SealedSecret) (bool, error) {
	n, err := p.exec(ctx, resealText, s.Tenant, s.Name, s.KeyID, s.Sealed, next.KeyID, next.Sealed)
	return n > 0, err
}

func (p secrets) exec(ctx context.Context, text string, args ...any) (rows int64, err error) {
	err = p.s.retry(ctx, func(ctx context.Context, conn *pgxpool.Conn) (bool, error) {
		tag, err := conn.Exec(ctx, text, args...)
		rows = tag.RowsAffected()
		return true, err
	})
	return rows, err
}
