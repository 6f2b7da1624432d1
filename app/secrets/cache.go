package secrets

import (
	"sync"
	"time"

	"github.com/keel-agent/keel/ports"
)

const (
	// Staleness is how long a value is used before the store is asked again.
	Staleness = 10 * time.Second
	// maxCached bounds how many values, of MaxValue at most, are in memory in the clear.
	maxCached = 256
)

// cache keeps values for a short time, also that there is none.
type cache struct {
	mu    sync.Mutex
	kept  map[[2]string]cached
	turns int // counts what was forgotten: a value read before that is not kept after it
}

type cached struct {
	value ports.Confidential
	until time.Time
}

// get returns a value that is still good, and the turn in which to put it else.
func (c *cache) get(tenant, name string, now time.Time) (value ports.Confidential, turn int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	hit, ok := c.kept[[2]string{tenant, name}]
	return hit.value, c.turns, ok && now.Before(hit.until)
}

func (c *cache) put(tenant, name string, value ports.Confidential, now time.Time, turn int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if turn != c.turns {
		return
	}
	if c.kept == nil || len(c.kept) >= maxCached {
		c.kept = map[[2]string]cached{}
	}
	c.kept[[2]string{tenant, name}] = cached{value, now.Add(Staleness)}
}

func (c *cache) forget(tenant, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turns++
	delete(c.kept, [2]string{tenant, name})
}
