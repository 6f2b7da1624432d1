package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// claims compares runs that are claimed in batches and settled side by side with runs that are claimed and settled one
// by one, and with River's workers.
func claims(ctx context.Context, b *bench) ([]row, error) {
	server, err := postgresServer()
	if err != nil {
		return nil, err
	}
	r, at, err := b.freshRig(ctx, server)
	if err != nil {
		return nil, err
	}
	defer r.close()
	refs, err := r.createAll(ctx, 1)
	if err != nil {
		return nil, err
	}
	if err := r.submit(ctx, refs[0]); err != nil {
		return nil, err
	}
	pending, err := keepTemplate(ctx, at)
	if err != nil {
		return nil, err
	}
	defer pending.close()

	var taken atomic.Int64 // of the copies
	enough := int(12_000 * b.round.Seconds())
	prepare := func(ctx context.Context) error {
		if left := pending.made - int(taken.Load()); left < enough {
			return pending.more(ctx, enough-left)
		}
		return nil
	}
	// batchOf claims at most n runs and settles them at the same time.
	batchOf := func(n int) load {
		return func(ctx context.Context, _ int) (int, error) {
			claims, err := r.runs.Claim(ctx, ports.ClaimRequest{Process: r.process, Max: n})
			if err != nil {
				return 0, err
			}
			if len(claims) == 0 {
				return 0, errEnough
			}
			taken.Add(int64(len(claims)))
			return len(claims), each(ctx, len(claims), n, func(ctx context.Context, i int) error {
				return r.settle(ctx, attemptOf(claims[i]), domain.Permanent)
			})
		}
	}
	const batch, singles = 64, 16
	sides := []side{
		{name: "claims and settlements in batches", prepare: prepare, round: driven(2, batchOf(batch))},
		{name: "one by one", prepare: prepare, round: driven(singles, batchOf(1))},
	}
	if b.peers {
		peer, err := b.openRiver(ctx, server)
		if err != nil {
			return nil, err
		}
		defer peer.close()
		jobs := int(4_000 * b.round.Seconds())
		sides = append(sides, side{
			name:    "River, drain",
			prepare: func(ctx context.Context) error { return peer.fill(ctx, jobs) },
			round:   func(ctx context.Context, _ time.Duration) (float64, error) { return peer.drain(ctx, jobs) },
		})
	}
	s, err := b.contest(ctx, sides...)
	if err != nil {
		return nil, err
	}
	const measure = "runs claimed and settled in batches of 64"
	rows := []row{rates(measure, s, 0, 1, "one by one, 16 clients,", atLeast(10))}
	if b.peers {
		rows = append(rows, rates("the same", s, 0, 2, "River, drain,", atLeast(1.5)))
	}
	return rows, nil
}
