package postgres

import (
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
