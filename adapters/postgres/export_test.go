package postgres

import "time"

// GroupAlways makes all commands that can go through a lane do so.
func (s *Store) GroupAlways() { s.crowd.crowdedAt, s.crowd.sparseAt = 0, 0 }

// GroupNever makes all commands go on their own.
func (s *Store) GroupNever() { s.crowd.crowdedAt = 1 << 62 }

// Impatient makes the store wait only so long for a server that does not answer.
func (s *Store) Impatient(d time.Duration) { s.patience = d }
