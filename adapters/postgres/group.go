package postgres

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
)

// group is what commits together, in two round trips: lock all sessions and load what the commands need; apply and
// commit. The commands are decided in between in the order of their arrival, those of one session each on what the ones
// before it left behind.
type group struct {
	s        *Store
	all      []*doing
	loading  []*doing // those whose session must be read
	sessions map[domain.SessionRef]*member
	order    []*member
	now      int64 // the database's, of the whole transaction
}

// member is a session in a group: its rows as they will be after the commands decided so far.
type member struct {
	ref     domain.SessionRef
	known   *kept // what the store knows of it, right if seen agrees
	seen    int64 // its version in the database; 0 when it does not exist
	session *domain.Session
	runs    map[string]*domain.Run
	events  map[string]*domain.Event
	calls   map[string]domain.ToolCall

	merged  domain.Effects // of all commands
	mine    bool           // some command came from the process that runs it
	applied bool
}

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

func (g *group) attempt(ctx context.Context, conn *pgxpool.Conn) (sent bool, err error) {
	defer func() { _ = rollback(ctx, conn) }()
	if changes := g.guess(); len(changes) > 0 {
		err := g.commit(ctx, conn, changes)
		if f := fateOf(err, conn.Conn().IsClosed()); err == nil || f == lost {
			return true, err
		}
		if err := rollback(ctx, conn); err != nil {
			return false, err
		}
	}
	if err := g.load(ctx, conn); err != nil {
		return false, err
	}
	changes := g.decide()
	if len(changes) == 0 {
		return false, nil
	}
	return true, g.commit(ctx, conn, changes)
}

// commit applies changes, all or none, and commits in one round trip. It takes the sessions' locks in their order, as
// lockText does.
func (g *group) commit(ctx context.Context, conn *pgxpool.Conn, changes []change) (err error) {
	ctx, cancel := committing(ctx)
	defer cancel()
	g.now, err = commitAll(ctx, conn, changes, func(ref domain.SessionRef) { g.sessions[ref].applied = true })
	return err
}

// guess decides on what the store knows of the sessions. It returns nothing unless that leads every command to a write
// which the guards and the unique indexes can verify, and which needs no clock.
func (g *group) guess() []change {
	g.gather()
	if len(g.order) < 2 || len(g.loading) > 0 {
		return nil
	}
	for _, m := range g.order {
		m.seen, m.session = m.known.session.Version, m.known.session
		m.runs[m.known.run.ID] = m.known.run
		for _, c := range m.known.calls {
			m.calls[c.ID] = c
		}
	}
	changes := g.decide()
	for _, d := range g.all {
		if d.change == nil || slices.ContainsFunc(d.change.effects.Runs, func(c domain.RunChange) bool { return c.Due != nil }) {
			return nil
		}
	}
	// New calls are verified by a plain INSERT, known ones are updated: no statement does both.
	all := func(ok func(change) bool) bool {
		return !slices.ContainsFunc(changes, func(c change) bool { return !ok(c) })
	}
	if !all(change.newCalls) && !all(change.oldCalls) {
		return nil
	}
	return changes
}

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
		if m := g.sessions[d.ref]; m.known != nil && m.known.session.Version != m.seen {
			g.loading = append(g.loading, d)
		}
	}
	for _, m := range g.order {
		if m.known != nil && m.known.session.Version == m.seen {
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

// gather collects the sessions of the group.
func (g *group) gather() {
	g.sessions, g.order, g.loading = make(map[domain.SessionRef]*member), nil, nil
	for _, d := range g.all {
		m := g.sessions[d.ref]
		if m == nil {
			m = &member{
				ref: d.ref, runs: make(map[string]*domain.Run), events: make(map[string]*domain.Event), calls: make(map[string]domain.ToolCall),
			}
			m.known = g.s.views.get(d.ref)
			g.sessions[d.ref] = m
			g.order = append(g.order, m)
		}
		if m.known != nil && d.needs.Run != "" && d.needs.Run != m.known.run.ID {
			m.known = nil
		}
		m.mine = m.mine || ofOwner(d.cmd)
	}
	slices.SortFunc(g.order, func(a, b *member) int {
		return cmp.Or(cmp.Compare(a.ref.Tenant, b.ref.Tenant), cmp.Compare(a.ref.Session, b.ref.Session))
	})
	for _, d := range g.all {
		if g.sessions[d.ref].known == nil {
			g.loading = append(g.loading, d)
		}
	}
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

// decide decides the commands and returns one change for each session that they change.
func (g *group) decide() []change {
	for _, d := range g.all {
		d.change = nil
		if d.ticket.err = d.ctx.Err(); d.ticket.err != nil {
			d.ticket.err = translate(d.ctx, d.ticket.err, final)
			continue
		}
		m := g.sessions[d.ref]
		d.change, d.ticket.err = d.decide(m.view(d.needs))
		if d.change != nil && d.ticket.err == nil {
			m.add(&d.change.effects, g.now)
		}
	}
	var changes []change
	for _, m := range g.order {
		if m.merged.Session != nil {
			changes = append(changes, change{seen: m.seen, effects: m.merged})
		}
	}
	return changes
}

func (m *member) view(needs domain.Needs) domain.View {
	v := domain.View{Ref: m.ref, Session: m.session}
	if m.session == nil {
		return v
	}
	run := needs.Run
	if run == "" || !sqlstore.Storable(run) {
		run = m.session.ActiveRun
	}
	v.Run = m.runs[run]
	if needs.Key != "" {
		v.Event = m.events[needs.Key]
	}
	for _, call := range m.calls {
		if slices.Contains(needs.Calls, call.ID) {
			v.Calls = append(v.Calls, call)
		}
	}
	slices.SortFunc(v.Calls, func(a, b domain.ToolCall) int {
		return cmp.Or(cmp.Compare(a.AssistantSeq, b.AssistantSeq), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	return v
}

// add lets the effects of a command happen to m, and completes its outcome.
func (m *member) add(fx *domain.Effects, now int64) {
	sqlstore.CompleteOutcome(fx, now)
	m.session = fx.Session
	all := &m.merged
	all.Session, all.InfoChanged = fx.Session, all.InfoChanged || fx.InfoChanged
	all.Events = append(all.Events, fx.Events...)
	for i := range fx.Events {
		if e := &fx.Events[i]; e.Key != "" {
			m.events[e.Key] = e
		}
	}
	for _, c := range fx.Runs {
		run := dated(c, now)
		m.runs[run.ID] = &run
		if i := slices.IndexFunc(all.Runs, func(r domain.RunChange) bool { return r.Run.ID == run.ID }); i >= 0 {
			all.Runs[i].Run = run
		} else {
			all.Runs = append(all.Runs, domain.RunChange{Run: run, Insert: c.Insert})
		}
	}
	for _, c := range fx.Calls {
		m.calls[c.ID] = c
		if i := slices.IndexFunc(all.Calls, func(have domain.ToolCall) bool { return have.ID == c.ID }); i >= 0 {
			all.Calls[i] = c
		} else {
			all.Calls = append(all.Calls, c)
		}
	}
	merge(&all.Wake, fx.Wake)
}

// dated returns the run of c as it will be stored at now.
func dated(c domain.RunChange, now int64) domain.Run {
	run := c.Run
	if c.Due != nil {
		run.AvailableAt = time.UnixMilli(now + c.Due.Milliseconds()).UTC()
	}
	return run
}

// remember keeps in the store what the group left behind in m.
func (g *group) remember(m *member) {
	v := domain.View{Run: m.runs[m.merged.Session.ActiveRun]}
	if m.known != nil && m.known.session.Version == m.seen {
		v.Calls = m.known.calls
	}
	v.Calls = slices.AppendSeq(slices.Clip(v.Calls), maps.Values(m.calls))
	g.s.views.keep(v, &m.merged, g.now, m.mine)
}
