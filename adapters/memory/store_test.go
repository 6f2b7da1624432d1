package memory

import (
	"flag"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
	"github.com/keel-agent/keel/ports/portstest"
)

var update = flag.Bool("update", false, "write the golden histories of portstest from what this store answers")

// clock is a clock that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func open(*testing.T) portstest.Store {
	c := &clock{now: domaintest.Epoch}
	notified := &portstest.Recorder{}
	s := New(Config{Now: c.Now, Notifier: notified})
	return portstest.Store{
		Ledger: s, Sessions: s.Sessions(), Runs: s.Runs(), Processes: s.Processes(), Settings: s.Settings(), Secrets: s.Secrets(),
		Advance: c.Advance, Notified: notified,
		InsertRun: func(_ *testing.T, run domain.Run) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.putRun(s.sessions[run.Ref], domain.RunChange{Run: run, Insert: true})
		},
	}
}

func TestStore(t *testing.T) {
	if *update {
		portstest.UpdateHistories(t, open, "../../ports/portstest/testdata")
		t.Skip("goldens written; they are compiled in, so run again")
	}
	portstest.TestStore(t, open)
}

// What holds for stores whose clock cannot be moved must hold for this one as well.
func TestStoreWithRealTime(t *testing.T) {
	portstest.TestStore(t, func(*testing.T) portstest.Store {
		s := New(Config{})
		return portstest.Store{
			Ledger: s, Sessions: s.Sessions(), Runs: s.Runs(), Processes: s.Processes(), Settings: s.Settings(), Secrets: s.Secrets(), Short: 20 * time.Millisecond,
		}
	})
}

// Within a synctest bubble the default clock is the bubble's, and nothing of the store keeps the bubble alive.
func TestStoreInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{})
		require.NoError(t, s.Processes().Register(t.Context(), "p", "", 15*time.Second))
		time.Sleep(14 * time.Second)
		_, err := s.Processes().Renew(t.Context(), "p", 15*time.Second)
		require.NoError(t, err)
		time.Sleep(15 * time.Second)
		_, err = s.Processes().Renew(t.Context(), "p", 15*time.Second)
		require.ErrorIs(t, err, ports.ErrProcessDead)
	})
}
