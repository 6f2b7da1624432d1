package app

import (
	"context"
	"errors"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/sqlite"
	"github.com/keel-agent/keel/adapters/sqlstore"
)

var errNoSchema = errors.New("--store memory: has no schema")

// Migrate brings the schema of the configured store up to date and returns what it applied.
func Migrate(ctx context.Context, c Config) ([]sqlstore.Migration, error) {
	kind, path, err := c.storeScheme()
	switch {
	case err != nil:
		return nil, err
	case kind == storePostgres:
		return postgres.Migrate(ctx, c.Store)
	case kind == storeSQLite:
		return sqlite.Migrate(ctx, path)
	}
	return nil, errNoSchema
}

// MigrationStatus returns the migrations of the configured store, applied and pending.
func MigrationStatus(ctx context.Context, c Config) ([]sqlstore.Migration, error) {
	kind, path, err := c.storeScheme()
	switch {
	case err != nil:
		return nil, err
	case kind == storePostgres:
		return postgres.Status(ctx, c.Store)
	case kind == storeSQLite:
		return sqlite.Status(ctx, path)
	}
	return nil, errNoSchema
}
