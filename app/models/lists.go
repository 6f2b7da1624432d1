package models

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

const (
	listEvery   = 5 * time.Minute
	retryEvery  = 30 * time.Second // after a provider did not answer
	askAgain    = 10 * time.Second // between questions that requests cause
	listTimeout = 3 * time.Second  // of a question that a request waits for
)

// lists is what the providers say that they have. What one said last holds while it does not answer.
type lists struct {
	providers []ports.Provider
	log       *zap.Logger
	changed   func(known map[string][]domain.Model) // by provider

	asking chan struct{} // holds a token while nobody asks; it guards the next three
	asked  time.Time
	known  map[string][]domain.Model
	silent map[string]bool

	stop context.CancelFunc
	loop sync.WaitGroup
}

func (l *lists) init(providers []ports.Provider, log *zap.Logger, changed func(map[string][]domain.Model)) {
	l.providers, l.log, l.changed = providers, log, changed
	l.known, l.silent = map[string][]domain.Model{}, map[string]bool{}
	l.asking = make(chan struct{}, 1)
	l.asking <- struct{}{}
}

func (l *lists) start() {
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.loop.Go(func() {
		for {
			wait := listEvery
			if !l.ask(ctx, nil, 0) {
				wait = retryEvery
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
	})
}

func (l *lists) close() {
	if l.stop != nil {
		l.stop()
		l.loop.Wait()
	}
}

// again asks on behalf of a request, and reports whether there are lists that the request may not have seen.
func (l *lists) again(ctx context.Context, keys credentials) bool {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	l.ask(ctx, keys, askAgain)
	return ctx.Err() == nil
}

// ask asks all providers side by side, with the keys or their own, unless that was done less than atLeast ago. It reports
// whether all of them answered.
func (l *lists) ask(ctx context.Context, keys credentials, atLeast time.Duration) bool {
	select {
	case <-l.asking:
	case <-ctx.Done():
		return false
	}
	defer func() { l.asking <- struct{}{} }()
	if !l.asked.IsZero() && time.Since(l.asked) < atLeast {
		return true
	}
	answers, faults := make([][]ports.Model, len(l.providers)), make([]error, len(l.providers))
	var all sync.WaitGroup
	for i, p := range l.providers {
		all.Go(func() { answers[i], faults[i] = p.Models(ctx, keys[p.Name()]) })
	}
	all.Wait()
	l.asked = time.Now()
	whole := true
	for i, p := range l.providers {
		if faults[i] != nil {
			whole = false
			l.missed(ctx, p.Name(), faults[i])
			continue
		}
		l.known[p.Name()], l.silent[p.Name()] = entries(p.Name(), answers[i]), false
	}
	l.changed(maps.Clone(l.known))
	return whole
}

// missed says once that a provider does not tell what it has.
func (l *lists) missed(ctx context.Context, name string, fault error) {
	if ctx.Err() == nil && !l.silent[name] {
		l.silent[name] = true
		l.log.Warn("the provider does not list its models", zap.String("provider", name), zap.Error(fault))
	}
}

func entries(provider string, listed []ports.Model) []domain.Model {
	var all []domain.Model
	for _, m := range listed {
		twice := slices.ContainsFunc(all, func(have domain.Model) bool { return have.Name == m.ID })
		if !twice && domain.CheckID(m.ID) == nil {
			all = append(all, domain.Model{Provider: provider, Name: m.ID, ContextWindow: m.ContextWindow, Listed: m.Listed})
		}
	}
	return all
}
