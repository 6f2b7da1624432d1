// Package nats carries wake-ups and partials between processes over a NATS server, for deployments in which Postgres'
// own notifications are too many.
package nats

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/bus"
	"github.com/keel-agent/keel/ports"
)

var (
	_ ports.Wakeups  = (*Bus)(nil)
	_ ports.Notifier = (*Bus)(nil)
)

const (
	gap         = 3 * time.Millisecond // between two batches, for what comes in between
	sendTimeout = 5 * time.Second
	retryAfter  = 100 * time.Millisecond

	// maxText keeps a frame well below the largest message that a server accepts by default, 1 MiB.
	maxText = 64 << 10

	// maxReceived is how many frames wait for this process before further ones are dropped.
	maxReceived = 4_096
)

// Bus carries wake-ups and partials between all processes of a scope: within the process at once, to the others over
// core NATS, coalesced. Its subjects are keel.SCOPE.wake.DIGEST and keel.SCOPE.partial.DIGEST. What it carries are
// hints: when its connection fails it reconnects for ever and then wakes every subscription.
type Bus struct {
	wakeups  *bus.Wakeups
	relay    *bus.Relay
	sessions *sessions
	conn     *nats.Conn
	log      *zap.Logger

	wakePrefix, partialPrefix string

	stop context.CancelFunc
	done sync.WaitGroup
}

// Config says how to reach the server.
type Config struct {
	// URL is one or more addresses, separated by commas; their schemes are nats, tls, ws or wss. They may hold
	// credentials.
	URL string

	// Credentials is a file with a user's JWT and key; "" means none.
	Credentials string

	// Scope keeps apart those who share a server and not a database. It is a subject token: no dots, blanks or
	// wildcards.
	Scope string

	// Logger may be nil.
	Logger *zap.Logger
}

// Open starts a bus. It connects in the background and needs no server yet; it fails only for a malformed configuration.
// The caller closes it.
func Open(cfg Config) (*Bus, error) {
	if cfg.Scope == "" || strings.ContainsAny(cfg.Scope, ". \t\r\n*>") {
		return nil, errors.New("nats: the scope is no subject token")
	}
	known := newSessions()
	b := &Bus{
		wakeups: bus.NewWakeups(), relay: bus.NewRelay(known, maxText), sessions: known, log: cfg.Logger,
		wakePrefix: "keel." + cfg.Scope + ".wake.", partialPrefix: "keel." + cfg.Scope + ".partial.",
	}
	if b.log == nil {
		b.log = zap.NewNop()
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.stop = cancel
	if err := b.connect(ctx, cfg); err != nil {
		cancel()
		return nil, err
	}
	return b, nil
}

// connect leaves a connection that is made again for ever, and starts who uses it.
func (b *Bus) connect(ctx context.Context, cfg Config) error {
	subscribed := make(chan struct{})
	defer close(subscribed)
	options := []nats.Option{
		nats.Name("keel"), nats.NoEcho(), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(500 * time.Millisecond), nats.ReconnectBufSize(-1), // what is not sent now is kept here
		nats.PingInterval(15 * time.Second), nats.MaxPingsOutstanding(1), nats.FlusherTimeout(sendTimeout),
		nats.ConnectHandler(func(conn *nats.Conn) {
			<-subscribed
			b.arrived(conn)
		}),
		nats.ReconnectHandler(b.arrived), nats.ErrorHandler(b.failed),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if ctx.Err() == nil {
				b.log.Warn("disconnected", zap.Error(err))
			}
		}),
	}
	if cfg.Credentials != "" {
		options = append(options, nats.UserCredentials(cfg.Credentials))
	}
	conn, err := nats.Connect(cfg.URL, options...)
	if err != nil {
		return err
	}
	b.conn = conn
	if _, err := conn.Subscribe(b.wakePrefix+"*", b.woken); err != nil {
		conn.Close()
		return err
	}
	frames := make(chan *nats.Msg, maxReceived)
	b.done.Go(func() { b.receive(ctx, frames) })
	b.done.Go(func() { b.send(ctx, frames) })
	return nil
}

// Close stops the bus and waits for its work to end. Subscriptions stay, but are woken only from within the process.
func (b *Bus) Close() {
	b.stop()
	b.conn.Close()
	b.done.Wait()
}

// Committed implements ports.Notifier. It never blocks.
func (b *Bus) Committed(c ports.Commit) { b.wakeups.Committed(c) }

// Subscribe implements ports.Wakeups.
func (b *Bus) Subscribe(t ports.Topic) (wake <-chan struct{}, cancel func()) {
	return b.wakeups.Subscribe(t)
}

// Partials returns the token-level frames that the bus carries.
func (b *Bus) Partials() ports.Partials { return b.relay }

// arrived is called when a connection was made. What was said before the server knew its subscriptions may have been
// missed.
func (b *Bus) arrived(conn *nats.Conn) {
	if err := conn.FlushTimeout(sendTimeout); err != nil {
		return // it is broken again
	}
	b.wakeups.WakeAll()
	b.log.Info("connected", zap.String("server", conn.ConnectedAddr()))
}

// failed hears of errors beside the calls, of messages among others that came faster than they were taken.
func (b *Bus) failed(_ *nats.Conn, sub *nats.Subscription, err error) {
	if sub != nil && strings.HasPrefix(sub.Subject, b.partialPrefix) {
		b.log.Debug("partials dropped", zap.Error(err))
		return
	}
	b.log.Warn("bus error", zap.Error(err))
	if errors.Is(err, nats.ErrSlowConsumer) {
		b.wakeups.WakeAll()
	}
}

func (b *Bus) woken(m *nats.Msg) {
	d := bus.Digest(strings.TrimPrefix(m.Subject, b.wakePrefix))
	if d == allToken {
		d = bus.Everyone
	}
	b.wakeups.Received(d)
}

func (b *Bus) receive(ctx context.Context, frames <-chan *nats.Msg) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-frames:
			b.relay.Received(bus.Digest(strings.TrimPrefix(m.Subject, b.partialPrefix)), m.Data)
		}
	}
}
