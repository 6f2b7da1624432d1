package sqlstore

import (
	"context"
	"database/sql"
	"embed"
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

// migrationsTable keeps which migrations were applied.
const migrationsTable = "keel_migrations"

// Migrate brings the schema of db up to date and returns the migrations that it applied; none when there was nothing
// to do. Each runs in a transaction of its own. On Postgres an advisory lock lets one caller at a time migrate, the
// others wait up to five minutes for it; one connection of db is enough. Afterwards the planner's statistics are new.
func Migrate(ctx context.Context, db *sql.DB, d Dialect) ([]Migration, error) {
	p, err := provider(db, d)
	if err != nil {
		return nil, err
	}
	results, err := p.Up(ctx)
	var applied []Migration
	for _, r := range results {
		applied = append(applied, Migration{Version: r.Source.Version, Name: r.Source.Path, AppliedAt: time.Now().UTC()})
	}
	if err != nil {
		return applied, fmt.Errorf("migrate: %w", err)
	}
	if len(applied) > 0 {
		for _, table := range []string{"sessions", "events", "runs", "processes", "tool_calls", "settings", "secrets"} {
			if _, err := db.ExecContext(ctx, "ANALYZE "+table); err != nil {
				return applied, fmt.Errorf("analyze after migration: %w", err)
			}
		}
	}
	return applied, nil
}

// Status returns all migrations in order, applied or pending. It changes no table of the store; on Postgres it may
// create the one that records migrations.
func Status(ctx context.Context, db *sql.DB, d Dialect) ([]Migration, error) {
	p, err := provider(db, d)
	if err != nil {
		return nil, err
	}
	if d == SQLite {
		recorded := false
		const text = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?)"
		if err := db.QueryRowContext(ctx, text, migrationsTable).Scan(&recorded); err != nil {
			return nil, fmt.Errorf("migration status: %w", err)
		}
		if !recorded {
			return pending(p.ListSources()), nil
		}
	}
	states, err := p.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("migration status: %w", err)
	}
	all := make([]Migration, 0, len(states))
	for _, s := range states {
		m := Migration{Version: s.Source.Version, Name: s.Source.Path}
		if s.State == goose.StateApplied {
			m.AppliedAt = s.AppliedAt.UTC()
		}
		all = append(all, m)
	}
	return all, nil
}

func pending(sources []*goose.Source) []Migration {
	all := make([]Migration, 0, len(sources))
	for _, s := range sources {
		all = append(all, Migration{Version: s.Version, Name: s.Path})
	}
	return all
}

func provider(db *sql.DB, d Dialect) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations/"+string(d))
	if err != nil {
		return nil, err
	}
	options := []goose.ProviderOption{goose.WithTableName(migrationsTable), goose.WithDisableGlobalRegistry(true)}
	dialect := goose.DialectSQLite3
	if d == Postgres {
		dialect = goose.DialectPostgres
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
		if err != nil {
			return nil, err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	return goose.NewProvider(dialect, db, files, options...)
}
