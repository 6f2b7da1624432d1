package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// processes implements ports.Processes. Every judgement of time is the database's.
type processes struct{ s *Store }

const registerText = "INSERT INTO processes (process_id, address, started_at, expires_at, draining, dead)" +
	" VALUES ($1::text, $2::text, " + nowMS + ", " + nowMS + " + $3::bigint, false, false)"

// Register inserts a new live process. Should the reply get lost, the retry finds the row that it inserted itself.
func (p processes) Register(ctx context.Context, id, address string, ttl time.Duration) error {
	sentBefore := false
	return p.s.retry(ctx, func(ctx context.Context, conn *pgxpool.Conn) (bool, error) {
		_, err := conn.Exec(ctx, registerText, id, address, ttl.Milliseconds())
		var server *pgconn.PgError
		if errors.As(err, &server) && server.Code == "23505" {
			if sentBefore {
				return false, nil
			}
			return false, errProcessIDUsed
		}
		sentBefore = true
		return false, err
	})
}

// errProcessIDUsed is a fault of the caller: ids of processes are minted anew at each start.
var errProcessIDUsed = errors.New("the process id was used before")

const (
	renewText = `
WITH beat AS (
    UPDATE processes SET expires_at = ` + nowMS + ` + $2::bigint
    WHERE process_id = $1::text AND NOT dead AND expires_at > ` + nowMS + ` RETURNING process_id
)
SELECT coalesce(r.tenant_id, ''), coalesce(r.session_id, ''), coalesce(r.run_id, ''), coalesce(r.epoch, 0)
FROM beat AS b LEFT JOIN runs AS r ON r.owner = b.process_id AND r.status = 'running' AND r.cancel_seq IS NOT NULL`

	ownedText = "SELECT tenant_id, session_id, run_id, epoch FROM runs WHERE owner = $1::text AND status = 'running'"
)

// Renew implements ports.Processes. Repeating it is harmless, so a lost reply is answered by another renewal.
func (p processes) Renew(ctx context.Context, id string, ttl time.Duration) ([]ports.Owned, error) {
	var owned []ports.Owned
	err := p.s.read(ctx, func(ctx context.Context, q querier) error {
		owned = nil
		live := false
		err := eachOwned(ctx, q, func(o ports.Owned) {
			if live = true; o.Run != "" {
				owned = append(owned, o)
			}
		}, renewText, id, ttl.Milliseconds())
		if err == nil && !live {
			return ports.ErrProcessDead
		}
		return err
	})
	return owned, err
}

// Owned implements ports.Processes.
func (p processes) Owned(ctx context.Context, id string) ([]ports.Owned, error) {
	var owned []ports.Owned
	err := p.s.read(ctx, func(ctx context.Context, q querier) error {
		owned = nil
		return eachOwned(ctx, q, func(o ports.Owned) { owned = append(owned, o) }, ownedText, id)
	})
	return owned, err
}

func eachOwned(ctx context.Context, q querier, f func(ports.Owned), text string, args ...any) error {
	rows, err := q.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	var o ports.Owned
	_, err = pgx.ForEachRow(rows, []any{&o.Ref.Tenant, &o.Ref.Session, &o.Run, &o.Epoch}, func() error {
		f(o)
		return nil
	})
	return err
}

// SetDraining implements ports.Processes; it returns ErrProcessDead like Renew.
func (p processes) SetDraining(ctx context.Context, id string) error {
	return p.s.retry(ctx, func(ctx context.Context, conn *pgxpool.Conn) (bool, error) {
		tag, err := conn.Exec(ctx, "UPDATE processes SET draining = true WHERE process_id = $1::text AND NOT dead AND expires_at > "+nowMS, id)
		if err == nil && tag.RowsAffected() == 0 {
			err = ports.ErrProcessDead
		}
		return false, err
	})
}

// Deregister implements ports.Processes. A missing row is as good as a dead one.
func (p processes) Deregister(ctx context.Context, id string) error {
	return p.s.retry(ctx, func(ctx context.Context, conn *pgxpool.Conn) (bool, error) {
		_, err := conn.Exec(ctx, "UPDATE processes SET dead = true WHERE process_id = $1::text", id)
		return false, err
	})
}

const (
	// quietText tells that there is nobody to bury and nothing to rescue, as is nearly always so, and when the next lease runs
	// out.
	quietText = `
WITH RECURSIVE ` + ownersText + `
SELECT NOT EXISTS (SELECT 1 FROM processes WHERE dead OR expires_at <= ` + nowMS + `) AND NOT EXISTS (
    SELECT 1 FROM owners AS o
    WHERE o.owner IS NOT NULL AND NOT EXISTS (SELECT 1 FROM processes AS p WHERE p.process_id = o.owner)),
    (SELECT coalesce(min(expires_at) - ` + nowMS + `, 0) FROM processes)`

	// ownersText finds the owners of running runs by leaping through their index.
	ownersText = `owners AS (
    (SELECT owner FROM runs WHERE status = 'running' ORDER BY owner LIMIT 1)
    UNION ALL
    SELECT (SELECT r.owner FROM runs AS r WHERE r.status = 'running' AND r.owner > o.owner ORDER BY r.owner LIMIT 1)
    FROM owners AS o WHERE o.owner IS NOT NULL
)`

	// buryText passes over a row that a claim still holds: its process may have frozen, and the others are not to wait.
	buryText = "UPDATE processes SET dead = true WHERE process_id IN (SELECT process_id FROM processes WHERE NOT dead AND expires_at <= " + nowMS +
		" ORDER BY process_id FOR NO KEY UPDATE SKIP LOCKED)"

	// orphansText yields the running runs of dead processes and of those without a row, and each dead process that
	// owns none as a row without run.
	orphansText = `
WITH RECURSIVE ` + ownersText + `, gone AS (
    SELECT process_id FROM processes WHERE dead
    UNION
    SELECT o.owner FROM owners AS o
    WHERE o.owner IS NOT NULL AND NOT EXISTS (SELECT 1 FROM processes AS p WHERE p.process_id = o.owner)
)
SELECT coalesce(r.tenant_id, ''), coalesce(r.session_id, ''), coalesce(r.run_id, '')
FROM gone AS g LEFT JOIN runs AS r ON r.owner = g.process_id AND r.status = 'running'
ORDER BY r.run_id`

	forgetText = "DELETE FROM processes AS p WHERE p.dead AND NOT EXISTS" +
		" (SELECT 1 FROM runs AS r WHERE r.owner = p.process_id AND r.status = 'running')"
)

// Bury implements ports.Processes. It looks first, and normally leaves it at that. The two statements of one round trip
// run one after the other, so the second sees what a claim committed before its process was marked dead.
func (p processes) Bury(ctx context.Context) (orphans []ports.RunRef, next time.Duration, err error) {
	err = p.s.retry(ctx, func(ctx context.Context, conn *pgxpool.Conn) (bool, error) {
		orphans, next = nil, 0
		quiet, forget, left := false, false, int64(0)
		if err := conn.QueryRow(ctx, quietText).Scan(&quiet, &left); err != nil {
			return false, err
		}
		if quiet {
			next = time.Duration(left) * time.Millisecond
			return false, nil
		}
		batch := &pgx.Batch{}
		batch.Queue(buryText)
		batch.Queue(orphansText).Query(func(rows pgx.Rows) error {
			var ref domain.SessionRef
			var run string
			_, err := pgx.ForEachRow(rows, []any{&ref.Tenant, &ref.Session, &run}, func() error {
				if run == "" {
					forget = true
				} else {
					orphans = append(orphans, ports.RunRef{Ref: ref, Run: run})
				}
				return nil
			})
			return err
		})
		if err := conn.SendBatch(ctx, batch).Close(); err != nil {
			return false, err
		}
		if !forget {
			return false, nil
		}
		_, err := conn.Exec(ctx, forgetText)
		return false, err
	})
	return orphans, next, err
}

// List implements ports.Processes.
func (p processes) List(ctx context.Context) ([]ports.Process, error) {
	return list(ctx, p.s, p.s.lists.Processes)
}
