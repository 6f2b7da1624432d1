package main

import (
	"context"
	"fmt"
	"time"
)

// heartbeats times the renewal of a process by the number of runs that it has.
func heartbeats(ctx context.Context, b *bench) ([]row, error) {
	counts := pick(b, []int{1, 1000, 10_000}, []int{1, 100, 1000})
	server, err := postgresServer()
	if err != nil {
		return nil, err
	}
	seed, at, err := b.freshRig(ctx, server)
	if err != nil {
		return nil, err
	}
	defer seed.close()
	refs, err := seed.createAll(ctx, 1)
	if err != nil {
		return nil, err
	}
	if err := seed.submit(ctx, refs[0]); err != nil {
		return nil, err
	}
	pending, err := keepTemplate(ctx, at)
	if err != nil {
		return nil, err
	}
	defer pending.close()

	var beats []func(ctx context.Context) error
	for _, n := range counts {
		owner, err := b.postgresRig(ctx, at)
		if err != nil {
			return nil, err
		}
		defer owner.close()
		if err := pending.more(ctx, n); err != nil {
			return nil, err
		}
		if _, err := owner.claim(ctx, n); err != nil {
			return nil, err
		}
		beats = append(beats, func(ctx context.Context) error {
			_, err := owner.processes.Renew(ctx, owner.process, longLease)
			return err
		})
	}
	bare, err := openPool(ctx, at, 1)
	if err != nil {
		return nil, err
	}
	defer bare.Close()
	if _, err := bare.Exec(ctx, "CREATE TABLE bare (LIKE processes INCLUDING ALL); INSERT INTO bare SELECT * FROM processes LIMIT 1"); err != nil {
		return nil, err
	}
	beats = append(beats, func(ctx context.Context) error {
		_, err := bare.Exec(ctx, "UPDATE bare SET expires_at = expires_at + 1")
		return err
	})
	if err := tidyUp(ctx, at); err != nil {
		return nil, err
	}
	took, err := inTurn(ctx, b.round, beats)
	if err != nil {
		return nil, err
	}
	limit := median(took[len(took)-1])
	alone := median(took[0])
	var rows []row
	for i, n := range counts {
		at := median(took[i])
		r := row{
			measure: "heartbeat of a process with " + plural(n, "live run"), ours: ms(at), limit: "bare `UPDATE` of one row " + ms(limit),
			ratio: times(at / limit),
		}
		if i > 0 {
			g := atMost(1.25, "flat: ≤ 1.25 × of 1 run")
			r.ratio += fmt.Sprintf("; %s of 1 run", times(at/alone))
			r.goal, r.met = g.text, g.met(at/alone)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// inTurn does each of ops in turn until the time d is over, and returns how many milliseconds each took.
func inTurn(ctx context.Context, d time.Duration, ops []func(ctx context.Context) error) ([][]float64, error) {
	took := make([][]float64, len(ops))
	for began := time.Now(); time.Since(began) < d; {
		for i, op := range ops {
			at := time.Now()
			if err := op(ctx); err != nil {
				return nil, err
			}
			took[i] = append(took[i], millis(time.Since(at)))
		}
	}
	return took, nil
}
