package sqlite

import (
	"context"
	"errors"
	"slices"
)

// Hold stops s before its next batch until release is called.
func Hold(s *Store) (release func()) {
	<-s.write.turn
	return func() { s.write.turn <- struct{}{} }
}

// Waiting returns how many jobs wait for their turn.
func Waiting(s *Store) int {
	s.write.mu.Lock()
	defer s.write.mu.Unlock()
	return len(s.write.queue)
}

// Commits returns how many commits s has made, if not so many that it began to count anew.
func Commits(s *Store) int {
	defer Hold(s)()
	return s.write.commits
}

// Order calls f with the context of each job of s, in the order in which they are done.
func Order(s *Store, f func(ctx context.Context)) {
	s.write.crowd = func(batch []*job) []*job {
		for _, j := range batch {
			f(j.ctx)
		}
		return batch
	}
}

// Crowd gives every job of s neighbours in its transaction: some that write and some that are refused, and every third
// time one that fails after it has written.
func Crowd(s *Store) {
	touch := func(tx tx) (bool, error) {
		_, err := tx.exec("UPDATE processes SET address = address")
		return true, err
	}
	spoil := func(tx tx) (bool, error) {
		if _, err := tx.exec("INSERT INTO processes VALUES ('spoiler', '', 0, 0, false, true)"); err != nil {
			return false, err
		}
		return false, errors.New("a fault")
	}
	batches := 0
	s.write.crowd = func(batch []*job) []*job {
		if batches++; batches%3 == 0 {
			return slices.Concat([]*job{neighbour(refuse)}, batch, []*job{neighbour(spoil)})
		}
		crowd := []*job{neighbour(touch), neighbour(refuse)}
		for _, j := range batch {
			crowd = append(crowd, j, neighbour(refuse), neighbour(touch))
		}
		return crowd
	}
}
