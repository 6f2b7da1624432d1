package app

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/sqlite"
	"github.com/keel-agent/keel/adapters/sqlstore"
)

var errNoSchema = errors.New("--store memory: has no schema")

// Migrate brings the schema of the configured store up to date and returns it with what was applied.
func Migrate(ctx context.Context, c Config) (sqlstore.Schema, error) {
	kind, path, err := c.storeScheme()
	switch {
	case err != nil:
		return sqlstore.Schema{}, err
	case kind == storePostgres:
		return postgres.Migrate(ctx, c.Store)
	case kind == storeSQLite:
		return sqlite.Migrate(ctx, path)
	}
	return sqlstore.Schema{}, errNoSchema
}

// MigrationStatus returns the schema of the configured store with the migrations, applied and pending. It changes nothing.
func MigrationStatus(ctx context.Context, c Config) (sqlstore.Schema, error) {
	kind, path, err := c.storeScheme()
	switch {
	case err != nil:
		return sqlstore.Schema{}, err
	case kind == storePostgres:
		return postgres.Status(ctx, c.Store)
	case kind == storeSQLite:
		return sqlite.Status(ctx, path)
	}
	return sqlstore.Schema{}, errNoSchema
}

// checkSchema returns an error when this program must not work with the schema of the configured store.
func checkSchema(ctx context.Context, c Config) error {
	schema, err := MigrationStatus(ctx, c)
	if err != nil {
		return err
	}
	return schema.Readable()
}

// warnOfNewer tells when a newer program has migrated the store.
func warnOfNewer(s sqlstore.Schema, log *zap.Logger) {
	if s.Newer() {
		log.Warn("a newer version of keel has migrated the store; this one works with it, and does without what was added",
			zap.Int64("schema", s.Version), zap.Int64("this version knows", s.Known))
	}
}
