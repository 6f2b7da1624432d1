package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/jackc/pgx/v5"
)

// Identity returns what all who use the same ledgers share and no others do, by whatever address they reach them: a short
// token of letters and digits that stands for the server, the database and the schema.
func Identity(ctx context.Context, url string) (string, error) {
	cfg, err := parseConn(url)
	if err != nil {
		return "", err
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return "", err
	}
	defer closeNow(conn)
	var names string
	err = conn.QueryRow(ctx, `SELECT jsonb_build_array((SELECT system_identifier FROM pg_control_system()), current_database(),
		current_schema())::text`).Scan(&names)
	sum := sha256.Sum256([]byte(names))
	return hex.EncodeToString(sum[:8]), err
}
