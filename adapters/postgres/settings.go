package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// settings implements ports.Settings.
type settings struct{ s *Store }

// Settings returns the store's ports.Settings.
func (s *Store) Settings() ports.Settings { return settings{s} }

const (
	settingText = "SELECT document, revision FROM settings WHERE tenant_id = $1::text AND name = $2::text"
	// putSettingText writes a revision if the one before it is the latest.
	putSettingText = "INSERT INTO settings AS s (tenant_id, name, document, revision) VALUES ($1::text, $2::text, $3::text, $4::bigint)" +
		" ON CONFLICT (tenant_id, name) DO UPDATE SET document = excluded.document, revision = excluded.revision" +
		" WHERE s.revision = excluded.revision - 1"
)

// Get implements ports.Settings.
func (p settings) Get(ctx context.Context, tenant, name string) (found ports.Setting, err error) {
	if !sqlstore.Storable(tenant) || !sqlstore.Storable(name) {
		return ports.Setting{}, domain.ErrNotFound
	}
	err = p.s.read(ctx, func(ctx context.Context, q querier) error {
		if found, err = readSetting(ctx, q, tenant, name); err == nil && found.Revision == 0 {
			err = domain.ErrNotFound
		}
		return err
	})
	return found, err
}

// Put implements ports.Settings. When a reply gets lost, the retry finds the document that it stored itself.
func (p settings) Put(ctx context.Context, tenant, name, document string, expected int64) (next ports.Setting, err error) {
	if !sqlstore.Storable(tenant) || !sqlstore.Storable(name) || !sqlstore.Storable(document) {
		return ports.Setting{}, sqlstore.ErrUnstorable
	}
	err = p.s.retry(ctx, func(ctx context.Context, conn *pgxpool.Conn) (bool, error) {
		have, err := readSetting(ctx, conn, tenant, name)
		if err != nil {
			return false, err
		}
		if next, err = have.Next(document, expected); err != nil || next == have {
			return false, err
		}
		tag, err := conn.Exec(ctx, putSettingText, tenant, name, next.Document, next.Revision)
		if err == nil && tag.RowsAffected() == 0 {
			err = errMoved
		}
		return true, err
	})
	if err != nil {
		return ports.Setting{}, err
	}
	return next, nil
}

// readSetting returns the zero Setting when there is none.
func readSetting(ctx context.Context, q querier, tenant, name string) (found ports.Setting, err error) {
	rows, err := q.Query(ctx, settingText, tenant, name)
	if err != nil {
		return ports.Setting{}, err
	}
	found, err = pgx.CollectOneRow(rows, func(row pgx.CollectableRow) (s ports.Setting, err error) {
		err = row.Scan(&s.Document, &s.Revision)
		return s, err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return found, err
}
