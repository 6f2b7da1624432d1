package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/ports"
)

const (
	// patience is how long one try may wait for a connection and for answers to what it reads.
	patience = 5 * time.Second
	// commitTimeout bounds a commit that was sent; the context of the request no longer does. After it the connection
	// counts as broken, and the fate of the commit is looked up.
	commitTimeout = 5 * time.Second
	// resolveTimeout bounds the search for the fate of a commit whose reply was lost.
	resolveTimeout = 10 * time.Second

	againLimit       = 8
	staleLimit       = 3
	unreachableLimit = 3
)

// attempt is one try of an operation on one connection. It reports whether it sent what may change the database for
// good; an operation that may be repeated blindly reports false.
type attempt func(ctx context.Context, conn *pgxpool.Conn) (sent bool, err error)

// retry tries op until it succeeds or no retry can help, each time on whichever connection the pool gives. Once a
// commit's fate is unknown, the end of ctx no longer stops it: op itself finds out when tried again.
func (s *Store) retry(ctx context.Context, op attempt) error {
	return s.loop(ctx, false, func(ctx context.Context) (bool, fate, error) { return s.once(ctx, op) })
}

// resolve is retry for an operation that was sent before and whose fate is unknown.
func (s *Store) resolve(ctx context.Context, op attempt) error {
	return s.loop(ctx, true, func(ctx context.Context) (bool, fate, error) { return s.once(ctx, op) })
}

func (s *Store) loop(ctx context.Context, resolving bool, try func(ctx context.Context) (sent bool, f fate, err error)) error {
	tries := map[fate]int{}
	limit := unreachableLimit * s.patience
	if resolving {
		ctx, limit = context.WithoutCancel(ctx), resolveTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		sent, f, err := s.briefly(ctx, try)
		if err == nil {
			return nil
		}
		tries[f]++
		if f == lost && sent && !resolving {
			resolving = true
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
			defer cancel()
		}
		if ctx.Err() != nil {
			return translate(ctx, err, f)
		}
		wait, more := s.plan(f, tries, resolving)
		if !more || !sleep(ctx, wait) {
			return translate(ctx, err, f)
		}
	}
}

// briefly tries for as long as the store waits for a server that does not answer. What is sent as a commit has a time of
// its own.
func (s *Store) briefly(ctx context.Context, try func(ctx context.Context) (bool, fate, error)) (sent bool, f fate, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	sent, f, err = try(ctx)
	if f == final && errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ports.ErrUnavailable) {
		f = unreachable
	}
	return sent, f, err
}

// once tries op on one connection.
func (s *Store) once(ctx context.Context, op attempt) (sent bool, f fate, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return false, fateOfAcquire(ctx, err), err
	}
	defer conn.Release()
	if sent, err = op(ctx, conn); err != nil {
		f = fateOf(err, conn.Conn().IsClosed())
		if readOnly(err) { // it leads to a standby, or began while the database took no writes
			closeNow(conn.Conn())
		}
	}
	return sent, f, err
}

// plan says whether, and after which pause, to try again after the tries so far.
func (s *Store) plan(f fate, tries map[fate]int, resolving bool) (wait time.Duration, more bool) {
	n := tries[f]
	switch f {
	case again:
		return pause(time.Millisecond, n-1), n < againLimit
	case moved:
		return 0, n < againLimit
	case stale:
		s.log.Warn("prepared statements no longer fit the schema; dropping them")
		s.pool.Reset()
		return 0, n < staleLimit
	case unreachable, lost:
		s.suspicious()
		s.log.Warn("connection to Postgres failed", zap.Int("tries", tries[lost]+tries[unreachable]), zap.Bool("resolving", resolving))
		return pause(25*time.Millisecond, n-1), resolving || tries[lost]+tries[unreachable] < unreachableLimit
	}
	return 0, false
}

// pause returns the n-th pause of an exponential back-off with jitter, at most half a second.
func pause(base time.Duration, n int) time.Duration {
	ceiling := min(base<<min(n, 10), 500*time.Millisecond)
	return ceiling/2 + rand.N(ceiling/2+1)
}

// sleep waits and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// committing returns the context of a commit: it outlives the request.
func committing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
}
