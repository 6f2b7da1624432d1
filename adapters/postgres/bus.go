package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/ports"
)

var (
	_ ports.Wakeups  = (*Bus)(nil)
	_ ports.Notifier = (*Bus)(nil)
)

// channel is the name that processes LISTEN to.
const channel = "keel_wake"

// Bus carries wake-ups between all processes of a database: within the process at once, to the others by NOTIFY after
// the commit, coalesced and from one connection of its own. What it carries are hints. When its connections fail it
// reconnects for ever and then wakes every subscription; the events themselves are never at stake.
type Bus struct {
	hub  *sqlstore.Hub
	conn *pgx.ConnConfig
	log  *zap.Logger
	self string // marks this process's own notifications

	pingEvery, pingTimeout time.Duration
	gap                    time.Duration // between two notifications, for those that come in between

	mu     sync.Mutex
	topics map[token]*listened // what this process subscribes to

	out *outbox

	stop context.CancelFunc
	done sync.WaitGroup
}

// listened is a topic and how many subscribe to it.
type listened struct {
	topic ports.Topic
	count int
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
	b := &Bus{
		hub: sqlstore.NewHub(), conn: conn, log: cfg.Logger, self: newSelf(),
		pingEvery: 15 * time.Second, pingTimeout: 5 * time.Second, gap: 3 * time.Millisecond,
		topics: make(map[token]*listened), out: newOutbox(),
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
func (b *Bus) Committed(c ports.Commit) {
	b.hub.Committed(c)
	for t := range sqlstore.Topics(c.Ref, c.Wake) {
		b.out.add(tokenOf(t))
	}
}

// Subscribe implements ports.Wakeups.
func (b *Bus) Subscribe(t ports.Topic) (wake <-chan struct{}, cancel func()) {
	id := tokenOf(t)
	b.mu.Lock()
	if b.topics[id] == nil {
		b.topics[id] = &listened{topic: ports.Topic{Session: t.Session, Process: t.Process}}
	}
	b.topics[id].count++
	b.mu.Unlock()
	wake, remove := b.hub.Subscribe(t)
	var once sync.Once
	return wake, func() {
		once.Do(func() {
			remove()
			b.forget(id)
		})
	}
}

func (b *Bus) forget(id token) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.topics[id].count--; b.topics[id].count == 0 {
		delete(b.topics, id)
	}
}

// wake fires the local subscriptions of the topic behind id, if there are any: another process committed.
func (b *Bus) wake(id token) {
	b.mu.Lock()
	l := b.topics[id]
	b.mu.Unlock()
	if l != nil {
		b.hub.Wake(l.topic)
		remote := l.topic
		remote.Remote = true
		b.hub.Wake(remote)
	}
}

// token stands for a topic on the wire: of fixed length whatever the ids in it, and telling nothing about them.
type token string

const tokenLength = 22

func tokenOf(t ports.Topic) token {
	b := make([]byte, 0, 128)
	for _, part := range []string{t.Session.Tenant, t.Session.Session, t.Process} {
		b = append(append(b, part...), 0)
	}
	sum := sha256.Sum256(b)
	return token(base64.RawURLEncoding.EncodeToString(sum[:16]))
}

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
