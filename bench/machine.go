package main

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/jackc/pgx/v5"
)

// facts says what the run ran on, without names of hosts or paths.
func (b *bench) facts(ctx context.Context) []string {
	facts := []string{
		fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()),
	}
	if version := postgresVersion(ctx); version != "" {
		facts = append(facts, fmt.Sprintf("Postgres %s with fsync, full_page_writes and synchronous_commit on, at most %d connections for each side", version, b.conns))
	}
	if version := sqliteVersion(ctx, b); version != "" {
		facts = append(facts, "SQLite "+version)
	}
	return facts
}

func postgresVersion(ctx context.Context) (version string) {
	conn, err := pgx.Connect(ctx, os.Getenv(urlVariable))
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close(ctx) }()
	if conn.QueryRow(ctx, "SHOW server_version").Scan(&version) != nil {
		return ""
	}
	return version
}
