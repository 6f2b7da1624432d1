package sqlite

import (
	"context"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// view returns a view of an existing session, or domain.ErrNotFound.
func (s *Store) view(ctx context.Context, ref domain.SessionRef, needs domain.Needs) (v domain.View, err error) {
	err = s.reading(ctx, func(q querier) error {
		if v, err = loadView(q, ref, needs); err == nil && v.Session == nil {
			err = domain.ErrNotFound
		}
		return err
	})
	return v, err
}

// sessions implements ports.Sessions.
type sessions struct{ s *Store }

func (p sessions) Get(ctx context.Context, ref domain.SessionRef) (domain.Session, *domain.Run, error) {
	v, err := p.s.view(ctx, ref, domain.Needs{})
	if err != nil {
		return domain.Session{}, nil, err
	}
	return *v.Session, v.Run, nil
}

func (p sessions) List(ctx context.Context, q ports.SessionQuery) ([]domain.Session, error) {
	list, err := p.s.lists.Sessions(ctx, q)
	return list, translate(ctx, err)
}

// runs implements ports.Runs.
type runs struct{ s *Store }

func (p runs) Get(ctx context.Context, ref domain.SessionRef, run string) (domain.Run, error) {
	if run == "" {
		return domain.Run{}, domain.ErrNotFound
	}
	v, err := p.s.view(ctx, ref, domain.Needs{Run: run})
	switch {
	case err != nil:
		return domain.Run{}, err
	case v.Run == nil:
		return domain.Run{}, domain.ErrNotFound
	}
	return *v.Run, nil
}

func (p runs) List(ctx context.Context, ref domain.SessionRef, before *ports.RunCursor, limit int) ([]domain.Run, error) {
	list, err := p.s.lists.Runs(ctx, ref, before, limit)
	return list, translate(ctx, err)
}

var forsakenText = sqlstore.ForsakenText("?1", "?2", "?3")

// Forsaken implements ports.Runs.
func (p runs) Forsaken(ctx context.Context, parent domain.SessionRef, limit int) (found []ports.RunRef, err error) {
	tenant, session := sqlstore.NullRef(parent)
	err = p.s.reading(ctx, func(q querier) error {
		var o ports.RunRef
		return each(q, forsakenText, []any{tenant, session, max(limit, 0)}, []any{&o.Ref.Tenant, &o.Ref.Session, &o.Run}, func() error {
			found = append(found, o)
			return nil
		})
	})
	return found, err
}

func (p runs) Active(ctx context.Context, tenant string, sessions []string) ([]domain.Run, error) {
	list, err := p.s.lists.ActiveRuns(ctx, tenant, sessions)
	return list, translate(ctx, err)
}

func (p runs) OpenCalls(ctx context.Context, ref domain.SessionRef) ([]domain.ToolCall, error) {
	v, err := p.s.view(ctx, ref, domain.Needs{OpenCalls: true})
	return v.Calls, err
}
