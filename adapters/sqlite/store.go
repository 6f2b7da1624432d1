package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"go.uber.org/zap"
	_ "modernc.org/sqlite" // the driver

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/ports"
)

// readers is how many connections read at a time.
const readers = 4

// ErrReadOnly is returned by whatever would write to a store that OpenReadOnly opened.
var ErrReadOnly = errors.New("sqlite: the database is open for reading only")

// Config says where the database is.
type Config struct {
	// Path of the database file. Files named Path with -wal, -shm and .lock behind it stand beside it.
	Path string

	// Notifier is told of every commit; nil tells nobody.
	Notifier ports.Notifier

	// Logger may be nil.
	Logger *zap.Logger

	// Now is the store's clock; nil means time.Now.
	Now func() time.Time
}

// Store is the ledger, and through Sessions, Runs and Processes the other store ports.
type Store struct {
	write    *writer // nil when open for reading only
	read     *sql.DB
	lists    sqlstore.Lists
	notifier ports.Notifier
	log      *zap.Logger
	now      func() time.Time
	lock     *fileLock
}

var _ ports.Ledger = (*Store)(nil)

// Open opens the database for serving, which one process at a time may do: it returns ErrLocked while another one
// serves. Whoever served before is dead then, and its processes are marked so. The schema must be up to date (Migrate).
// The caller closes the store.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := exists(cfg.Path); err != nil {
		return nil, err
	}
	lock, err := lockFile(cfg.Path)
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, cfg)
	if err != nil {
		lock.release()
		return nil, err
	}
	s.lock = lock
	if s.write, err = openWriter(ctx, cfg.Path, s.log); err == nil {
		err = processes{s}.endAll(ctx)
	}
	if err != nil {
		s.Close()
		return nil, named(cfg.Path, err)
	}
	return s, nil
}

// OpenReadOnly opens the database beside a process that may be serving it. Whatever would write returns ErrReadOnly.
func OpenReadOnly(ctx context.Context, cfg Config) (*Store, error) {
	if err := exists(cfg.Path); err != nil {
		return nil, err
	}
	return open(ctx, cfg)
}

func open(ctx context.Context, cfg Config) (*Store, error) {
	db, err := sql.Open("sqlite", dsn(cfg.Path, "rw", "query_only(1)"))
	if err != nil {
		return nil, named(cfg.Path, err)
	}
	db.SetMaxOpenConns(readers)
	db.SetMaxIdleConns(readers)
	s := &Store{
		read: db, lists: sqlstore.Lists{DB: bun.NewDB(db, sqlitedialect.New())},
		notifier: cfg.Notifier, log: cfg.Logger, now: cfg.Now,
	}
	if s.log == nil {
		s.log = zap.NewNop()
	}
	if s.now == nil {
		s.now = time.Now
	}
	if err := s.Ping(ctx); err != nil {
		_ = db.Close()
		return nil, named(cfg.Path, err)
	}
	return s, nil
}

// dsn returns the data source name of the file at path, which must exist unless mode is "rwc". Its connections begin
// with the pragmas.
func dsn(path, mode string, pragmas ...string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	q := url.Values{"mode": {mode}, "_pragma": append([]string{"busy_timeout(5000)", "foreign_keys(0)"}, pragmas...)}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	return strings.Replace(u.String(), "file://", "file:", 1)
}

// Close ends all connections and lets another process serve the file.
func (s *Store) Close() {
	_ = s.read.Close()
	if s.write != nil {
		s.write.close()
	}
	if s.lock != nil {
		s.lock.release()
	}
}

// Ping reports whether the database answers; ports.ErrUnavailable when it does not.
func (s *Store) Ping(ctx context.Context) error { return translate(ctx, s.read.PingContext(ctx)) }

// Sessions returns the store's ports.Sessions.
func (s *Store) Sessions() ports.Sessions { return sessions{s} }

// Runs returns the store's ports.Runs.
func (s *Store) Runs() ports.Runs { return runs{s} }

// Processes returns the store's ports.Processes.
func (s *Store) Processes() ports.Processes { return processes{s} }

func (s *Store) nowMS() int64 { return s.now().UnixMilli() }
