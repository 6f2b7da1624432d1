package portstest

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

const everything = 100_000

// storePlayer plays on a store.
type storePlayer struct {
	ctx context.Context
	s   Store
}

func (p storePlayer) play(step domaintest.Step) (r domaintest.Reply) {
	switch s := step.(type) {
	case domaintest.Do:
		r.Outcome, r.Err = p.s.Ledger.Do(p.ctx, s.Ref, s.Cmd)
	case domaintest.Claim:
		var claims []ports.Claim
		claims, r.Err = p.s.Runs.Claim(p.ctx, ports.ClaimRequest{Process: s.Process, Max: everything, Budget: s.Budget})
		for _, c := range claims {
			r.Claims = append(r.Claims, domain.Outcome{Session: c.Session, Run: &c.Run, Claim: c.Mode})
		}
	case domaintest.Register:
		r.Err = p.s.Processes.Register(p.ctx, s.Process, "http://"+s.Process, long)
	case domaintest.Drain:
		r.Err = p.s.Processes.SetDraining(p.ctx, s.Process)
	case domaintest.Kill:
		r.Err = p.s.Processes.Deregister(p.ctx, s.Process)
	case domaintest.Bury:
		var orphans []ports.RunRef
		orphans, _, r.Err = p.s.Processes.Bury(p.ctx)
		for _, o := range orphans {
			r.Orphans = append(r.Orphans, domaintest.Orphan(o))
		}
		slices.SortFunc(r.Orphans, func(a, b domaintest.Orphan) int {
			return cmp.Or(strings.Compare(a.Ref.Tenant, b.Ref.Tenant), strings.Compare(a.Ref.Session, b.Ref.Session))
		})
	}
	return r
}

func (p storePlayer) session(ref domain.SessionRef) (domain.Session, error) {
	row, _, err := p.s.Sessions.Get(p.ctx, ref)
	return row, err
}

func (p storePlayer) events(ref domain.SessionRef) ([]domain.Event, error) {
	return p.s.Ledger.Events(p.ctx, ref, 0, everything)
}

func (p storePlayer) runs(ref domain.SessionRef) ([]domain.Run, error) {
	return p.s.Runs.List(p.ctx, ref, nil, everything)
}

func (p storePlayer) openCalls(ref domain.SessionRef) ([]domain.ToolCall, error) {
	return p.s.Runs.OpenCalls(p.ctx, ref)
}

// worldPlayer plays on the World, which shares no code with any store.
type worldPlayer struct{ w *domaintest.World }

func (p worldPlayer) play(step domaintest.Step) domaintest.Reply { return p.w.Do(step) }

func (p worldPlayer) session(ref domain.SessionRef) (domain.Session, error) {
	l, err := p.ledger(ref)
	return l.Row, err
}

func (p worldPlayer) events(ref domain.SessionRef) ([]domain.Event, error) {
	l, err := p.ledger(ref)
	return l.Events, err
}

func (p worldPlayer) runs(ref domain.SessionRef) ([]domain.Run, error) {
	l, err := p.ledger(ref)
	var runs []domain.Run
	for _, r := range l.Runs {
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b domain.Run) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(b.ID, a.ID))
	})
	return runs, err
}

func (p worldPlayer) openCalls(ref domain.SessionRef) ([]domain.ToolCall, error) {
	l, err := p.ledger(ref)
	var open []domain.ToolCall
	for _, c := range l.Calls {
		if c.Open() {
			open = append(open, c)
		}
	}
	return open, err
}

func (p worldPlayer) ledger(ref domain.SessionRef) (*domaintest.Ledger, error) {
	if l, ok := p.w.Ledgers[ref]; ok {
		return l, nil
	}
	return &domaintest.Ledger{}, domain.ErrNotFound
}
