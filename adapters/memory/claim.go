package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Claim implements ports.Runs. A draining process gets nothing.
func (p Runs) Claim(ctx context.Context, c ports.ClaimRequest) ([]ports.Claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	claims, commits, err := p.store.claim(c)
	p.store.tell(commits...)
	return claims, err
}

func (s *Store) claim(c ports.ClaimRequest) (claims []ports.Claim, commits []*ports.Commit, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	process, ok := s.live(c.Process)
	switch {
	case !ok:
		return nil, nil, ports.ErrProcessDead
	case process.Draining:
		return nil, nil, nil
	}
	for _, run := range s.proposals() {
		if len(claims) >= c.Max {
			break
		}
		cmd := domain.ClaimRun{At: s.now(), Run: run.ID, Process: c.Process, Budget: c.Budget}
		out, commit, err := s.carryOut(run.Ref, cmd)
		if err != nil {
			return claims, commits, err
		}
		commits = append(commits, commit)
		switch out.Claim {
		case domain.ClaimWork, domain.ClaimCancelled, domain.ClaimExhausted:
			claims = append(claims, ports.Claim{Session: out.Session, Run: *out.Run, Mode: out.Claim})
			s.served = run.Ref.Tenant
		}
	}
	return claims, commits, nil
}

// proposals returns the claimable runs in the order in which they should be served: one of each tenant in turn, the
// tenants ascending from the one after the tenant served last, and within a tenant the longest due first.
func (s *Store) proposals() []domain.Run {
	queues := map[string][]domain.Run{}
	now := s.now()
	for id, r := range s.pending {
		run := r.runs[id]
		if !run.Parked && !run.AvailableAt.After(now) && r.row.StateOwner == domain.Native {
			queues[run.Ref.Tenant] = append(queues[run.Ref.Tenant], run)
		}
	}
	for _, q := range queues {
		slices.SortFunc(q, func(a, b domain.Run) int {
			return cmp.Or(a.AvailableAt.Compare(b.AvailableAt), cmp.Compare(a.ID, b.ID))
		})
	}
	tenants := slices.Sorted(maps.Keys(queues))
	next, served := slices.BinarySearch(tenants, s.served)
	if served {
		next++
	}
	tenants = slices.Concat(tenants[next:], tenants[:next])
	var order []domain.Run
	for i := 0; len(tenants) > 0; i++ {
		tenants = slices.DeleteFunc(tenants, func(t string) bool { return i == len(queues[t]) })
		for _, t := range tenants {
			order = append(order, queues[t][i])
		}
	}
	return order
}
