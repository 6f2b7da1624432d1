package models

import (
	"context"
	"errors"
	"maps"
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
	endTimeout  = time.Second      // of questions that do not end when they are told to
)

// list is what a provider says that it has.
type list struct {
	models []domain.Model
	away   bool // it could never be had, for a reason that may pass
}

// merged returns the models that the lists hold of the named providers, and whose list is away.
func merged(names []string, listed map[string]list) (all []domain.Model, away []string) {
	for _, name := range names {
		all = append(all, listed[name].models...)
		if listed[name].away {
			away = append(away, name)
		}
	}
	return all, away
}

// lists is what the providers say that they have. What one said last holds while it does not answer.
type lists struct {
	providers []ports.Provider
	log       *zap.Logger
	changed   func(known map[string]list) // by provider

	asking chan struct{} // holds a token while nobody asks; it guards the next four
	asked  time.Time
	known  map[string]list // nothing of a provider that tells nobody what it has
	silent map[string]bool
	long   map[string]bool // the provider lists more than ports.MaxModels

	first  chan struct{} // closed when all were asked for the first time, or could not be
	listed sync.Once     // closes first
}

func (l *lists) init(providers []ports.Provider, log *zap.Logger, changed func(map[string]list)) {
	l.providers, l.log, l.changed = providers, log, changed
	l.known, l.silent, l.long = map[string]list{}, map[string]bool{}, map[string]bool{}
	l.first, l.asking = make(chan struct{}), make(chan struct{}, 1)
	l.asking <- struct{}{}
}

// run asks now and then, until ctx ends.
func (l *lists) run(ctx context.Context) {
	enough := time.AfterFunc(listTimeout, l.waitNoMore)
	defer enough.Stop()
	for {
		wait := listEvery
		if !l.ask(ctx, nil, 0) {
			wait = retryEvery
		}
		l.waitNoMore()
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// wait waits for the first lists, at most listTimeout.
func (l *lists) wait(ctx context.Context) {
	select {
	case <-l.first:
		return
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	select {
	case <-l.first:
	case <-ctx.Done():
	}
}

func (l *lists) waitNoMore() { l.listed.Do(func() { close(l.first) }) }

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
		l.answered(p.Name(), answers[i])
	}
	l.changed(maps.Clone(l.known))
	return whole
}

// answered takes over what a provider lists, and says once that it is more than is known of one.
func (l *lists) answered(name string, listed []ports.Model) {
	all, long := entries(name, listed)
	if long && !l.long[name] {
		l.log.Warn("the provider lists more models than are kept: the rest is left out", zap.String("provider", name), zap.Int("kept", len(all)))
	}
	l.known[name], l.silent[name], l.long[name] = list{models: all}, false, long
}

// missed notes that a provider does not tell what it has, and says so once.
func (l *lists) missed(ctx context.Context, name string, fault error) {
	if before, ok := l.known[name]; !ok || before.away {
		l.known[name] = list{away: true}
		if pe, ok := errors.AsType[*ports.ProviderError](fault); ok && pe.Class != ports.Retryable {
			delete(l.known, name)
		}
	}
	if ctx.Err() == nil && !l.silent[name] {
		l.silent[name] = true
		l.log.Warn("the provider does not list its models", zap.String("provider", name), zap.Error(fault))
	}
}

// entries returns the models that a provider lists, each once, or the first ports.MaxModels of a long list. What such a list
// lacks there may be all the same.
func entries(provider string, listed []ports.Model) (all []domain.Model, long bool) {
	have := map[string]bool{}
	for _, m := range listed {
		if have[m.ID] || domain.CheckID(m.ID) != nil {
			continue
		}
		if long = len(all) == ports.MaxModels; long {
			break
		}
		have[m.ID] = true
		all = append(all, domain.Model{Provider: provider, Name: m.ID, ContextWindow: m.ContextWindow, Listed: m.Listed})
	}
	for i := range all {
		all[i].Listed = all[i].Listed && !long
	}
	return all, long
}
