package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// bench is one run of the program.
type bench struct {
	short  bool
	round  time.Duration
	rounds int
	conns  int
	peers  bool

	profile string // file for a CPU profile

	dir   string // for files that go when the run ends
	notes []string
	slow  slowCluster
}

// pick returns full, or short when the run is a short one.
func pick[T any](b *bench, full, short T) T {
	if b.short {
		return short
	}
	return full
}

// note adds a line under the tables.
func (b *bench) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

// measure is one thing that is measured; its rows stand in the table of its group.
type measure struct {
	name  string
	group string
	run   func(ctx context.Context, b *bench) ([]row, error)
}

// measures are all measures, in the order of the report.
var measures = []measure{
	{"postgres-appends", groupAppends, appendsOnPostgres},
	{"slow-appends", groupAppends, appendsOnSlowCluster},
	{"sqlite-appends", groupAppends, appendsOnSQLite},
	{"message-db", groupAppends, appendsBesideMessageDB},
	{"wakeups", groupAppends, wakeupCost},
	{"submits", groupRuns, submits},
	{"claims", groupRuns, claims},
	{"whole-runs", groupRuns, wholeRuns},
	{"restate", groupRuns, restateRuns},
	{"latency", groupRuns, latencies},
	{"turns", groupRuns, turns},
	{"heartbeats", groupProcesses, heartbeats},
	{"takeover", groupProcesses, takeover},
	{"start", groupProcesses, start},
	{"idle-streams", groupStreams, idleStreams},
	{"fanout", groupStreams, fanout},
	{"decode", groupProviders, decode},
	{"requests", groupProviders, requests},
}

const (
	groupAppends   = "Appends"
	groupRuns      = "Runs"
	groupProcesses = "Processes"
	groupStreams   = "Streams"
	groupProviders = "Providers"
)

// skipped is the error of a measure that this machine, or a flag, leaves out.
type skipped struct{ why string }

func (s skipped) Error() string { return s.why }

// side is one of those that a contest compares.
type side struct {
	name    string
	prepare func(ctx context.Context) error                             // before each round, outside its time; may be nil
	round   func(ctx context.Context, d time.Duration) (float64, error) // returns a rate or a time
}

// scores are the results of each side, in the order of the rounds.
type scores [][]float64

// contest lets the sides take turns, so that what drifts (a shared disk above all) meets them alike. A first short
// round of each warms up and does not count.
func (b *bench) contest(ctx context.Context, sides ...side) (scores, error) {
	found := make(scores, len(sides))
	for r := -1; r < b.rounds; r++ {
		for i, s := range sides {
			d := b.round
			if r < 0 {
				d /= 5
			}
			score, err := s.play(ctx, d)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			if r >= 0 {
				found[i] = append(found[i], score)
			}
		}
	}
	for i, s := range sides {
		say("  %s: %.4g", s.name, found[i])
	}
	return found, nil
}

func (s side) play(ctx context.Context, d time.Duration) (float64, error) {
	if s.prepare != nil {
		if err := s.prepare(ctx); err != nil {
			return 0, fmt.Errorf("prepare: %w", err)
		}
	}
	return s.round(ctx, d)
}

// median is a side's figure.
func (s scores) median(side int) float64 { return median(s[side]) }

// ratio is the median of what the rounds say of one side against another.
func (s scores) ratio(side, against int) float64 {
	ratios := make([]float64, len(s[side]))
	for i := range ratios {
		ratios[i] = s[side][i] / s[against][i]
	}
	return median(ratios)
}

// median returns the middle of values, 0 when there are none.
func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile returns the value below which the share q of values lies.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// millis returns d in milliseconds.
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// errEnough ends a load before its time without a failure.
var errEnough = errors.New("nothing is left to do")

// driven is a side's round that drives a load.
func driven(clients int, op load) func(ctx context.Context, d time.Duration) (float64, error) {
	return func(ctx context.Context, d time.Duration) (float64, error) { return drive(ctx, clients, d, op) }
}

// load is what one client does again and again; it returns how much it did.
type load func(ctx context.Context, client int) (done int, err error)

// one makes a load of what does one thing at a time.
func one(op func(ctx context.Context, client int) error) load {
	return func(ctx context.Context, client int) (int, error) { return 1, op(ctx, client) }
}

// drive has clients do op for the time d, and returns how much was done per second. A client ends what it began; what
// that takes beyond d counts as time.
func drive(ctx context.Context, clients int, d time.Duration, op load) (float64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var done atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for client := range clients {
		all.Go(func() {
			for time.Since(began) < d && ctx.Err() == nil {
				n, err := op(ctx, client)
				if err != nil {
					cancel(err)
					return
				}
				done.Add(int64(n))
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, errEnough) {
		return 0, err
	}
	return float64(done.Load()) / time.Since(began).Seconds(), nil
}

// each calls f for 0 to n-1, at most width at a time, until one fails.
func each(ctx context.Context, n, width int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(n, width) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}
