package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations
var migrations embed.FS

// Dialect is the SQL that a database speaks.
type Dialect string

// The dialects.
const (
	SQLite   Dialect = "sqlite"
	Postgres Dialect = "postgres"
)

// Migration is one step of the schema's history.
type Migration struct {
	Version   int64
	Name      string
	AppliedAt time.Time // zero while pending
}

// Schema is how far a database has come in the history of its schema.
type Schema struct {
	Migrations []Migration
	Version    int64 // the newest migration that was applied, 0 when none was
	Known      int64 // the newest one that this program has
}

// Newer reports whether a newer program has migrated the database.
func (s Schema) Newer() bool { return s.Version > s.Known }

// ErrTooNew is returned for a schema that this program must not work with.
var ErrTooNew = errors.New("a newer version of keel has changed the schema so that this one cannot read it")

// generation is how many versions of migrations go on working side by side: programs ignore what later migrations of
// their own thousand have added. The first of the next thousand is one that older programs must not work with.
const generation = 1000

// Readable returns ErrTooNew when s is of a later generation than this program.
func (s Schema) Readable() error {
	if s.Version/generation <= s.Known/generation {
		return nil
	}
	return fmt.Errorf("%w (schema %d, this version knows %d): install the newer one, or restore a backup made before", ErrTooNew, s.Version, s.Known)
}

// migrationsTable keeps which migrations were applied.
const migrationsTable = "keel_migrations"

// Migrate brings the schema of db up to date and returns it with the migrations that it applied; none when there was
// nothing to do, as when the schema is newer than this program. It returns ErrTooNew for one that is too new to be worked
// with. Each migration runs in a transaction of its own. On Postgres an advisory lock lets one caller at a time migrate, the
// others wait up to five minutes for it; one connection of db is enough. Afterwards the planner's statistics are new.
func Migrate(ctx context.Context, db *sql.DB, d Dialect) (Schema, error) {
	var s Schema
	options, err := exclusively(d)
	if err != nil {
		return s, err
	}
	p, err := provider(db, d, options...)
	if err != nil {
		return s, err
	}
	results, err := p.Up(ctx)
	for _, r := range results {
		s.Migrations = append(s.Migrations, Migration{Version: r.Source.Version, Name: r.Source.Path, AppliedAt: time.Now().UTC()})
	}
	if err == nil {
		s.Version, s.Known, err = p.GetVersions(ctx)
	}
	if err != nil {
		return s, fmt.Errorf("migrate: %w", err)
	}
	if len(s.Migrations) > 0 {
		for _, table := range []string{"sessions", "events", "runs", "processes", "tool_calls", "settings", "secrets"} {
			if _, err := db.ExecContext(ctx, "ANALYZE "+table); err != nil {
				return s, fmt.Errorf("analyze after migration: %w", err)
			}
		}
	}
	return s, s.Readable()
}

// Status returns the schema with all migrations of this program in order, applied or pending. It changes nothing.
func Status(ctx context.Context, db *sql.DB, d Dialect) (Schema, error) {
	p, err := provider(db, d)
	if err != nil {
		return Schema{}, err
	}
	s, err := status(ctx, db, p, recorded[d])
	if err != nil {
		return Schema{}, fmt.Errorf("migration status: %w", err)
	}
	return s, nil
}

// recorded asks whether there is the table that the parameter names. goose would make it.
var recorded = map[Dialect]string{
	SQLite:   "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = $1)",
	Postgres: "SELECT to_regclass($1) IS NOT NULL",
}

func status(ctx context.Context, db *sql.DB, p *goose.Provider, recorded string) (s Schema, err error) {
	there := false
	if err := db.QueryRowContext(ctx, recorded, migrationsTable).Scan(&there); err != nil {
		return s, err
	}
	if !there {
		for _, source := range p.ListSources() {
			s.Migrations = append(s.Migrations, Migration{Version: source.Version, Name: source.Path})
			s.Known = source.Version
		}
		return s, nil
	}
	states, err := p.Status(ctx)
	if err != nil {
		return s, err
	}
	for _, state := range states {
		m := Migration{Version: state.Source.Version, Name: state.Source.Path}
		if state.State == goose.StateApplied {
			m.AppliedAt = state.AppliedAt.UTC()
		}
		s.Migrations = append(s.Migrations, m)
	}
	s.Version, s.Known, err = p.GetVersions(ctx)
	return s, err
}

// exclusively makes callers of one database wait for each other. SQLite's wait for the writer's lock as it is.
func exclusively(d Dialect) ([]goose.ProviderOption, error) {
	if d != Postgres {
		return nil, nil
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
	if err != nil {
		return nil, err
	}
	return []goose.ProviderOption{goose.WithSessionLocker(locker)}, nil
}

func provider(db *sql.DB, d Dialect, options ...goose.ProviderOption) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations/"+string(d))
	if err != nil {
		return nil, err
	}
	options = append(options, goose.WithTableName(migrationsTable), goose.WithDisableGlobalRegistry(true))
	dialect := goose.DialectSQLite3
	if d == Postgres {
		dialect = goose.DialectPostgres
	}
	return goose.NewProvider(dialect, db, files, options...)
}
