package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ErrUnsafe is returned by Open for a server that may lose committed events or cannot hold all text.
var ErrUnsafe = errors.New("unsafe Postgres settings")

// durability lists the settings, beside server_encoding, that must not be off.
var durability = []string{"fsync", "full_page_writes", "synchronous_commit"}

// checkServer reads the settings as the store's own connections have them.
func (s *Store) checkServer(ctx context.Context, allowUnsafe bool) error {
	settings := make(map[string]string, len(durability)+1)
	err := s.read(ctx, func(ctx context.Context, q querier) error {
		names := append([]string{"server_encoding"}, durability...)
		rows, err := q.Query(ctx, "SELECT name, setting FROM pg_settings WHERE name = ANY($1::text[])", names)
		if err != nil {
			return err
		}
		var name, value string
		_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
			settings[name] = value
			return nil
		})
		return err
	})
	if err != nil || allowUnsafe {
		return err
	}
	return checkSettings(settings)
}

// checkSettings returns an error that wraps ErrUnsafe and names the first setting at fault.
func checkSettings(settings map[string]string) error {
	for _, name := range durability {
		if settings[name] == "off" {
			return fmt.Errorf("%w: %s is off, so a crash can lose committed events; turn it on, or start with "+
				"--allow-unsafe-postgres", ErrUnsafe, name)
		}
	}
	if enc := settings["server_encoding"]; enc != "UTF8" {
		return fmt.Errorf("%w: server_encoding is %s, so not every text can be stored; create the database with "+
			"ENCODING 'UTF8', or start with --allow-unsafe-postgres", ErrUnsafe, enc)
	}
	return nil
}
