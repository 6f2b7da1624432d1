package ports

import "time"

// Clock tells the time. Waiting goes through the standard library's timers, which testing/synctest controls.
type Clock interface {
	Now() time.Time
}

// IDs mints ids and chance.
type IDs interface {
	New() string     // a new id: unique, at most 36 characters, ascending in time
	Jitter() float64 // in [0,1)
}
