package sqlite

import (
	"context"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// settings implements ports.Settings.
type settings struct{ s *Store }

// Settings returns the store's ports.Settings.
func (s *Store) Settings() ports.Settings { return settings{s} }

const (
	settingText    = "SELECT document, revision FROM settings WHERE tenant_id = ?1 AND name = ?2"
	putSettingText = "INSERT INTO settings (tenant_id, name, document, revision) VALUES (?1, ?2, ?3, ?4)" +
		" ON CONFLICT (tenant_id, name) DO UPDATE SET document = excluded.document, revision = excluded.revision"
)

// Get implements ports.Settings.
func (p settings) Get(ctx context.Context, tenant, name string) (found ports.Setting, err error) {
	err = p.s.reading(ctx, func(q querier) error {
		if found, err = readSetting(q, tenant, name); err == nil && found.Revision == 0 {
			err = domain.ErrNotFound
		}
		return err
	})
	return found, err
}

// Put implements ports.Settings.
func (p settings) Put(ctx context.Context, tenant, name, document string, expected int64) (next ports.Setting, err error) {
	if !sqlstore.Storable(tenant) || !sqlstore.Storable(name) || !sqlstore.Storable(document) {
		return ports.Setting{}, sqlstore.ErrUnstorable
	}
	err = p.s.writing(ctx, func(t tx) (write bool, err error) {
		have, err := readSetting(t, tenant, name)
		if err != nil {
			return false, err
		}
		if next, err = have.Next(document, expected); err != nil || next == have {
			return false, err
		}
		_, err = t.exec(putSettingText, tenant, name, next.Document, next.Revision)
		return true, err
	}, nil)
	if err != nil {
		return ports.Setting{}, err
	}
	return next, nil
}

// readSetting returns the zero Setting when there is none.
func readSetting(q querier, tenant, name string) (found ports.Setting, err error) {
	err = each(q, settingText, []any{tenant, name}, []any{&found.Document, &found.Revision}, func() error { return nil })
	return found, err
}
