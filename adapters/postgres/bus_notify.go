package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// notify holds one connection and sends what is collected: at once when nothing was sent lately, else after the gap,
// together with all that came meanwhile. The wake-ups and the interest that it failed to send are sent by the next
// connection; frames are lost.
func (b *Bus) notify(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, b.conn.Copy())
	if err != nil {
		return busAdvice(err)
	}
	defer closeNow(conn)
	announce := time.NewTicker(b.announceEvery)
	defer announce.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.wakeups.Outbox().Filled():
		case <-b.interest.filled:
		case <-b.relay.Filled():
		case <-announce.C:
			b.interest.announce(b.relay.Heard()...)
		}
		if err := b.send(ctx, conn); err != nil {
			return err
		}
		sleep(ctx, b.gap)
	}
}

// send sends all that waits, what wakes first.
func (b *Bus) send(ctx context.Context, conn *pgx.Conn) error {
	wake := b.wakeups.Outbox().Take()
	wanted, asks := b.interest.take()
	batch := append(payloads(b.head(wakeKind), wake), payloads(b.head(interestKind), wanted)...)
	if asks {
		batch = append(batch, b.head(askKind))
	}
	for _, frame := range b.relay.Take() {
		batch = append(batch, b.head(partialKind)+string(frame.To)+string(frame.Text))
	}
	if len(batch) == 0 {
		return nil
	}
	err := b.bounded(ctx, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, "SELECT pg_notify("+channelName+", p) FROM unnest($1::text[]) AS p", batch)
		return err
	})
	if err != nil {
		b.wakeups.Outbox().PutBack(wake)
		b.interest.putBack(wanted, asks)
	}
	return err
}

func (b *Bus) head(kind byte) string { return b.self + string(kind) }
