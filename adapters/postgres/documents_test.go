package postgres_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Writers of one document on connections of their own: of those that expect the same revision one wins, and those that
// expect none lose nothing of each other.
func TestDocumentsUnderContention(t *testing.T) {
	u := migrated(t)
	settings := open(t, postgres.Config{URL: u, MaxConns: 8}).Settings()
	const writers, rounds = 6, 20
	for round := range rounds {
		begin := make(chan struct{})
		var won atomic.Int64
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				<-begin
				document := strings.Repeat("x", round*writers+w+1)
				switch _, err := settings.Put(t.Context(), "t", "fenced", document, int64(round)); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, domain.ErrRevisionConflict):
					t.Error(err)
				}
				if _, err := settings.Put(t.Context(), "t", "open", document, ports.AnyRevision); err != nil {
					t.Error(err)
				}
			})
		}
		close(begin)
		all.Wait()
		if won.Load() != 1 {
			t.Fatalf("round %d: %d writers of one revision won", round, won.Load())
		}
	}
	for name, want := range map[string]int64{"fenced": rounds, "open": rounds * writers} {
		if s, err := settings.Get(t.Context(), "t", name); err != nil || s.Revision != want {
			t.Errorf("%s: revision %d, want %d, error %v", name, s.Revision, want, err)
		}
	}
}
