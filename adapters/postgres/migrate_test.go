package postgres_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
	"github.com/keel-agent/keel/adapters/sqlstore"
)

func pending(all []sqlstore.Migration) []sqlstore.Migration {
	return slices.DeleteFunc(slices.Clone(all), func(m sqlstore.Migration) bool { return !m.AppliedAt.IsZero() })
}

func TestMigrateAppliesEachMigrationOnce(t *testing.T) {
	url := postgrestest.Schema(t)
	before, err := postgres.Status(t.Context(), url)
	if err != nil || len(before.Migrations) == 0 || len(pending(before.Migrations)) != len(before.Migrations) {
		t.Fatalf("status of an empty schema: %v, error %v", before, err)
	}
	applied, err := postgres.Migrate(t.Context(), url)
	if err != nil || len(applied.Migrations) != len(before.Migrations) {
		t.Fatalf("applied %v of %v, error %v", applied, before, err)
	}
	again, err := postgres.Migrate(t.Context(), url)
	if err != nil || len(again.Migrations) != 0 {
		t.Fatalf("applied again: %v, error %v", again, err)
	}
	after, err := postgres.Status(t.Context(), url)
	if err != nil || len(after.Migrations) != len(before.Migrations) || len(pending(after.Migrations)) != 0 {
		t.Fatalf("status afterwards: %v, error %v", after, err)
	}
}

func TestMigrateBySeveralProcessesAtOnce(t *testing.T) {
	url := postgrestest.Database(t, "")
	var mu sync.Mutex
	var applied []sqlstore.Migration
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			got, err := postgres.Migrate(t.Context(), url)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			applied = append(applied, got.Migrations...)
		})
	}
	group.Wait()
	all, err := postgres.Status(t.Context(), url)
	if err != nil || len(applied) != len(all.Migrations) || len(pending(all.Migrations)) != 0 {
		t.Fatalf("all of them applied %v, status %v, error %v", applied, all, err)
	}
}

func TestMigrateReportsAnUnreachableServer(t *testing.T) {
	if _, err := postgres.Migrate(t.Context(), "postgres://keel@127.0.0.1:1/keel?connect_timeout=2"); err == nil {
		t.Fatal("no error")
	}
}
