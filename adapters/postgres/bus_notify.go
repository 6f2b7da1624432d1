package postgres

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

const (
	// maxPayload is what pg_notify accepts: fewer than 8,000 bytes.
	maxPayload = 7_999

	// maxWaiting is how many topics may wait to be sent before they become one call to everyone.
	maxWaiting = 4_096

	// everyone in place of tokens wakes all subscriptions of all processes.
	everyone = "*"
)

// newSelf returns a mark that no other process has.
func newSelf() string { return rand.Text()[:8] }

// notify holds one connection and sends what the outbox collects: at once when nothing was sent lately, else after the
// gap, together with all that came meanwhile. What it failed to send is sent by the next connection.
func (b *Bus) notify(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, b.conn.Copy())
	if err != nil {
		return busAdvice(err)
	}
	defer closeNow(conn)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.out.filled:
		}
		waiting := b.out.take()
		err := b.bounded(ctx, func(ctx context.Context) error {
			_, err := conn.Exec(ctx, "SELECT pg_notify($1::text, p) FROM unnest($2::text[]) AS p", channel, payloads(b.self, waiting))
			return err
		})
		if err != nil {
			b.out.putBack(waiting)
			return err
		}
		sleep(ctx, b.gap)
	}
}

// payloads packs tokens into as few payloads as the server's limit allows.
func payloads(self string, waiting map[token]struct{}) []string {
	if _, all := waiting[everyone]; all {
		return []string{self + ":" + everyone}
	}
	var packed []string
	var b strings.Builder
	for t := range waiting {
		if b.Len()+tokenLength > maxPayload {
			packed = append(packed, b.String())
			b.Reset()
		}
		if b.Len() == 0 {
			b.WriteString(self + ":")
		}
		b.WriteString(string(t))
	}
	if b.Len() > 0 {
		packed = append(packed, b.String())
	}
	return packed
}

// outbox collects the topics to be told of.
type outbox struct {
	filled chan struct{} // holds a token while something waits

	mu      sync.Mutex
	waiting map[token]struct{}
}

func newOutbox() *outbox {
	return &outbox{filled: make(chan struct{}, 1), waiting: make(map[token]struct{})}
}

func (o *outbox) add(t token) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(t)
}

// put adds t; it needs the lock.
func (o *outbox) put(t token) {
	if len(o.waiting) >= maxWaiting || t == everyone {
		clear(o.waiting)
		t = everyone
	}
	if _, all := o.waiting[everyone]; !all {
		o.waiting[t] = struct{}{}
	}
	select {
	case o.filled <- struct{}{}:
	default:
	}
}

func (o *outbox) take() map[token]struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.waiting
	o.waiting = make(map[token]struct{})
	return taken
}

func (o *outbox) putBack(tokens map[token]struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for t := range tokens {
		o.put(t)
	}
}
