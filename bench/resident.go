package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// resident collects how much memory a process has resident at the end of each round.
type resident struct {
	pid    int
	rounds []float64 // in bytes, the warming up first
}

// watched is a round after which the memory is noted.
func (r *resident) watched(round func(ctx context.Context, d time.Duration) (float64, error)) func(ctx context.Context, d time.Duration) (float64, error) {
	return func(ctx context.Context, d time.Duration) (float64, error) {
		score, err := round(ctx, d)
		if err != nil {
			return 0, err
		}
		bytes, err := residentBytes(r.pid)
		r.rounds = append(r.rounds, bytes)
		return score, err
	}
}

// residentBytes returns the resident memory of a process. It needs Linux's /proc.
func residentBytes(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	var kib float64
	_, found, _ := strings.Cut(string(status), "VmRSS:")
	if _, err := fmt.Sscan(found, &kib); err != nil {
		return 0, fmt.Errorf("the resident memory of process %d: %w", pid, err)
	}
	return kib * 1024, nil
}

// residents is the row of the memory of one process beside another's, whose rounds were played in turn.
func residents(measure string, ours, theirs resident, limit string, g goal) row {
	s := scores{ours.rounds[1:], theirs.rounds[1:]}
	ratio := s.ratio(0, 1)
	return row{
		measure: measure, ours: kib(s.median(0)), limit: limit + " " + kib(s.median(1)), ratio: times(ratio), goal: g.text, met: g.met(ratio),
	}
}
