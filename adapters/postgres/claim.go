package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// liveText locks a live process row so that it cannot be buried while its claims commit.
const liveText = "SELECT draining, " + nowMS + " FROM processes WHERE process_id = $1::text AND NOT dead AND expires_at > " + nowMS +
	" FOR SHARE"

// proposeText names due runs and locks their sessions: one of each tenant in turn, the tenants ascending from the one
// after $2, and within a tenant the run that is due longest. Sessions that others hold are passed over. What it reads
// depends on $1, the number of runs wanted, and neither on the length of the queue nor on the number of tenants: it
// leaps from tenant to tenant along their index. In lap 0 it visits those after $2, in lap 1 the others. The sessions are
// locked one by one, in order, until there are enough. It returns their views, as they were when it began: the second
// column tells that the session was written to before it was locked. The first tells that a tenant has more due runs
// than were looked at.
var proposeText = `
WITH RECURSIVE walk AS (
    (SELECT 0 AS lap, tenant_id, due, due::int AS found FROM (
        SELECT tenant_id, available_at <= ` + nowMS + ` AS due FROM runs
        WHERE status = 'pending' AND NOT parked AND tenant_id > $2::text
        ORDER BY tenant_id, available_at, run_id LIMIT 1) AS first)
    UNION ALL
    (SELECT 1, tenant_id, due, due::int FROM (
        SELECT tenant_id, available_at <= ` + nowMS + ` AS due FROM runs
        WHERE status = 'pending' AND NOT parked AND tenant_id <= $2::text
        ORDER BY tenant_id, available_at, run_id LIMIT 1) AS first)
    UNION ALL
    SELECT w.lap, next.tenant_id, next.due, w.found + next.due::int
    FROM walk AS w CROSS JOIN LATERAL (
        SELECT tenant_id, available_at <= ` + nowMS + ` AS due FROM runs
        WHERE status = 'pending' AND NOT parked AND tenant_id > w.tenant_id
        ORDER BY tenant_id, available_at, run_id LIMIT 1) AS next
    WHERE w.found < $1::bigint AND (w.lap = 0 OR next.tenant_id <= $2::text)
), share AS (
    SELECT $1::bigint / greatest(count(*), 1) + 16 AS size FROM walk WHERE due
), due AS (
    SELECT w.lap, q.*, max(q.turn) OVER () = share.size AS more
    FROM share CROSS JOIN walk AS w CROSS JOIN LATERAL (
        SELECT r.*, row_number() OVER (ORDER BY available_at, run_id) AS turn FROM (
            SELECT run_id, tenant_id, session_id, available_at FROM runs
            WHERE status = 'pending' AND NOT parked AND tenant_id = w.tenant_id AND available_at <= ` + nowMS + `
            ORDER BY available_at, run_id LIMIT share.size) AS r) AS q
    WHERE w.due
)
SELECT d.more, locked.version <> s.version, ` + claimColumns + `
FROM (SELECT * FROM due ORDER BY turn, lap, tenant_id) AS d CROSS JOIN LATERAL (
    SELECT s.version FROM sessions AS s
    WHERE s.tenant_id = d.tenant_id AND s.session_id = d.session_id
      AND s.state_owner = 'native' AND s.owner IS NULL AND s.active_run_id = d.run_id
    FOR UPDATE SKIP LOCKED) AS locked
    CROSS JOIN LATERAL (SELECT * FROM runs AS r WHERE r.run_id = d.run_id OFFSET 0) AS r` + sessionByKey("d") + `
LIMIT $1::bigint`

var claimColumns = sqlstore.Columns("s", (&sqlstore.SessionRow{}).Fields()) + ", " + sqlstore.Columns("r", (&sqlstore.RunRow{}).Fields())

// claimViewsText loads the views of proposed runs, in the order proposed, once their sessions are locked.
var claimViewsText = "SELECT " + claimColumns + " FROM unnest($1::text[]) WITH ORDINALITY AS n(run_id, turn)" +
	" CROSS JOIN LATERAL (SELECT * FROM runs AS r WHERE r.run_id = n.run_id OFFSET 0) AS r" +
	sessionByKey("r") + " ORDER BY n.turn"

// queueText tells whether the process lives and, if it takes work, whether a run may be due: the least of what a claim
// reads, outside of any transaction.
const queueText = `
WITH RECURSIVE walk AS (
    (SELECT tenant_id, available_at <= ` + nowMS + ` AS due FROM runs
     WHERE status = 'pending' AND NOT parked ORDER BY tenant_id, available_at, run_id LIMIT 1)
    UNION ALL
    SELECT next.tenant_id, next.due FROM walk AS w CROSS JOIN LATERAL (
        SELECT tenant_id, available_at <= ` + nowMS + ` AS due FROM runs
        WHERE status = 'pending' AND NOT parked AND tenant_id > w.tenant_id
        ORDER BY tenant_id, available_at, run_id LIMIT 1) AS next
    WHERE NOT w.due
)
SELECT NOT draining AND EXISTS (SELECT 1 FROM walk WHERE due) FROM processes
WHERE process_id = $1::text AND NOT dead AND expires_at > ` + nowMS + `
`

// mayClaim looks whether a claim is worth a transaction. After a commit of this process that queued a run, it is.
func (p runs) mayClaim(ctx context.Context, process string) (may bool, err error) {
	if p.s.queued.Swap(false) {
		return true, nil
	}
	err = p.s.read(ctx, func(ctx context.Context, q querier) error {
		err := q.QueryRow(ctx, queueText, process).Scan(&may)
		if errors.Is(err, pgx.ErrNoRows) {
			err = ports.ErrProcessDead
		}
		return err
	})
	return may, err
}

// Claim implements ports.Runs. The claims of a round commit together; a run that domain refuses is left out. Rounds
// follow until enough was claimed or nothing is due: runs without work do not count.
func (p runs) Claim(ctx context.Context, req ports.ClaimRequest) ([]ports.Claim, error) {
	if may, err := p.mayClaim(ctx, req.Process); err != nil || !may {
		return nil, err
	}
	var claims []ports.Claim
	for {
		c := &claiming{req: req, log: p.s.log, after: p.s.served.get()}
		c.req.Max = max(req.Max-len(claims), 0)
		if err := p.s.retry(ctx, c.attempt); err != nil {
			return claims, err // those of earlier rounds have begun
		}
		for _, ch := range c.changes {
			p.s.views.keep(domain.View{}, &ch.effects, 0, true) // a claim sets no time
			p.s.tell(ch.effects.Session.Ref, ch.effects)
			p.s.served.set(ch.effects.Session.Ref.Tenant)
		}
		claims = append(claims, c.claims...)
		if len(c.changes) == 0 || !c.more || len(claims) >= req.Max {
			return claims, nil
		}
	}
}

// served remembers the tenant that this process served last, so that the next one is served first.
type served struct {
	mu     sync.Mutex
	tenant string
}

func (s *served) get() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tenant
}

func (s *served) set(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tenant = tenant
}

// claiming is one round.
type claiming struct {
	req   ports.ClaimRequest
	log   *zap.Logger
	after string // the tenant served last

	changes []change
	claims  []ports.Claim
	more    bool // further runs are due
}

// attempt takes two round trips: propose, and commit.
func (c *claiming) attempt(ctx context.Context, conn *pgxpool.Conn) (sent bool, err error) {
	c.changes, c.claims, c.more = nil, nil, false
	defer func() { _ = rollback(ctx, conn) }()
	views, now, err := c.propose(ctx, conn)
	if err != nil {
		return false, err
	}
	c.decide(views, now)
	if len(c.changes) == 0 {
		return false, nil
	}
	return true, c.commit(ctx, conn)
}

// propose begins the transaction, checks that the process is live, and locks the sessions of due runs.
func (c *claiming) propose(ctx context.Context, conn *pgxpool.Conn) (views []domain.View, now time.Time, err error) {
	var draining, stale bool
	var nowMS int64
	batch := &pgx.Batch{}
	batch.Queue(beginText)
	batch.Queue(silentText)
	batch.Queue(liveText, c.req.Process).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&draining, &nowMS)
		if errors.Is(err, pgx.ErrNoRows) {
			return ports.ErrProcessDead
		}
		return err
	})
	batch.Queue(proposeText, int64(c.req.Max), c.after).Query(func(rows pgx.Rows) (err error) {
		var moved bool
		views, err = scanViews(rows, []any{&c.more, &moved}, func() { stale = stale || moved })
		return err
	})
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return nil, now, err
	}
	if draining {
		return nil, now, nil
	}
	c.more = c.more || len(views) == c.req.Max
	if stale {
		views, err = claimViews(ctx, conn, views)
	}
	return views, time.UnixMilli(nowMS).UTC(), err
}

// claimViews loads the views of locked sessions anew.
func claimViews(ctx context.Context, conn *pgxpool.Conn, stale []domain.View) ([]domain.View, error) {
	ids := make([]string, len(stale))
	for i, v := range stale {
		ids[i] = v.Run.ID
	}
	rows, err := conn.Query(ctx, claimViewsText, ids)
	if err != nil {
		return nil, err
	}
	return scanViews(rows, nil, func() {})
}

// scanViews reads views that stand behind the columns of dests; each is called for every row.
func scanViews(rows pgx.Rows, dests []any, each func()) ([]domain.View, error) {
	var views []domain.View
	var s sqlstore.SessionRow
	var r sqlstore.RunRow
	_, err := pgx.ForEachRow(rows, sqlstore.Dests(sqlstore.Dests(dests, s.Fields()), r.Fields()), func() error {
		each()
		session, err := s.Session()
		if err != nil {
			return err
		}
		run, err := r.Run()
		views = append(views, domain.View{Ref: session.Ref, Session: session, Run: run})
		return err
	})
	return views, err
}

// commit makes the claims happen and commits, in one round trip. The sessions are locked, so every guard holds.
func (c *claiming) commit(ctx context.Context, conn *pgxpool.Conn) error {
	ctx, cancel := committing(ctx)
	defer cancel()
	applied := 0
	now, err := commitAll(ctx, conn, c.changes, func(domain.SessionRef) { applied++ })
	if fateOf(err, conn.Conn().IsClosed()) == lost {
		// The claims may stand. They are not begun; whoever asked finds them by Owned and hands them back.
		return translate(ctx, err, lost)
	}
	if err == nil && applied < len(c.changes) {
		err = errMoved
	}
	if err != nil {
		return err
	}
	for i := range c.changes {
		fx := &c.changes[i].effects
		sqlstore.CompleteOutcome(fx, now)
		switch out := fx.Outcome; out.Claim {
		case domain.ClaimWork, domain.ClaimCancelled, domain.ClaimExhausted:
			c.claims = append(c.claims, ports.Claim{Session: out.Session, Run: *out.Run, Mode: out.Claim})
		}
	}
	return nil
}

// decide collects the changes of the runs that domain lets be claimed.
func (c *claiming) decide(views []domain.View, now time.Time) {
	for _, v := range views {
		cmd := domain.ClaimRun{At: now, Run: v.Run.ID, Process: c.req.Process, Budget: c.req.Budget}
		fx, err := domain.Decide(v, cmd)
		if err != nil {
			c.log.Warn("a proposed run was refused", zap.String("run", v.Run.ID), zap.Error(err))
			continue
		}
		if !fx.Empty() {
			c.changes = append(c.changes, change{seen: v.Session.Version, effects: fx})
		}
	}
}
