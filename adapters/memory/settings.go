package memory

import (
	"context"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Settings is the Store as ports.Settings.
type Settings struct{ store *Store }

// Settings returns the store's settings.
func (s *Store) Settings() Settings { return Settings{s} }

type settingKey struct{ tenant, name string }

// Get implements ports.Settings.
func (p Settings) Get(ctx context.Context, tenant, name string) (found ports.Setting, err error) {
	err = p.store.locked(ctx, func(s *Store) error {
		var ok bool
		if found, ok = s.settings[settingKey{tenant, name}]; !ok {
			return domain.ErrNotFound
		}
		return nil
	})
	return found, err
}

// Put implements ports.Settings.
func (p Settings) Put(ctx context.Context, tenant, name, document string, expected int64) (next ports.Setting, err error) {
	key := settingKey{tenant, name}
	err = p.store.locked(ctx, func(s *Store) (err error) {
		if next, err = s.settings[key].Next(document, expected); err == nil {
			s.settings[key] = next
		}
		return err
	})
	return next, err
}
