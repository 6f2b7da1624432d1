package postgres

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// connectTimeout bounds a connection attempt unless the URL has connect_timeout.
const connectTimeout = 5 * time.Second

// Config says how to reach the database.
type Config struct {
	// URL is the connection string. Its default_query_exec_mode is honoured. The default, cache_statement, and
	// describe_exec need connections of their own; exec, cache_describe and simple_protocol also work through a pooler
	// in transaction mode.
	URL string

	// MaxConns bounds the pool; 0 leaves it to the URL's pool_max_conns, else to pgx's default. One is enough.
	MaxConns int

	// AllowUnsafe opens a database that may lose committed events in a crash or that cannot hold all text.
	AllowUnsafe bool

	// Notifier is told of every commit; nil tells nobody.
	Notifier ports.Notifier

	// Logger may be nil.
	Logger *zap.Logger
}

// Store is the ledger, and through Sessions, Runs and Processes the other store ports.
type Store struct {
	pool     *pgxpool.Pool
	lists    sqlstore.Lists
	notifier ports.Notifier
	log      *zap.Logger
	served   served
	queued   atomic.Bool // a commit of this process queued a run since the last claim
	views    known
	crowd    crowd
	lanes    [laneCount]lane
	patience time.Duration
	distrust atomic.Int64 // idle connections are tried out before use until then, in Unix milliseconds
}

var _ ports.Ledger = (*Store)(nil)

// Open connects to the database and checks that it is fit. It does not migrate. The caller closes the store.
//
// It returns ErrUnsafe, naming the setting at fault, when the server could lose committed events or has another encoding
// than UTF8 (unless cfg.AllowUnsafe); ErrPooler when the query execution mode does not suit what stands between; and
// ports.ErrUnavailable when the server cannot be reached.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	pc, err := poolConfig(cfg)
	if err != nil {
		return nil, err
	}
	s := &Store{notifier: cfg.Notifier, log: cfg.Logger, patience: patience}
	s.views.rows = make(map[domain.SessionRef]kept)
	s.crowd.crowdedAt, s.crowd.sparseAt = crowdedAt, sparseAt
	for i := range s.lanes {
		s.lanes[i].s = s
	}
	pc.ShouldPing = s.shouldPing
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	s.pool = pool
	if s.log == nil {
		s.log = zap.NewNop()
	}
	db := stdlib.OpenDBFromPool(pool)
	s.lists = sqlstore.Lists{DB: bun.NewDB(db, pgdialect.New()), Conn: unprepared{db, bunExecMode(pc)}}
	if err := s.checkServer(ctx, cfg.AllowUnsafe); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// poolConfig returns the configuration of the pool.
func poolConfig(cfg Config) (*pgxpool.Config, error) {
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if cfg.MaxConns > 0 {
		pc.MaxConns = int32(cfg.MaxConns)
		pc.MinConns, pc.MinIdleConns = min(pc.MinConns, pc.MaxConns), min(pc.MinIdleConns, pc.MaxConns)
	}
	if pc.ConnConfig.ConnectTimeout == 0 {
		pc.ConnConfig.ConnectTimeout = connectTimeout
	}
	if pc.PingTimeout == 0 {
		pc.PingTimeout = pingTimeout
	}
	pc.BeforeClose = abandon
	if pc.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		keepGoodPlans(pc.ConnConfig.RuntimeParams)
	}
	return pc, nil
}

// pingTimeout bounds the trial of an idle connection unless the URL has pool_ping_timeout.
const pingTimeout = 2 * time.Second

// abandon cuts a connection that has failed. Its place in the pool is free only when it is gone, and the server's
// goodbye, for which pgx waits a quarter of a minute, does not come through a connection that is half open.
func abandon(conn *pgx.Conn) {
	if conn.IsClosed() {
		_ = conn.PgConn().Conn().Close()
	}
}

// trusted is how long a connection may rest before it is tried out, and how long all are after one has failed.
const trusted = 10 * time.Second

// shouldPing spares an idle process the pings, which a failed connection brings back for a while: after a restart of
// the server every idle connection is dead.
func (s *Store) shouldPing(_ context.Context, p pgxpool.ShouldPingParams) bool {
	return p.IdleDuration > trusted || time.Now().UnixMilli() < s.distrust.Load()
}

func (s *Store) suspicious() { s.distrust.Store(time.Now().Add(trusted).UnixMilli()) }

// keepGoodPlans makes prepared statements keep plans that stay right as tables grow: a plan made while a table was
// empty would scan it, and stay. All hot statements go by an index.
func keepGoodPlans(params map[string]string) {
	for name, value := range map[string]string{
		"plan_cache_mode": "force_generic_plan", "jit": "off",
		"enable_seqscan": "off", "enable_mergejoin": "off", "enable_hashjoin": "off", "enable_sort": "off",
	} {
		if _, set := params[name]; !set {
			params[name] = value
		}
	}
}

// bunExecMode returns the mode of bun's statements. They have their arguments written into their text, so preparing
// them would leave a statement behind for each.
func bunExecMode(pc *pgxpool.Config) pgx.QueryExecMode {
	if pc.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		return pgx.QueryExecModeSimpleProtocol
	}
	return pgx.QueryExecModeExec
}

// Close closes all connections; it waits for those in use.
func (s *Store) Close() { s.pool.Close() }

// Ping reports whether the database answers; ports.ErrUnavailable when it does not.
func (s *Store) Ping(ctx context.Context) error {
	return s.retry(ctx, func(ctx context.Context, conn *pgxpool.Conn) (bool, error) { return false, conn.Ping(ctx) })
}

// Sessions returns the store's ports.Sessions.
func (s *Store) Sessions() ports.Sessions { return sessions{s} }

// Runs returns the store's ports.Runs.
func (s *Store) Runs() ports.Runs { return runs{s} }

// Processes returns the store's ports.Processes.
func (s *Store) Processes() ports.Processes { return processes{s} }
