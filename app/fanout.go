package app

import (
	"sync"

	"github.com/keel-agent/keel/ports"
)

// fanout tells several notifiers of each commit. A store is opened with it before those exist that read the store.
type fanout struct {
	mu  sync.RWMutex
	all []ports.Notifier
}

func (f *fanout) add(n ports.Notifier) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, n)
}

// Committed implements ports.Notifier.
func (f *fanout) Committed(c ports.Commit) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, n := range f.all {
		n.Committed(c)
	}
}
