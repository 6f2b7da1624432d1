package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/ports"
)

// takeover times how long the run of a dead process waits until another one has it before its provider.
func takeover(ctx context.Context, b *bench) ([]row, error) {
	const runs = 8
	ttl := pick(b, 5*time.Second, 2*time.Second)
	server, err := postgresServer()
	if err != nil {
		return nil, err
	}
	r, _, err := b.freshRig(ctx, server)
	if err != nil {
		return nil, err
	}
	defer r.close()
	// The process that dies takes the runs and never beats.
	dying := *r
	dying.process = newID()
	began := time.Now()
	if err := dying.processes.Register(ctx, dying.process, "bench", ttl); err != nil {
		return nil, err
	}
	if _, err := dying.claimed(ctx, runs); err != nil {
		return nil, err
	}
	called := make(chan time.Duration, runs)
	provider := stubProvider{answer: func(ports.ModelRequest) ports.Reply {
		called <- time.Since(began)
		return lastAnswer()
	}}
	stop, err := r.startRunner(ctx, provider, runner.Config{})
	if err != nil {
		return nil, err
	}
	defer stop()
	var waits []float64
	for len(waits) < runs {
		select {
		case d := <-called:
			waits = append(waits, millis(d))
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(ttl + 30*time.Second):
			return nil, errStuck
		}
	}
	worst := slices.Max(waits)
	g := atMost(millis(ttl+2*time.Second), "≤ ttl + 2 s")
	return []row{{
		measure: fmt.Sprintf("takeover of %d runs of a dead process, until the last one", runs), ours: seconds(worst),
		limit: "time to live " + seconds(millis(ttl)), ratio: fmt.Sprintf("%+.2f s", (worst-millis(ttl))/1000), goal: g.text, met: g.met(worst),
	}}, nil
}

func seconds(ms float64) string { return fmt.Sprintf("%.2f s", ms/1000) }
