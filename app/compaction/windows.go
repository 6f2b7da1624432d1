package compaction

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/keel-agent/keel/ports"
)

const (
	listTimeout = 5 * time.Second
	listAge     = time.Hour   // of a list before it is asked for again
	failureAge  = time.Minute // the same of one that could not be had
)

// Listed tells the windows that providers list for their models. The zero value is ready for use.
type Listed struct {
	mu    sync.Mutex
	lists map[string]list // by provider
}

type list struct {
	models []ports.Model
	until  time.Time
}

// Window is a Windows. "" is the provider's first model. While a list is being asked for, others do without.
func (l *Listed) Window(ctx context.Context, p ports.Provider, model string) int {
	for i, m := range l.models(ctx, p) {
		if m.ID == model || model == "" && i == 0 {
			return m.ContextWindow
		}
	}
	return 0
}

func (l *Listed) models(ctx context.Context, p ports.Provider) []ports.Model {
	have, fresh := l.begin(p.Name())
	if fresh {
		return have
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	found, err := p.Models(ctx, ports.Confidential{})
	next := list{found, time.Now().Add(listAge)}
	if err != nil {
		next = list{have, time.Now().Add(failureAge)}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists[p.Name()] = next
	return slices.Clone(next.models)
}

// begin returns what is known. fresh is false for one caller at a time, who has to ask for it.
func (l *Listed) begin(provider string) (have []ports.Model, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.lists[provider]
	if ok && time.Now().Before(known.until) {
		return known.models, true
	}
	if l.lists == nil {
		l.lists = map[string]list{}
	}
	l.lists[provider] = list{known.models, time.Now().Add(listTimeout)}
	return known.models, false
}
