package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"
)

// fullQueue is the share of the server's notification queue in use that is worth a warning.
const fullQueue = 0.5

// listen holds one LISTEN connection until it fails. Whatever was committed before it listened may have been missed, so
// it wakes every subscription first.
func (b *Bus) listen(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, b.conn.Copy())
	if err != nil {
		return busAdvice(err)
	}
	defer closeNow(conn)
	if err := b.bounded(ctx, func(ctx context.Context) error {
		if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
			return err
		}
		return b.warnOfPooler(ctx, conn)
	}); err != nil {
		return err
	}
	b.hub.WakeAll()
	for {
		wait, cancel := context.WithTimeout(ctx, b.pingEvery)
		n, err := conn.WaitForNotification(wait)
		cancel()
		switch {
		case err == nil:
			b.received(n.Payload)
		case ctx.Err() != nil || !pgconn.Timeout(err) || conn.IsClosed():
			return err
		default:
			if err := b.ping(ctx, conn); err != nil {
				return err
			}
		}
	}
}

// errBusPooler is what a pooler in transaction mode does to a bus.
var errBusPooler = errors.New("a pooler stands before Postgres: unless it pools whole sessions, wake-ups from other " +
	"processes are lost and their readers wait for the poll; --bus-url gives LISTEN a direct connection")

// warnOfPooler looks for a pooler, which makes up process ids. Whether it pools sessions, so that LISTEN works, or
// transactions, does not show.
func (b *Bus) warnOfPooler(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid)
	if err == nil && pid != conn.PgConn().PID() {
		b.log.Warn("wake-ups may be lost", zap.Error(errBusPooler))
	}
	return err
}

// busAdvice adds to the refusal of a startup parameter, which only poolers utter, what helps.
func busAdvice(err error) error {
	var server *pgconn.PgError
	if errors.As(err, &server) && server.Code == "08P01" {
		return fmt.Errorf("%w: %w", errBusPooler, err)
	}
	return err
}

// ping finds out whether a silent connection still works, and how full the server's queue is.
func (b *Bus) ping(ctx context.Context, conn *pgx.Conn) error {
	return b.bounded(ctx, func(ctx context.Context) error {
		var used float64
		err := conn.QueryRow(ctx, "SELECT pg_notification_queue_usage()").Scan(&used)
		if used > fullQueue {
			b.log.Warn("the server's notification queue fills up: some connection listens but stays in a transaction",
				zap.Float64("used", used))
		}
		return err
	})
}

func (b *Bus) bounded(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, b.pingTimeout)
	defer cancel()
	return f(ctx)
}

// received wakes those whom a payload names.
func (b *Bus) received(payload string) {
	from, tokens, ok := strings.Cut(payload, ":")
	if !ok || from == b.self {
		return
	}
	if tokens == everyone {
		b.hub.WakeAll()
		return
	}
	for ; len(tokens) >= tokenLength; tokens = tokens[tokenLength:] {
		b.wake(token(tokens[:tokenLength]))
	}
}

// closeNow ends a connection that may be broken, without waiting for the other side.
func closeNow(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
