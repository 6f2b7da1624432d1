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
	applied, err := app.Migrate(context.Background(), app.Config{Store: m.Store})
	for _, a := range applied {
		fmt.Printf("applied %d %s\n", a.Version, a.Name)
	}
	if err == nil && len(applied) == 0 {
		fmt.Println("the schema is up to date")
	}
	return err
}

type migrateStatusCmd struct{ storeFlags }

func (m *migrateStatusCmd) Run() error {
	all, err := app.MigrationStatus(context.Background(), app.Config{Store: m.Store})
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VERSION\tNAME\tAPPLIED")
	for _, a := range all {
		fmt.Fprintf(w, "%d\t%s\t%s\n", a.Version, a.Name, appliedAt(a))
	}
	return w.Flush()
}

func appliedAt(m sqlstore.Migration) string {
	if m.AppliedAt.IsZero() {
		return "pending"
	}
	return m.AppliedAt.Format(time.RFC3339)
}
