package ports

import "errors"

// ErrUnavailable is returned when a store cannot be reached or cannot answer in time. Nothing is known about a write
// that failed so; giving the same command again is safe.
var ErrUnavailable = errors.New("the store is unavailable")
