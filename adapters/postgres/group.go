package postgres

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

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

// gather collects the sessions of the group.
func (g *group) gather() {
	g.sessions, g.order, g.loading = make(map[domain.SessionRef]*member), nil, nil
	for _, d := range g.all {
		m := g.sessions[d.ref]
		if m == nil {
			m = newMember(d.ref, g.s.views.get(d.ref))
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

// remember keeps in the store what the group left behind in m.
func (g *group) remember(m *member) {
	v := domain.View{Run: m.runs[m.merged.Session.ActiveRun]}
	if m.knownHolds() {
		v.Calls = m.known.calls
	}
	v.Calls = slices.AppendSeq(slices.Clip(v.Calls), maps.Values(m.calls))
	g.s.views.keep(v, &m.merged, g.now, m.mine)
}
