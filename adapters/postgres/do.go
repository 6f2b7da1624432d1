package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// lockAfter is how many times a session may move on between the view and the write before its row is locked.
const lockAfter = 2

// Do implements ports.Ledger. On its own a command is the view in one statement, the decision in Go, and the effects in
// one statement guarded by the version that was decided on. When many are in flight they commit in groups.
func (s *Store) Do(ctx context.Context, ref domain.SessionRef, cmd domain.Command) (domain.Outcome, error) {
	if !sqlstore.Storable(ref.Tenant) || !sqlstore.Storable(ref.Session) {
		return sqlstore.DoNowhere(ref, cmd)
	}
	d := &doing{s: s, ref: ref, cmd: cmd, needs: cmd.Needs()}
	together := s.crowd.enter()
	defer s.crowd.leave()
	if together && gregarious(cmd, d.needs) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, unreachableLimit*s.patience)
		defer cancel()
		if settled, err := d.lane(ctx); settled {
			return d.answer(err)
		}
	}
	try := s.retry
	if d.lost != nil {
		try = s.resolve
	}
	err := try(ctx, d.attempt)
	s.tell(ref, d.told())
	return d.answer(err)
}

func (d *doing) answer(err error) (domain.Outcome, error) {
	if err != nil {
		return domain.Outcome{}, err
	}
	return d.outcome, nil
}

// tell hands what was committed to the Notifier.
func (s *Store) tell(ref domain.SessionRef, fx domain.Effects) {
	if fx.Wake.Queue {
		s.queued.Store(true)
	}
	if s.notifier == nil || fx.Wake == (domain.Wake{}) && len(fx.Events) == 0 {
		return
	}
	s.notifier.Committed(ports.Commit{Ref: ref, Wake: fx.Wake, Events: fx.Events})
}

// doing is one command on its way, over all its tries.
type doing struct {
	s     *Store
	ref   domain.SessionRef
	cmd   domain.Command
	needs domain.Needs

	ctx    context.Context // while in a lane
	ticket *ticket
	change *change // decided in a group

	tried     bool            // before, on its own
	moved     int             // how often the session moved on in between
	lost      *domain.Effects // sent, but the reply never came
	committed *domain.Effects
	outcome   domain.Outcome
}

// told returns what the Notifier is told: the effects that were committed, or else the wake-ups of a write whose fate
// is unknown.
func (d *doing) told() domain.Effects {
	switch {
	case d.committed != nil:
		return *d.committed
	case d.lost != nil:
		return domain.Effects{Wake: d.lost.Wake}
	}
	return domain.Effects{}
}

func (d *doing) attempt(ctx context.Context, conn *pgxpool.Conn) (sent bool, err error) {
	if d.moved >= lockAfter {
		return d.locked(ctx, conn)
	}
	v, c := d.guess()
	if c == nil {
		if v, err = loadView(ctx, conn, d.ref, d.needs); err != nil {
			return false, err
		}
		c, err = d.decide(v)
	}
	if c == nil || err != nil {
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	commit, cancel := committing(ctx)
	defer cancel()
	now, err := apply(commit, conn, *c)
	return true, d.sent(err, v, c.effects, now, conn.Conn())
}

// guess decides on what the store knows of the session, at the first try; nil when that does not lead to a write.
func (d *doing) guess() (domain.View, *change) {
	if d.tried || d.lost != nil {
		d.s.views.drop(d.ref)
		return domain.View{}, nil
	}
	d.tried = true
	v, ok := d.s.views.view(d.ref, d.needs)
	if !ok {
		return domain.View{}, nil
	}
	c, err := d.decide(v)
	if c == nil || err != nil {
		d.outcome = domain.Outcome{}
		return domain.View{}, nil
	}
	return v, c
}

// locked is the way of a session that many write to: it holds the row's lock while it decides. The view is read by a
// statement of its own after the lock was taken, so it sees what the lock waited for.
func (d *doing) locked(ctx context.Context, conn *pgxpool.Conn) (sent bool, err error) {
	tx, err := begin(ctx, conn)
	if err != nil {
		return false, err
	}
	defer func() { _ = rollback(ctx, conn) }()
	q := newViewQuery(d.ref, d.needs)
	batch := &pgx.Batch{}
	batch.Queue("SELECT 1 FROM sessions WHERE tenant_id = $1::text AND session_id = $2::text FOR NO KEY UPDATE", d.ref.Tenant, d.ref.Session)
	batch.Queue(q.text(), q.args...).QueryRow(func(row pgx.Row) error { return row.Scan(q.dests...) })
	v := domain.View{Ref: d.ref}
	switch err := tx.SendBatch(ctx, batch).Close(); {
	case errors.Is(err, pgx.ErrNoRows):
	case err != nil:
		return false, err
	default:
		if v, err = q.view(d.ref); err != nil {
			return false, err
		}
	}
	c, err := d.decide(v)
	if c == nil || err != nil {
		return false, err
	}
	commit, cancel := committing(ctx)
	defer cancel()
	now, err := apply(commit, tx, *c)
	if err != nil {
		return false, err
	}
	return true, d.sent(tx.Commit(commit), v, c.effects, now, conn.Conn())
}

// decide returns the change to make, or nil when the outcome is known without one.
func (d *doing) decide(v domain.View) (*change, error) {
	if sqlstore.Wrote(v, d.lost) {
		d.committed, d.outcome = d.lost, d.lost.Outcome
		if d.outcome.Run != nil && v.Run != nil && v.Run.ID == d.outcome.Run.ID {
			d.outcome.Run = v.Run
		}
		return nil, nil
	}
	fx, err := domain.Decide(v, d.cmd)
	if err != nil {
		return nil, err
	}
	if fx.Empty() {
		d.outcome = fx.Outcome
		if sqlstore.WroteKey(v, d.lost) {
			d.committed, d.outcome.Created = d.lost, true
		}
		return nil, nil
	}
	c := &change{effects: fx}
	if v.Session != nil {
		c.seen = v.Session.Version
	}
	return c, nil
}

// sent records how a write of fx, decided on v, went.
func (d *doing) sent(err error, v domain.View, fx domain.Effects, now int64, conn *pgx.Conn) error {
	switch {
	case err == nil:
		d.committed, d.outcome = &fx, fx.Outcome
		d.s.views.keep(v, &fx, now, ofOwner(d.cmd))
	case errors.Is(err, errMoved):
		d.moved++
	case fateOf(err, conn.IsClosed()) == lost:
		d.lost = &fx
	}
	return err
}
