package main

import (
	"context"
	"sync/atomic"
	"time"
)

// submits compares inputs, each with the run that will answer it, with River's inserts of one job each.
func submits(ctx context.Context, b *bench) ([]row, error) {
	const clients = 64
	server, err := postgresServer()
	if err != nil {
		return nil, err
	}
	r, at, err := b.freshRig(ctx, server)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if _, err := r.createAll(ctx, 1); err != nil {
		return nil, err
	}
	idle, err := keepTemplate(ctx, at)
	if err != nil {
		return nil, err
	}
	defer idle.close()
	var used atomic.Int64
	sides := []side{{
		name: "submits",
		prepare: func(ctx context.Context) error {
			used.Store(int64(idle.made))
			return idle.more(ctx, int(15_000*b.round.Seconds()))
		},
		round: driven(clients, one(func(ctx context.Context, _ int) error {
			i := int(used.Add(1)) - 1
			if i >= idle.made {
				return errEnough
			}
			return r.submit(ctx, refTo(copied(i)))
		})),
	}}
	if b.peers {
		peer, err := b.openRiver(ctx, server)
		if err != nil {
			return nil, err
		}
		defer peer.close()
		sides = append(sides, side{name: "River, inserts", round: driven(clients, one(func(ctx context.Context, _ int) error {
			return peer.insert(ctx, time.Time{})
		}))})
	}
	s, err := b.contest(ctx, sides...)
	if err != nil {
		return nil, err
	}
	const measure = "submits (event and run, atomic), 64 clients"
	if !b.peers {
		return []row{alone(measure, s, 0, errNoPeers.why)}, nil
	}
	return []row{rates(measure, s, 0, 1, "River, single inserts,", atLeast(4))}, nil
}
