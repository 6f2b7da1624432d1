package main

import (
	"context"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/app"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Apply the migrations that are missing. keel serve does it by itself at its start."`
	Status migrateStatusCmd `cmd:"" help:"List the migrations, applied and pending."`
}

type storeFlags struct {
	Store string `help:"sqlite:PATH or postgres://…" default:"sqlite:keel.db" env:"KEEL_STORE"`
}

type migrateUpCmd struct{ storeFlags }

func (m *migrateUpCmd) Run() error {
	schema, err := app.Migrate(context.Background(), app.Config{Store: m.Store})
	for _, a := range schema.Migrations {
		fmt.Printf("applied %d %s\n", a.Version, a.Name)
	}
	switch {
	case err != nil:
		return err
	case schema.Newer():
		fmt.Printf("nothing to apply: the schema is at %d, of a newer version of keel; this one knows %d\n", schema.Version, schema.Known)
	case len(schema.Migrations) == 0:
		fmt.Println("the schema is up to date")
	}
	return nil
}

type migrateStatusCmd struct{ storeFlags }

func (m *migrateStatusCmd) Run() error {
	schema, err := app.MigrationStatus(context.Background(), app.Config{Store: m.Store})
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VERSION\tNAME\tAPPLIED")
	for _, a := range schema.Migrations {
		fmt.Fprintf(w, "%d\t%s\t%s\n", a.Version, a.Name, appliedAt(a))
	}
	if schema.Newer() {
		fmt.Fprintf(w, "%d\t(of a newer version of keel)\tapplied\n", schema.Version)
	}
	return w.Flush()
}

func appliedAt(m sqlstore.Migration) string {
	if m.AppliedAt.IsZero() {
		return "pending"
	}
	return m.AppliedAt.Format(time.RFC3339)
}
