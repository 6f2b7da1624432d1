package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
)

// lockText takes the locks of sessions one by one, in the order given: all who take several go by tenant and session.
const lockText = "SELECT n.tenant_id, n.session_id, s.version, " + nowMS + " FROM unnest($1::text[], $2::text[]) AS n(tenant_id, session_id)" +
	" CROSS JOIN LATERAL (SELECT s.version FROM sessions AS s WHERE s.tenant_id = n.tenant_id AND s.session_id = n.session_id" +
	" FOR NO KEY UPDATE) AS s"

// groupText loads, for each command, its session, the run it names, else the active one, and the event under its key.
var groupText = "SELECT n.turn, " + sqlstore.Columns("s", (&sqlstore.SessionRow{}).Fields()) + ", " +
	sqlstore.OuterColumns("r", (&sqlstore.RunRow{}).Fields()) + ", " + sqlstore.OuterColumns("e", (&sqlstore.EventRow{}).Fields()) +
	" FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS n(tenant_id, session_id, run_id, dedupe_key, turn)" +
	sessionByKey("n") + runByID("r", "coalesce(n.run_id, s.active_run_id)") + eventByKey("n.dedupe_key")

// groupKeysText loads the events under the keys of commands whose session the store knows.
var groupKeysText = "SELECT s.tenant_id, s.session_id, " + sqlstore.Columns("e", (&sqlstore.EventRow{}).BodyFields()) +
	" FROM unnest($1::text[], $2::text[], $3::text[]) AS s(tenant_id, session_id, dedupe_key)" + eventByKey("s.dedupe_key") +
	" WHERE e.seq IS NOT NULL"

// groupCallsText loads the calls that commands name.
var groupCallsText = "SELECT " + sqlstore.Columns("c", (&sqlstore.CallRow{}).Fields()) +
	" FROM unnest($1::text[], $2::text[], $3::text[]) AS n(tenant_id, session_id, call_id)" +
	" CROSS JOIN LATERAL (SELECT * FROM tool_calls AS c WHERE c.tenant_id = n.tenant_id AND c.session_id = n.session_id" +
	" AND c.call_id = n.call_id OFFSET 0) AS c"

// load begins the transaction, locks the sessions and loads the views. The statements after the lock see what it waited
// for. A session that the store knows is read only if it has changed since.
func (g *group) load(ctx context.Context, conn *pgxpool.Conn) error {
	g.gather()
	batch := &pgx.Batch{}
	batch.Queue(beginText)
	batch.Queue(silentText)
	g.lock(batch)
	g.loadKeys(batch)
	g.loadCalls(batch)
	g.loadRows(batch)
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	g.loading = nil
	for _, d := range g.all {
		if m := g.sessions[d.ref]; m.known != nil && !m.knownHolds() {
			g.loading = append(g.loading, d)
		}
	}
	for _, m := range g.order {
		if m.knownHolds() {
			m.session, m.runs[m.known.run.ID] = m.known.session, m.known.run
		}
	}
	if len(g.loading) == 0 {
		return nil
	}
	batch = &pgx.Batch{}
	g.loadRows(batch)
	return conn.SendBatch(ctx, batch).Close()
}

func (g *group) lock(batch *pgx.Batch) {
	tenants, sessions := make([]string, len(g.order)), make([]string, len(g.order))
	for i, m := range g.order {
		tenants[i], sessions[i] = m.ref.Tenant, m.ref.Session
	}
	batch.Queue(lockText, tenants, sessions).Query(func(rows pgx.Rows) error {
		var ref domain.SessionRef
		var version int64
		_, err := pgx.ForEachRow(rows, []any{&ref.Tenant, &ref.Session, &version, &g.now}, func() error {
			g.sessions[ref].seen = version
			return nil
		})
		return err
	})
}

func (g *group) loadKeys(batch *pgx.Batch) {
	var tenants, sessions, keys []string
	for _, d := range g.all {
		if key := storable(d.needs.Key); key != nil && g.sessions[d.ref].known != nil {
			tenants, sessions, keys = append(tenants, d.ref.Tenant), append(sessions, d.ref.Session), append(keys, *key)
		}
	}
	if len(keys) > 0 {
		batch.Queue(groupKeysText, tenants, sessions, keys).Query(g.scanKeys)
	}
}

func (g *group) loadCalls(batch *pgx.Batch) {
	var tenants, sessions, ids []string
	for _, d := range g.all {
		for _, id := range d.needs.Calls {
			tenants, sessions = append(tenants, d.ref.Tenant), append(sessions, d.ref.Session)
			ids = append(ids, sqlstore.EncodeText(id))
		}
	}
	if len(ids) > 0 {
		batch.Queue(groupCallsText, tenants, sessions, ids).Query(g.scanCalls)
	}
}

func (g *group) loadRows(batch *pgx.Batch) {
	n := len(g.loading)
	if n == 0 {
		return
	}
	tenants, sessions := make([]string, n), make([]string, n)
	runs, keys := make([]*string, n), make([]*string, n)
	for i, d := range g.loading {
		tenants[i], sessions[i] = d.ref.Tenant, d.ref.Session
		runs[i], keys[i] = storable(d.needs.Run), storable(d.needs.Key)
	}
	batch.Queue(groupText, tenants, sessions, runs, keys).Query(g.scan)
}

// storable returns s as a parameter, NULL when no row has it.
func storable(s string) *string {
	if s == "" || !sqlstore.Storable(s) {
		return nil
	}
	return &s
}

func (g *group) scan(rows pgx.Rows) error {
	var turn int64
	var s sqlstore.SessionRow
	var r sqlstore.RunRow
	var e sqlstore.EventRow
	dests := sqlstore.Dests(sqlstore.Dests(sqlstore.Dests([]any{&turn}, s.Fields()), r.Fields()), e.Fields())
	_, err := pgx.ForEachRow(rows, dests, func() error {
		m := g.sessions[g.loading[turn-1].ref]
		if m.session == nil {
			session, err := s.Session()
			if err != nil {
				return err
			}
			m.session = session
		}
		if r.RunID != "" && m.runs[r.RunID] == nil {
			run, err := r.Run()
			if err != nil {
				return err
			}
			m.runs[run.ID] = run
		}
		if e.Seq != 0 {
			event, err := e.Event()
			if err != nil {
				return err
			}
			m.events[event.Key] = &event
		}
		return nil
	})
	return err
}

func (g *group) scanKeys(rows pgx.Rows) error {
	var e sqlstore.EventRow
	_, err := pgx.ForEachRow(rows, sqlstore.Dests(nil, e.Fields()), func() error {
		event, err := e.Event()
		g.sessions[domain.SessionRef{Tenant: e.TenantID, Session: e.SessionID}].events[event.Key] = &event
		return err
	})
	return err
}

func (g *group) scanCalls(rows pgx.Rows) error {
	var r sqlstore.CallRow
	_, err := pgx.ForEachRow(rows, sqlstore.Dests(nil, r.Fields()), func() error {
		call, err := r.Call()
		g.sessions[domain.SessionRef{Tenant: r.TenantID, Session: r.SessionID}].calls[call.ID] = call
		return err
	})
	return err
}
