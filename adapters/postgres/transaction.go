package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	beginText = "begin"

	// silentText makes the server end a transaction whose process falls silent in the middle of it. A process that is
	// frozen, or whose connection only seems to be there, would else keep its locks for hours.
	silentText = "set local idle_in_transaction_session_timeout = '5s'"
)

// begin starts a transaction that takes locks and holds them from one round trip to the next.
func begin(ctx context.Context, conn *pgxpool.Conn) (pgx.Tx, error) {
	return conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginText + "; " + silentText})
}

// rollback ends a transaction, if there is one.
func rollback(ctx context.Context, conn *pgxpool.Conn) error {
	if conn.Conn().IsClosed() || conn.Conn().PgConn().TxStatus() == 'I' {
		return nil
	}
	end, cancel := committing(ctx)
	defer cancel()
	_, err := conn.Exec(end, "rollback")
	return err
}
