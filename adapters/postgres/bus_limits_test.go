package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keel-agent/keel/adapters/bus"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// busOf returns a bus that is not started yet, and its log.
func busOf(t *testing.T) (*Bus, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.WarnLevel)
	b, err := newBus(BusConfig{URL: server(t), Logger: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	return b, logs
}

func connect(t *testing.T, b *Bus) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), b.conn.Copy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeNow(conn) })
	return conn
}

// K39, 1: maxPayload is the server's own limit, to the byte.
func TestServerTakesTheLargestPayload(t *testing.T) {
	b, _ := busOf(t)
	conn := connect(t, b)
	var channel string
	if err := conn.QueryRow(t.Context(), "SELECT "+channelName).Scan(&channel); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "LISTEN "+channel); err != nil {
		t.Fatal(err)
	}
	largest := strings.Repeat("x", maxPayload)
	if _, err := conn.Exec(t.Context(), "SELECT pg_notify($1, $2)", channel, largest); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if n.Payload == largest {
			break
		}
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_notify($1, $2)", channel, largest+"x"); err == nil {
		t.Error("the server takes more than maxPayload")
	}
}

// K39, 1: what a bus packs to the limit, the server takes: as many wake-ups as go into one payload, and the longest text.
func TestServerTakesWhatTheBusPacks(t *testing.T) {
	b, _ := busOf(t)
	conn := connect(t, b)
	for i := range bus.MaxWaiting {
		b.Committed(ports.Commit{Wake: domain.Wake{Owner: fmt.Sprint(i)}})
	}
	if err := b.send(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	ref := domain.SessionRef{Tenant: "t", Session: "s"}
	b.interest.heard(func(yield func(bus.Digest) bool) { yield(bus.DigestOf(ports.Topic{Session: ref})) })
	largest := 0
	for n := maxPayload - 300; n < maxPayload; n++ {
		p := ports.Partial{Ref: ref, GenerationID: "g", Delta: ports.Delta{Text: strings.Repeat("x", n)}}
		b.relay.Publish(p)
		for _, frame := range b.relay.Take() {
			largest = max(largest, headLength+len(frame.To)+len(frame.Text))
		}
		b.relay.Publish(p)
		if err := b.send(t.Context(), conn); err != nil {
			t.Fatalf("a text of %d bytes: %v", n, err)
		}
	}
	if largest != maxPayload {
		t.Errorf("the largest payload has %d bytes", largest)
	}
}

// Wake-ups that come within the gap behind a notification go together, each topic once.
func TestWakeupsAreCoalesced(t *testing.T) {
	b, _ := busOf(t)
	conn := connect(t, b)
	var channel string
	if err := conn.QueryRow(t.Context(), "SELECT "+channelName).Scan(&channel); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "LISTEN "+channel); err != nil {
		t.Fatal(err)
	}
	b.gap = time.Second
	b.start()
	defer b.Close()
	// wake returns the topics of the next notification of b that wakes, none when there is none for so long.
	wake := func(within time.Duration) (n int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		for {
			got, err := conn.WaitForNotification(ctx)
			if err != nil {
				return 0
			}
			if body, ok := strings.CutPrefix(got.Payload, b.head(wakeKind)); ok {
				return len(body) / bus.DigestLength
			}
		}
	}
	b.Committed(ports.Commit{Wake: domain.Wake{Owner: "first"}})
	if n := wake(10 * time.Second); n != 1 {
		t.Fatalf("%d topics at first", n)
	}
	const topics = 20
	for i := range 50 * topics {
		b.Committed(ports.Commit{Wake: domain.Wake{Owner: fmt.Sprint(i % topics)}})
		if i < topics { // far enough apart for a notification each
			time.Sleep(5 * time.Millisecond)
		}
	}
	if n := wake(10 * time.Second); n != topics {
		t.Errorf("the next notification has %d topics of %d", n, topics)
	}
	if n := wake(3 * b.gap); n != 0 {
		t.Errorf("another one has %d", n)
	}
}

// K39, 4: a queue of the server that fills up, because somebody listens and stays in a transaction, is warned of, also
// while notifications come in all the time; none is while there is room.
func TestFullQueueIsWarnedOf(t *testing.T) {
	b, logs := busOf(t)
	conn, holder := connect(t, b), connect(t, b)
	exec := func(c *pgx.Conn, sql string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	usage := func() (used float64) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), "SELECT pg_notification_queue_usage()").Scan(&used); err != nil {
			t.Fatal(err)
		}
		return used
	}
	for _, sql := range []string{"LISTEN held", "BEGIN", "SELECT 1"} {
		exec(holder, sql)
	}
	fill := func(n int) {
		exec(conn, fmt.Sprintf("SELECT pg_notify('held', repeat('x', 7900) || g) FROM generate_series(1, %d) AS g", n))
	}
	fill(50)
	if usage() == 0 {
		t.Fatal("nothing holds the queue")
	}
	b.pingEvery = 300 * time.Millisecond
	b.fullQueue = usage() + 0.0002 // of 8 GB
	if err := b.ping(t.Context(), conn); err != nil || logs.Len() != 0 {
		t.Fatalf("error %v, warnings %v", err, logs.All())
	}
	fill(500)
	if used := usage(); used <= b.fullQueue {
		t.Fatalf("the queue is filled to %v alone", used)
	}
	b.start()
	defer b.Close()
	const full = "the server's notification queue fills up"
	for deadline := time.Now().Add(10 * time.Second); logs.Filter(func(e observer.LoggedEntry) bool { return strings.HasPrefix(e.Message, full) }).Len() == 0; {
		if time.Now().After(deadline) {
			t.Fatalf("no warning: %v", logs.All())
		}
		exec(conn, "SELECT pg_notify("+channelName+", 'a stranger')")
	}
}
