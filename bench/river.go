package main

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverPeer is River in a database of its own.
type riverPeer struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx] // inserts only
	worker *riverWorker
	drop   func()
}

// riverJob does nothing. At tells when it was about to be inserted.
type riverJob struct {
	At  time.Time `json:"at"`
	Pad string    `json:"pad"`
}

func (riverJob) Kind() string { return "bench" }

type riverWorker struct {
	river.WorkerDefaults[riverJob]

	done    atomic.Int64
	mu      sync.Mutex
	started map[time.Time]time.Time // when the job that was about to be inserted at the key began
}

func (w *riverWorker) Work(_ context.Context, job *river.Job[riverJob]) error {
	if at := job.Args.At; !at.IsZero() {
		w.mu.Lock()
		w.started[at.UTC()] = time.Now()
		w.mu.Unlock()
	}
	w.done.Add(1)
	return nil
}

// openRiver makes the database. The caller closes the peer.
func (b *bench) openRiver(ctx context.Context, server string) (*riverPeer, error) {
	at, drop, err := freshDatabase(ctx, server)
	if err != nil {
		return nil, err
	}
	p := &riverPeer{drop: drop, worker: &riverWorker{started: map[time.Time]time.Time{}}}
	if p.pool, err = openPool(ctx, at, b.conns); err != nil {
		drop()
		return nil, err
	}
	err = p.migrate(ctx)
	if err == nil {
		p.client, err = p.newClient(0)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *riverPeer) migrate(ctx context.Context) error {
	m, err := rivermigrate.New(riverpgxv5.New(p.pool), nil)
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func (p *riverPeer) close() {
	p.pool.Close()
	p.drop()
}

// newClient returns a client with as many workers, tuned to fetch again after a millisecond.
func (p *riverPeer) newClient(workers int) (*river.Client[pgx.Tx], error) {
	const cooldown = time.Millisecond
	cfg := &river.Config{Workers: river.NewWorkers(), FetchCooldown: cooldown, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	river.AddWorker(cfg.Workers, p.worker)
	if workers > 0 {
		cfg.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers, FetchCooldown: cooldown}}
	}
	return river.NewClient(riverpgxv5.New(p.pool), cfg)
}

// riverPad makes a job's arguments one kibibyte.
var riverPad = filler[:kibibyte-60]

func (p *riverPeer) insert(ctx context.Context, at time.Time) error {
	_, err := p.client.Insert(ctx, riverJob{At: at, Pad: riverPad}, nil)
	return err
}

// fill leaves exactly n jobs in the queue.
func (p *riverPeer) fill(ctx context.Context, n int) error {
	if _, err := p.pool.Exec(ctx, "TRUNCATE river_job"); err != nil {
		return err
	}
	const batch = 1000
	for n > 0 {
		jobs := make([]river.InsertManyParams, min(n, batch))
		for i := range jobs {
			jobs[i].Args = riverJob{Pad: riverPad}
		}
		if _, err := p.client.InsertManyFast(ctx, jobs); err != nil {
			return err
		}
		n -= len(jobs)
	}
	for _, s := range []string{"VACUUM ANALYZE river_job", "CHECKPOINT"} {
		if _, err := p.pool.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// drain works n jobs and returns how many per second were completed for good.
func (p *riverPeer) drain(ctx context.Context, n int) (float64, error) {
	p.worker.done.Store(0)
	stop, err := p.start(ctx, 1000)
	if err != nil {
		return 0, err
	}
	defer stop()
	began := time.Now()
	for {
		left := n
		if p.worker.done.Load() >= int64(n) {
			if err := p.pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state <> 'completed'").Scan(&left); err != nil {
				return 0, err
			}
		}
		if left == 0 {
			return float64(n) / time.Since(began).Seconds(), nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// start starts workers.
func (p *riverPeer) start(ctx context.Context, workers int) (stop func(), err error) {
	c, err := p.newClient(workers)
	if err != nil {
		return nil, err
	}
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = c.Stop(ctx)
	}, nil
}
