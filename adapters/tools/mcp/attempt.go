package mcp

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	shortestPause = time.Second // between two attempts to connect
	longestPause  = time.Minute
)

// attempt is one try to connect.
type attempt struct {
	wanted     chan struct{} // closed when somebody waits for it
	wantedOnce sync.Once
	done       chan struct{} // closed when it is over; then err is its outcome
	err        error
}

func newAttempt() *attempt { return &attempt{wanted: make(chan struct{}), done: make(chan struct{})} }

func (a *attempt) want() { a.wantedOnce.Do(func() { close(a.wanted) }) }

// pause waits before the next attempt: longer after each failure, but no longer than until somebody wants it. A lazy
// server waits for that alone.
func (s *server) pause(ctx context.Context, failures int, why error) {
	s.mu.Lock()
	next := s.next
	s.mu.Unlock()
	if errors.Is(why, errIdle) {
		s.log.Debug("let go", zap.Error(why))
		select {
		case <-next.wanted:
		case <-ctx.Done():
		}
		return
	}
	pause := backOff(failures)
	s.log.Warn("not connected", zap.Error(s.hidden.Error(why)), zap.Duration("next attempt in", pause))
	sleep(ctx, min(pause, shortestPause), nil) // what calls ask for is no reason to try all the time
	sleep(ctx, pause-shortestPause, next.wanted)
}

// backOff doubles from shortestPause to longestPause; half of it is chance, since many processes may know the server.
func backOff(failures int) time.Duration {
	pause := min(shortestPause<<min(max(failures-1, 0), 10), longestPause)
	return pause/2 + rand.N(pause/2+1)
}

func sleep(ctx context.Context, d time.Duration, wanted <-chan struct{}) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wanted:
	case <-ctx.Done():
	}
}
