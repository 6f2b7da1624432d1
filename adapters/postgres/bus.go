package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/bus"
	"github.com/keel-agent/keel/ports"
)

var (
	_ ports.Wakeups  = (*Bus)(nil)
	_ ports.Notifier = (*Bus)(nil)
)

// Bus carries wake-ups and partials between all processes of a database: within the process at once, to the others by
// NOTIFY, coalesced, from one connection of its own and never in a transaction that commits. What it carries are hints.
// When its connections fail it reconnects for ever and then wakes every subscription; the events themselves are never at
// stake. Processes whose search_path leads to different schemas do not hear each other.
type Bus struct {
	wakeups  *bus.Wakeups
	relay    *bus.Relay
	interest *interest
	conn     *pgx.ConnConfig
	log      *zap.Logger
	self     string // marks this process's own notifications

	pingEvery, pingTimeout time.Duration
	fullQueue              float64 // the share of the server's notification queue in use that is worth a warning
	announceEvery          time.Duration
	gap                    time.Duration // between two notifications, for those that come in between

	stop context.CancelFunc
	done sync.WaitGroup
}

// BusConfig says how to reach the database.
type BusConfig struct {
	// URL leads to the server itself: LISTEN does not work through a pooler in transaction mode.
	URL string

	// Logger may be nil.
	Logger *zap.Logger
}

// OpenBus starts a bus. It connects in the background and needs no server yet; it fails only for a malformed URL. The
// caller closes it.
func OpenBus(cfg BusConfig) (*Bus, error) {
	b, err := newBus(cfg)
	if err != nil {
		return nil, err
	}
	b.start()
	return b, nil
}

func newBus(cfg BusConfig) (*Bus, error) {
	conn, err := parseConn(cfg.URL)
	if err != nil {
		return nil, err
	}
	conn.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn.RuntimeParams["synchronous_commit"] = "off" // nothing that must last is written here
	known := newInterest(interestLasts)
	b := &Bus{
		wakeups: bus.NewWakeups(), relay: bus.NewRelay(known, maxPayload-headLength-bus.DigestLength), interest: known,
		conn: conn, log: cfg.Logger, self: newSelf(),
		pingEvery: 30 * time.Second, pingTimeout: 5 * time.Second, fullQueue: 0.5, announceEvery: interestLasts / 3, gap: 3 * time.Millisecond,
	}
	if b.log == nil {
		b.log = zap.NewNop()
	}
	return b, nil
}

func (b *Bus) start() {
	ctx, cancel := context.WithCancel(context.Background())
	b.stop = cancel
	b.done.Go(func() { b.keep(ctx, "listen", b.listen) })
	b.done.Go(func() { b.keep(ctx, "notify", b.notify) })
}

// Close stops the bus and waits for its connections to end. Subscriptions stay, but are woken only from within the
// process.
func (b *Bus) Close() {
	b.stop()
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

// livedLong is how long a connection has to last for its end to be no repeated failure: a proxy or an operator that cuts
// idle connections now and then must not make the process deaf for longer each time.
const livedLong = 2 * time.Second

// keep runs one connection's work again and again until ctx ends, with a pause that grows while it fails at once.
func (b *Bus) keep(ctx context.Context, name string, work func(ctx context.Context) error) {
	for failures := 0; ctx.Err() == nil; failures++ {
		began := time.Now()
		err := work(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > livedLong {
			failures = 0
		}
		b.log.Warn("wake-up connection failed", zap.String("connection", name), zap.Error(err))
		sleep(ctx, 10*pause(10*time.Millisecond, failures))
	}
}
