package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/keel-agent/keel/adapters/bus"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// GroupAlways makes all commands that can go through a lane do so.
func (s *Store) GroupAlways() { s.crowd.crowdedAt, s.crowd.sparseAt = 0, 0 }

// GroupNever makes all commands go on their own.
func (s *Store) GroupNever() { s.crowd.crowdedAt = 1 << 62 }

// Impatient makes the store wait only so long for a server that does not answer.
func (s *Store) Impatient(d time.Duration) { s.patience = d }

// ChannelName is the SQL of the name of the buses' channel.
const ChannelName = channelName

// Wanted reports whether the bus knows that another process has subscribers of the session's partials.
func (b *Bus) Wanted(ref domain.SessionRef) bool {
	return b.interest.Wanted(bus.DigestOf(ports.Topic{Session: ref}))
}

// Freeze begins a claim of the process as far as its locks and leaves it at that, as a process does that is stopped in the
// middle of one. What it holds is given back when the server ends the transaction, or by the returned function.
func (s *Store) Freeze(ctx context.Context, process string) (thaw func(), err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	thaw = sync.OnceFunc(func() {
		_ = conn.Conn().Close(context.WithoutCancel(ctx))
		conn.Release()
	})
	c := &claiming{}
	c.req.Process, c.req.Max = process, 10
	_, _, err = c.propose(ctx, conn)
	return thaw, err
}
