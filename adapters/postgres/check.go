package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrUnsafe is returned by Open for a server that may lose committed events or cannot hold all text.
var ErrUnsafe = errors.New("unsafe Postgres settings")

// durability lists the settings, beside server_encoding, that must not be off.
var durability = []string{"fsync", "full_page_writes", "synchronous_commit"}

// ErrPooler is returned by Open when the URL leads through a pooler that the query execution mode does not work with.
var ErrPooler = errors.New("a pooler stands before Postgres; set default_query_exec_mode=exec in the URL")

// checkServer reads the settings as the store's own connections have them.
func (s *Store) checkServer(ctx context.Context, allowUnsafe bool) error {
	settings := make(map[string]string, len(durability)+1)
	err := s.retry(ctx, func(ctx context.Context, conn *pgxpool.Conn) (bool, error) {
		if err := checkPooler(ctx, conn.Conn()); err != nil {
			return false, err
		}
		names := append([]string{"server_encoding"}, durability...)
		rows, err := conn.Query(ctx, "SELECT name, setting FROM pg_settings WHERE name = ANY($1::text[])", names)
		if err != nil {
			return false, err
		}
		var name, value string
		_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
			settings[name] = value
			return nil
		})
		return false, err
	})
	var server *pgconn.PgError
	if errors.As(err, &server) && server.Code == "08P01" {
		return fmt.Errorf("%w: %w", ErrPooler, err)
	}
	if err != nil || allowUnsafe {
		return err
	}
	return checkSettings(settings)
}

// checkPooler refuses the one mode that prepares a statement in one round trip and runs it in the next, where a pooler
// may give each to another server connection. A pooler shows by the process id that it makes up.
func checkPooler(ctx context.Context, conn *pgx.Conn) error {
	if conn.Config().DefaultQueryExecMode != pgx.QueryExecModeDescribeExec {
		return nil
	}
	var pid uint32
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid)
	if err == nil && pid != conn.PgConn().PID() {
		err = fmt.Errorf("%w: describe_exec needs a connection of its own", ErrPooler)
	}
	return err
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
