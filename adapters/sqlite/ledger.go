package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Do implements ports.Ledger.
func (s *Store) Do(ctx context.Context, ref domain.SessionRef, cmd domain.Command) (domain.Outcome, error) {
	if !sqlstore.Storable(ref.Tenant) || !sqlstore.Storable(ref.Session) {
		return sqlstore.DoNowhere(ref, cmd)
	}
	var fx domain.Effects
	needs := cmd.Needs() // some read their payload for it: not while others wait for the turn
	err := s.writing(ctx, func(t tx) (write bool, err error) {
		fx, err = s.decide(t, ref, cmd, needs)
		return !fx.Empty(), err
	}, func() { s.tell(ref, fx) })
	if err != nil {
		return domain.Outcome{}, err
	}
	return fx.Outcome, nil
}

// decide carries out cmd within t.
func (s *Store) decide(t tx, ref domain.SessionRef, cmd domain.Command, needs domain.Needs) (domain.Effects, error) {
	v, err := t.view(ref, needs)
	if err != nil {
		return domain.Effects{}, err
	}
	fx, err := domain.Decide(v, cmd)
	if err != nil || fx.Empty() {
		return fx, err
	}
	if err := apply(t, &v, &fx, s.nowMS()); err != nil {
		return domain.Effects{}, err
	}
	return fx, nil
}

// writing runs do in a writing transaction, and tell after its commit.
func (s *Store) writing(ctx context.Context, do func(t tx) (write bool, err error), tell func()) error {
	if s.write == nil {
		return ErrReadOnly
	}
	return translate(ctx, s.write.do(&job{ctx: ctx, do: do, tell: tell}))
}

// tell hands what was committed to the Notifier.
func (s *Store) tell(ref domain.SessionRef, fx domain.Effects) {
	if s.notifier == nil || fx.Wake == (domain.Wake{}) && len(fx.Events) == 0 {
		return
	}
	s.notifier.Committed(ports.Commit{Ref: ref, Wake: fx.Wake, Events: fx.Events})
}

// reading runs f in a transaction that sees one state.
func (s *Store) reading(ctx context.Context, f func(q querier) error) error {
	tx, err := s.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return translate(ctx, err)
	}
	defer func() { _ = tx.Rollback() }()
	return translate(ctx, f(reading{tx, ctx}))
}

var eventsText = "SELECT " + sqlstore.Columns("e", (&sqlstore.EventRow{}).Fields()) + " FROM events AS e" +
	" WHERE e.tenant_id = ?1 AND e.session_id = ?2 AND e.seq > ?3 ORDER BY e.seq LIMIT ?4"

const knownText = "SELECT 1 FROM sessions WHERE tenant_id = ?1 AND session_id = ?2"

// errPageFull ends the reading of a page.
var errPageFull = errors.New("the page is full")

// Events implements ports.Ledger.
func (s *Store) Events(ctx context.Context, ref domain.SessionRef, after domain.Seq, limit int) ([]domain.Event, error) {
	var events []domain.Event
	err := s.reading(ctx, func(q querier) error {
		bytes := 0
		var row sqlstore.EventRow
		args := []any{ref.Tenant, ref.Session, int64(after), max(limit, 0)}
		err := each(q, eventsText, args, sqlstore.Dests(nil, row.Fields()), func() error {
			e, err := row.Event()
			events = append(events, e)
			if bytes += len(e.Payload.String()); err == nil && bytes > ports.PageBytes {
				err = errPageFull
			}
			return err
		})
		if errors.Is(err, errPageFull) {
			return nil
		}
		if err != nil || len(events) > 0 {
			return err
		}
		known := false
		var n int
		err = each(q, knownText, args[:2], []any{&n}, func() error {
			known = true
			return nil
		})
		if err == nil && !known {
			err = domain.ErrNotFound
		}
		return err
	})
	return events, err
}
