package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/bus"
)

// listen holds one LISTEN connection until it fails. Whatever was said before it listened may have been missed, so it
// wakes every subscription first, and exchanges with the others who wants which partials.
func (b *Bus) listen(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, b.conn.Copy())
	if err != nil {
		return busAdvice(err)
	}
	defer closeNow(conn)
	if err := b.bounded(ctx, func(ctx context.Context) error {
		var channel string
		if err := conn.QueryRow(ctx, "SELECT "+channelName).Scan(&channel); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			return err
		}
		return b.warnOfPooler(ctx, conn)
	}); err != nil {
		return err
	}
	b.wakeups.WakeAll()
	b.interest.listens(true)
	defer b.interest.listens(false)
	b.interest.announce(b.relay.Heard()...)
	for ping := time.Now().Add(b.pingEvery); ; {
		wait, cancel := context.WithDeadline(ctx, ping)
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
			ping = time.Now().Add(b.pingEvery)
		}
	}
}

// errBusPooler is what a pooler in transaction mode does to a bus.
var errBusPooler = errors.New("a pooler stands before Postgres: unless it pools whole sessions, wake-ups from other " +
	"processes are lost and their readers wait for the poll; --direct-url gives LISTEN a direct connection")

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

// ping finds out whether the connection still works, which may just be silent, and how full the server's queue is, which
// may be while much is heard.
func (b *Bus) ping(ctx context.Context, conn *pgx.Conn) error {
	return b.bounded(ctx, func(ctx context.Context) error {
		var used float64
		err := conn.QueryRow(ctx, "SELECT pg_notification_queue_usage()").Scan(&used)
		if used > b.fullQueue {
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

// received acts on a notification. What a stranger says on the channel harms nothing.
func (b *Bus) received(payload string) {
	if len(payload) < headLength || payload[:selfLength] == b.self {
		return
	}
	kind, body := payload[selfLength], payload[headLength:]
	switch {
	case kind == wakeKind && body == string(bus.Everyone):
		b.wakeups.WakeAll()
	case kind == wakeKind:
		for d := range digests(body) {
			b.wakeups.Received(d)
		}
	case kind == interestKind:
		b.interest.heard(digests(body))
	case kind == askKind:
		b.interest.announce(b.relay.Heard()...)
	case kind == partialKind && len(body) > bus.DigestLength:
		b.relay.Received(bus.Digest(body[:bus.DigestLength]), []byte(body[bus.DigestLength:]))
	}
}

// closeNow ends a connection that may be broken, without waiting for the other side.
func closeNow(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
