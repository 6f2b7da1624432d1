package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"
)

// dbosPeer is DBOS in a database of its own.
type dbosPeer struct {
	ctx  dbos.Context
	pool *pgxpool.Pool
	drop func()
}

// openDBOS makes the database. The caller closes the peer.
func (b *bench) openDBOS(ctx context.Context, server string) (*dbosPeer, error) {
	at, drop, err := freshDatabase(ctx, server)
	if err != nil {
		return nil, err
	}
	p := &dbosPeer{drop: drop}
	if p.pool, err = openPool(ctx, at, b.conns); err != nil {
		drop()
		return nil, err
	}
	p.ctx, err = dbos.NewContext(ctx, dbos.Config{
		AppName: "bench", SystemDBPool: p.pool, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err == nil {
		dbos.RegisterWorkflow(p.ctx, threeSteps)
		err = dbos.Launch(p.ctx)
	}
	if err != nil {
		p.pool.Close()
		drop()
		return nil, err
	}
	return p, nil
}

// threeSteps is a durable workflow whose steps give one kibibyte each.
func threeSteps(ctx dbos.Context, _ string) (string, error) {
	for range 3 {
		if _, err := dbos.RunAsStep(ctx, func(context.Context) (string, error) { return filler[:kibibyte], nil }); err != nil {
			return "", err
		}
	}
	return "done", nil
}

// workflow plays one workflow to its end.
func (p *dbosPeer) workflow(context.Context, int) error {
	h, err := dbos.RunWorkflow(p.ctx, threeSteps, filler[:kibibyte])
	if err != nil {
		return err
	}
	_, err = h.GetResult()
	return err
}

func (p *dbosPeer) close() {
	_ = dbos.Shutdown(p.ctx, 5*time.Second)
	p.pool.Close()
	p.drop()
}
