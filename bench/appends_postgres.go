package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// appendGoals are the goals of appends on Postgres against bare inserts, by the number of sessions.
var appendGoals = map[int]goal{1: atLeast(0.85), 8: atLeast(0.9), 64: atLeast(1.8), 256: atLeast(2.5)}

func appendsOnPostgres(ctx context.Context, b *bench) ([]row, error) {
	server, err := postgresServer()
	if err != nil {
		return nil, err
	}
	return b.appendsOn(ctx, server, "Postgres", 1, 8, 64, 256)
}

func appendsOnSlowCluster(ctx context.Context, b *bench) ([]row, error) {
	server, err := b.slowServer(ctx)
	if err != nil {
		return nil, err
	}
	return b.appendsOn(ctx, server, "Postgres, fixed fsync", pick(b, []int{1, 8, 64, 256}, []int{1, 64})...)
}

// appendsOn compares appends with bare inserts on a server, for each number of sessions.
func (b *bench) appendsOn(ctx context.Context, server, name string, points ...int) ([]row, error) {
	r, at, err := b.freshRig(ctx, server)
	if err != nil {
		return nil, err
	}
	defer r.close()
	most := points[len(points)-1]
	attempts, err := r.claimed(ctx, most)
	if err != nil {
		return nil, err
	}
	bare, err := b.bareInserts(ctx, at, most)
	if err != nil {
		return nil, err
	}
	defer bare.close()
	if err := tidyUp(ctx, at); err != nil {
		return nil, err
	}
	var rows []row
	for _, n := range points {
		label := fmt.Sprintf("%s, %s", name, plural(n, "session"))
		s, err := b.contest(ctx,
			side{name: "appends, " + label, round: driven(n, one(func(ctx context.Context, client int) error { return r.append(ctx, attempts[client]) }))},
			side{name: "bare INSERT", round: driven(n, one(bare.insert))},
		)
		if err != nil {
			return rows, err
		}
		rows = append(rows, rates("appends, "+label, s, 0, 1, "bare `INSERT`", appendGoals[n]))
	}
	return rows, nil
}

// bareInserts inserts rows of the shape of an event into a table like that of the events, one commit each.
type bareInserts struct {
	pool *pgxpool.Pool
	seqs []paddedSeq
}

// paddedSeq keeps the counters of two clients out of one cache line.
type paddedSeq struct {
	n int64
	_ [56]byte
}

// bareInserts opens as many connections as there are clients, and no more than any side has.
func (b *bench) bareInserts(ctx context.Context, at string, clients int) (*bareInserts, error) {
	if err := execute(ctx, at, "CREATE TABLE bare (LIKE events INCLUDING ALL)"); err != nil {
		return nil, err
	}
	pool, err := openPool(ctx, at, min(clients, b.conns))
	if err != nil {
		return nil, err
	}
	return &bareInserts{pool: pool, seqs: make([]paddedSeq, clients)}, nil
}

const bareText = "INSERT INTO bare (tenant_id, session_id, seq, kind, dedupe_key, payload, created_at, hash, run_id, epoch)" +
	" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"

func (i *bareInserts) insert(ctx context.Context, client int) error {
	i.seqs[client].n++
	_, err := i.pool.Exec(ctx, bareText, i.row(client)...)
	return err
}

func (i *bareInserts) row(client int) []any { return bareRow(client, i.seqs[client].n) }

var bareHash = sha256.Sum256(nil)

// bareRow is row number seq of a client.
func bareRow(client int, seq int64) []any {
	session := fmt.Sprintf("%s-%010d", idPrefix, client)
	return []any{
		tenant, session, seq, "assistant.message", "generationId:" + newID(), messagePayload.String(), time.Now().UnixMilli(), bareHash[:],
		session, int64(1),
	}
}

func (i *bareInserts) close() { i.pool.Close() }

// plural writes a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return thousands(n) + " " + thing + "s"
}
