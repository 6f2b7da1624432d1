package main

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/ports"
)

// betweenSubmits is the time from one submit to the next.
const betweenSubmits = 10 * time.Millisecond

// latencies times the way from an acknowledged submit to the call of the provider in the same process, beside a bare
// commit and beside River's way from an inserted job to its worker.
func latencies(ctx context.Context, b *bench) ([]row, error) {
	server, err := postgresServer()
	if err != nil {
		return nil, err
	}
	onSQLite, closeSQLite, err := b.latencyOnSQLite(ctx)
	if err != nil {
		return nil, err
	}
	defer closeSQLite()
	onPostgres, closePostgres, err := b.latencyOnPostgres(ctx, server)
	if err != nil {
		return nil, err
	}
	defer closePostgres()
	lines := []*waiting{onSQLite, onPostgres}
	if b.peers {
		peer, err := b.openRiver(ctx, server)
		if err != nil {
			return nil, err
		}
		defer peer.close()
		lines = append(lines, &waiting{round: peer.latency})
	}
	for range b.rounds {
		for _, l := range lines {
			waits, commits, err := l.round(ctx, b.round)
			if err != nil {
				return nil, err
			}
			l.waits, l.commits = append(l.waits, waits...), append(l.commits, commits...)
		}
	}
	var rows []row
	for i, store := range []string{"SQLite", "Postgres"} {
		rows = append(rows, lines[i].median(store))
		if b.peers {
			rows = append(rows, lines[i].tail(store, lines[2]))
		}
	}
	return rows, nil
}

// waiting collects, in milliseconds, what rounds of submits waited for and what commits took beside them.
type waiting struct {
	round          func(ctx context.Context, d time.Duration) (waits, commits []float64, err error)
	waits, commits []float64
}

func (w *waiting) median(store string) row {
	wait, commit := median(w.waits), median(w.commits)
	g := atMost(1, "≤ commit + 1 ms")
	return row{
		measure: "submit acknowledged → provider called, " + store + ", p50", ours: ms(wait), limit: "bare commit, p50, " + ms(commit),
		ratio: fmt.Sprintf("%+.2f ms", wait-commit), goal: g.text, met: g.met(wait - commit),
	}
}

func (w *waiting) tail(store string, peer *waiting) row {
	wait, theirs := quantile(w.waits, 0.99), quantile(peer.waits, 0.99)
	g := atMost(1, "≤ tuned River")
	return row{
		measure: "the same, " + store + ", p99", ours: ms(wait),
		limit: fmt.Sprintf("River, tuned, inserted → working, p99, %s (p50 %s)", ms(theirs), ms(median(peer.waits))),
		ratio: times(wait / theirs), goal: g.text, met: g.met(wait / theirs),
	}
}

func (b *bench) latencyOnSQLite(ctx context.Context) (*waiting, func(), error) {
	bare, err := b.bareSQLite(ctx, 1)
	if err != nil {
		return nil, nil, err
	}
	ended := finishes{}
	r, err := b.sqliteRig(ctx, ended)
	if err != nil {
		bare.close()
		return nil, nil, err
	}
	w, stop, err := b.latencyOn(ctx, r, ended, bare.insert)
	end := func() {
		stop()
		r.close()
		bare.close()
	}
	if err != nil {
		end()
	}
	return w, end, err
}

func (b *bench) latencyOnPostgres(ctx context.Context, server string) (*waiting, func(), error) {
	at, drop, err := keelDatabase(ctx, server)
	if err != nil {
		return nil, nil, err
	}
	bare, err := b.bareInserts(ctx, at, 1)
	if err != nil {
		drop()
		return nil, nil, err
	}
	ended := finishes{}
	r, err := b.postgresRig(ctx, at, ended)
	if err != nil {
		bare.close()
		drop()
		return nil, nil, err
	}
	w, stop, err := b.latencyOn(ctx, r, ended, bare.insert)
	end := func() {
		stop()
		r.close()
		bare.close()
		drop()
	}
	if err != nil {
		end()
	}
	return w, end, err
}

// latencyOn starts a runner and returns rounds of submits, each to the next of a few sessions and each after the run
// before it ended. ended must be told of the rig's commits and nothing may have been committed yet.
func (b *bench) latencyOn(
	ctx context.Context, r *rig, ended finishes, commit func(ctx context.Context, client int) error,
) (w *waiting, stop func(), err error) {
	stop = func() {}
	refs := newRefs(256) // many, so that ledgers stay short
	maps.Copy(ended, newFinishes(refs))
	if err := each(ctx, len(refs), b.conns, func(ctx context.Context, i int) error { return r.create(ctx, refs[i]) }); err != nil {
		return nil, stop, err
	}
	called := make(chan time.Time, 1)
	provider := stubProvider{answer: func(ports.ModelRequest) ports.Reply {
		called <- time.Now()
		return lastAnswer()
	}}
	if stop, err = r.startRunner(ctx, provider, runner.Config{}); err != nil {
		return nil, func() {}, err
	}
	next := 0
	round := func(ctx context.Context, d time.Duration) (waits, commits []float64, err error) {
		for began := time.Now(); time.Since(began) < d; next++ {
			at, ref := time.Now(), refs[next%len(refs)]
			if err := r.submit(ctx, ref); err != nil {
				return nil, nil, err
			}
			acknowledged := time.Now()
			select {
			case begun := <-called:
				waits = append(waits, max(0, millis(begun.Sub(acknowledged))))
			case <-time.After(30 * time.Second):
				return nil, nil, errStuck
			}
			if err := ended.await(ctx, ref); err != nil {
				return nil, nil, err
			}
			before := time.Now()
			if err := commit(ctx, 0); err != nil {
				return nil, nil, err
			}
			commits = append(commits, millis(time.Since(before)))
			time.Sleep(time.Until(at.Add(betweenSubmits)))
		}
		return waits, commits, nil
	}
	return &waiting{round: round}, stop, nil
}

// latency inserts jobs and returns how long they waited for a worker.
func (p *riverPeer) latency(ctx context.Context, d time.Duration) (waits, commits []float64, err error) {
	stop, err := p.start(ctx, 100)
	if err != nil {
		return nil, nil, err
	}
	defer stop()
	time.Sleep(time.Second) // it elects a leader first
	acknowledged := map[time.Time]time.Time{}
	for began := time.Now(); time.Since(began) < d; time.Sleep(betweenSubmits) {
		at := time.Now().UTC().Round(0)
		if err := p.insert(ctx, at); err != nil {
			return nil, nil, err
		}
		acknowledged[at] = time.Now()
	}
	time.Sleep(200 * time.Millisecond)
	p.worker.mu.Lock()
	defer p.worker.mu.Unlock()
	for at, known := range acknowledged {
		if begun, ok := p.worker.started[at]; ok {
			waits = append(waits, max(0, millis(begun.Sub(known))))
		}
	}
	return waits, nil, nil
}
