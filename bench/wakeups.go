package main

import (
	"context"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/ports"
)

// wakeupCost compares appends that are told to this process and to another one that waits for each session with appends
// that are told to nobody.
func wakeupCost(ctx context.Context, b *bench) ([]row, error) {
	const sessions = 64
	server, err := postgresServer()
	if err != nil {
		return nil, err
	}
	loud, at, err := b.freshRig(ctx, server)
	if err != nil {
		return nil, err
	}
	defer loud.close()
	heard, err := loud.claimed(ctx, sessions)
	if err != nil {
		return nil, err
	}
	other, err := postgres.OpenBus(postgres.BusConfig{URL: at})
	if err != nil {
		return nil, err
	}
	defer other.Close()
	for _, a := range heard {
		_, cancel := other.Subscribe(ports.Topic{Session: a.ref})
		defer cancel()
	}
	quiet, err := b.quietPostgresRig(ctx, at, nil)
	if err != nil {
		return nil, err
	}
	defer quiet.close()
	unheard, err := quiet.claimed(ctx, sessions)
	if err != nil {
		return nil, err
	}
	if err := tidyUp(ctx, at); err != nil {
		return nil, err
	}
	s, err := b.contest(ctx,
		side{name: "appends with wake-ups", round: driven(sessions, one(func(ctx context.Context, client int) error {
			return loud.append(ctx, heard[client])
		}))},
		side{name: "appends without", round: driven(sessions, one(func(ctx context.Context, client int) error {
			return quiet.append(ctx, unheard[client])
		}))},
	)
	if err != nil {
		return nil, err
	}
	cost := 1 - s.ratio(0, 1)
	g := atMost(0.1, "costs ≤ 10 %")
	return []row{{
		measure: "appends with wake-ups to two processes, 64 sessions", ours: perSecond(s.median(0)),
		limit: "nobody is told " + perSecond(s.median(1)), ratio: times(s.ratio(0, 1)), goal: g.text, met: g.met(cost),
	}}, nil
}
