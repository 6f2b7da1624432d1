package ports

import "errors"

// ErrUnavailable is returned when a store cannot be reached, cannot answer in time, or keeps refusing what it may take a
// moment later. Nothing is known about a write that failed so; giving the same command again is safe.
var ErrUnavailable = errors.New("the store is unavailable")
