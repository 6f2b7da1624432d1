package portstest

import (
	"sync"
	"testing"
	"time"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Store is a store under test: empty at first, used by one test alone, closed by the cleanup of the test that opened
// it. Only the ports are required.
type Store struct {
	Ledger    ports.Ledger
	Sessions  ports.Sessions
	Runs      ports.Runs
	Processes ports.Processes
	Settings  ports.Settings
	Secrets   ports.Secrets

	// Advance moves the store's clock forward. When it is nil the clock is the real one, and the suite waits.
	Advance func(d time.Duration)

	// Short is a time that the suite can afford to let pass: leases and back-offs that expire during a test. 0 means
	// 100 ms. It should be long compared with a few calls of the store.
	Short time.Duration

	// Notified is the store's notifier. nil skips what is said of wake-ups.
	Notified *Recorder

	// InsertRun writes a run row behind the domain's back, and nothing else. nil skips what is said of dirty rows.
	InsertRun func(t *testing.T, run domain.Run)

	// Reopen returns the same data as another process sees it, or after a restart. nil skips what is said of that.
	Reopen func(t *testing.T) Store
}

// Open opens a new, empty store.
type Open func(t *testing.T) Store

// TestStore runs every suite of a store.
func TestStore(t *testing.T, open Open) {
	t.Run("Ledger", func(t *testing.T) { TestLedger(t, open) })
	t.Run("Sessions", func(t *testing.T) { TestSessions(t, open) })
	t.Run("Runs", func(t *testing.T) { TestRuns(t, open) })
	t.Run("Processes", func(t *testing.T) { TestProcesses(t, open) })
	t.Run("Settings", func(t *testing.T) { TestSettings(t, open) })
	t.Run("Secrets", func(t *testing.T) { TestSecrets(t, open) })
	t.Run("Histories", func(t *testing.T) { TestHistories(t, open) })
}

// Recorder is a ports.Notifier that keeps what it is told.
type Recorder struct {
	mu      sync.Mutex
	commits []ports.Commit
}

// Committed implements ports.Notifier.
func (r *Recorder) Committed(c ports.Commit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commits = append(r.commits, c)
}

// Take returns what was told since the last call.
func (r *Recorder) Take() []ports.Commit {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.commits
	r.commits = nil
	return taken
}

// suite is a list of tests of one store, each with a store of its own.
type suite []struct {
	name string
	test func(*env)
}

func (s suite) run(t *testing.T, open Open) {
	for _, c := range s {
		t.Run(c.name, func(t *testing.T) { c.test(newEnv(t, open(t))) })
	}
}
