package sqlite_test

import (
	"database/sql"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keel-agent/keel/adapters/sqlite"
	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports/portstest"
)

// The answers are the same when every command has a transaction of its own and when it shares one with others, whatever
// befalls those.
func TestConformance(t *testing.T) {
	for name, shape := range map[string]func(s *sqlite.Store){
		"direct": func(*sqlite.Store) {},
		"batch":  sqlite.Crowd,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			portstest.TestStore(t, func(t *testing.T) portstest.Store {
				path, now, notified := migrated(t), &clock{now: domaintest.Epoch}, &portstest.Recorder{}
				s := open(t, sqlite.Config{Path: path, Now: now.time, Notifier: notified})
				shape(s)
				return portstest.Store{
					Ledger: s, Sessions: s.Sessions(), Runs: s.Runs(), Processes: s.Processes(), Settings: s.Settings(), Secrets: s.Secrets(),
					Advance: now.advance, Notified: notified,
					InsertRun: func(t *testing.T, run domain.Run) { insertRun(t, path, run) },
				}
			})
		})
	}
}

// clock is a clock that stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// insertRun writes a run row and nothing else.
func insertRun(t *testing.T, path string, run domain.Run) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	fields := sqlstore.NewRunRow(&run).Fields()
	text := "INSERT INTO runs (" + sqlstore.Names(fields) + ") VALUES (?" + strings.Repeat(", ?", len(fields)-1) + ")"
	if _, err := db.ExecContext(t.Context(), text, sqlstore.Values(fields)...); err != nil {
		t.Fatal(err)
	}
}
