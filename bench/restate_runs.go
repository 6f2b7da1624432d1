package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
)

// restateRuns compares whole runs with Restate's: through the ports, by the runner, and by servers over HTTP, which is
// Restate's own way; and the memory of those servers with that of Restate's.
func restateRuns(ctx context.Context, b *bench) ([]row, error) {
	server, err := postgresServer()
	if err != nil {
		return nil, err
	}
	r := &restateContest{server: server}
	defer r.close()
	if err := r.open(ctx, b); err != nil {
		return nil, err
	}
	var rows []row
	for _, n := range []int{32, 64} {
		found, err := r.play(ctx, b, n)
		rows = append(rows, found...)
		if err != nil {
			return rows, err
		}
	}
	return append(rows, r.memory()...), nil
}

// restateContest holds the servers.
type restateContest struct {
	server     string // of Postgres
	onPostgres *servedRuns
	onSQLite   *servedRuns
	peer       *restatePeer // nil when there is none
	why        string
	ends       []func()
}

func (r *restateContest) close() {
	for _, end := range slices.Backward(r.ends) {
		end()
	}
}

func (r *restateContest) open(ctx context.Context, b *bench) error {
	const clients = 64
	keel := filepath.Join(b.dir, "keel")
	if err := buildKeel(ctx, keel); err != nil {
		return err
	}
	at, drop, err := keelDatabase(ctx, r.server)
	if err != nil {
		return err
	}
	r.ends = append(r.ends, drop)
	if r.onPostgres, err = b.serveRuns(ctx, keel, clients, "--store", at, "--max-conns", strconv.Itoa(b.conns)); err != nil {
		return err
	}
	r.ends = append(r.ends, r.onPostgres.close)
	if r.onSQLite, err = b.serveRuns(ctx, keel, clients, "--store", "sqlite:"+filepath.Join(b.dir, newID()+".db")); err != nil {
		return err
	}
	r.ends = append(r.ends, r.onSQLite.close)
	r.peer, err = b.openRestate(ctx)
	if r.why, err = absence(err); err != nil {
		return err
	}
	if r.peer != nil {
		r.ends = append(r.ends, r.peer.close)
	}
	return nil
}

// play plays n runs at a time.
func (r *restateContest) play(ctx context.Context, b *bench, n int) ([]row, error) {
	byPorts, endPorts, err := b.runsByPorts(ctx, r.server, n)
	if err != nil {
		return nil, err
	}
	defer endPorts()
	byRunner, endRunner, err := b.runsByRunner(ctx, r.server, n)
	if err != nil {
		return nil, err
	}
	defer endRunner()
	r.forget()
	sides := []side{
		{name: fmt.Sprintf("whole runs, %d at once", n), round: driven(n, one(byPorts))},
		{name: fmt.Sprintf("whole runs by the runner, %d at once", n), round: driven(n, one(byRunner))},
		r.onPostgres.side("Postgres", n),
		r.onSQLite.side("SQLite", n),
	}
	if r.peer != nil {
		sides = append(sides, side{name: "Restate, workflows of 3 steps", round: r.peer.resident.watched(driven(n, one(r.peer.run)))})
	}
	s, err := b.contest(ctx, sides...)
	if err == nil {
		err = errors.Join(r.onPostgres.check(), r.onSQLite.check())
	}
	if err != nil {
		return nil, err
	}
	var rows []row
	for i, side := range sides[:4] {
		if r.peer == nil {
			rows = append(rows, alone(side.name, s, i, r.why))
			continue
		}
		rows = append(rows, rates(side.name, s, i, 4, "Restate, workflows of 3 steps,", atLeast(3)))
	}
	return rows, nil
}

// forget leaves out the memory of what has been played.
func (r *restateContest) forget() {
	r.onPostgres.resident.rounds, r.onSQLite.resident.rounds = nil, nil
	if r.peer != nil {
		r.peer.resident.rounds = nil
	}
}

// memory compares the servers after what was played last.
func (r *restateContest) memory() []row {
	if r.peer == nil {
		return nil
	}
	g := atMost(0.25, "≤ 0.25 ×")
	const measure, limit = "memory of `keel serve` on %s, after these", "Restate"
	return []row{
		residents(fmt.Sprintf(measure, "Postgres"), r.onPostgres.resident, r.peer.resident, limit, g),
		residents(fmt.Sprintf(measure, "SQLite"), r.onSQLite.resident, r.peer.resident, limit, g),
	}
}
