package sqlite

import (
	"context"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

const (
	serverText = "SELECT draining FROM processes WHERE process_id = ?1 AND NOT dead AND expires_at > ?2"

	// tenantText leaps to the next tenant with pending runs; its first run is the one that is due longest.
	tenantText = "SELECT tenant_id, available_at FROM runs WHERE status = 'pending' AND NOT parked AND tenant_id > ?1" +
		" ORDER BY tenant_id, available_at LIMIT 1"

	queueText = "SELECT r.session_id, r.run_id FROM runs AS r JOIN sessions AS s" +
		" ON s.tenant_id = r.tenant_id AND s.session_id = r.session_id" +
		" WHERE r.status = 'pending' AND NOT r.parked AND r.tenant_id = ?1 AND r.available_at <= ?2" +
		" AND s.state_owner = 'native' AND s.active_run_id = r.run_id ORDER BY r.available_at, r.run_id LIMIT ?3"
)

// Claim implements ports.Runs. All claims of one call commit together; a run that domain refuses is left out.
func (p runs) Claim(ctx context.Context, req ports.ClaimRequest) ([]ports.Claim, error) {
	s := p.s
	var c claiming
	err := s.writing(ctx, func(t tx) (write bool, err error) {
		c = claiming{t: t, s: s, req: req}
		err = c.run()
		return len(c.written) > 0, err
	}, func() {
		for _, fx := range c.written {
			s.tell(fx.Session.Ref, fx)
		}
	})
	if err != nil {
		return nil, err
	}
	return c.claims, nil
}

type claiming struct {
	t   tx
	s   *Store
	req ports.ClaimRequest

	claims  []ports.Claim
	written []domain.Effects
}

// proposal names a due run.
type proposal struct {
	ref domain.SessionRef
	run string
}

func (c *claiming) run() error {
	live, draining := false, false
	err := each(c.t, serverText, []any{c.req.Process, c.s.nowMS()}, []any{&draining}, func() error {
		live = true
		return nil
	})
	if err == nil && !live {
		err = ports.ErrProcessDead
	}
	for err == nil && !draining && len(c.claims) < c.req.Max {
		var proposed []proposal
		before := len(c.written)
		if proposed, err = c.propose(c.req.Max - len(c.claims)); err == nil {
			err = c.decide(proposed)
		}
		if len(c.written) == before {
			break
		}
	}
	return err
}

// propose returns at most want due runs: one of each tenant in turn, the tenants ascending from the one after the
// tenant served last, and within a tenant the run that is due longest.
func (c *claiming) propose(want int) ([]proposal, error) {
	tenants, err := c.dueTenants(want)
	if err != nil || len(tenants) == 0 {
		return nil, err
	}
	queues := make([][]proposal, len(tenants))
	longest := 0
	for i, tenant := range tenants {
		p := proposal{ref: domain.SessionRef{Tenant: tenant}}
		args := []any{tenant, c.s.nowMS(), want/len(tenants) + 1}
		err := each(c.t, queueText, args, []any{&p.ref.Session, &p.run}, func() error {
			queues[i] = append(queues[i], p)
			return nil
		})
		if err != nil {
			return nil, err
		}
		longest = max(longest, len(queues[i]))
	}
	var proposed []proposal
	for turn := range longest {
		for _, q := range queues {
			if turn < len(q) && len(proposed) < want {
				proposed = append(proposed, q[turn])
			}
		}
	}
	return proposed, nil
}

// dueTenants returns at most want tenants that have a due run.
func (c *claiming) dueTenants(want int) ([]string, error) {
	now := c.s.nowMS()
	var tenants []string
	from, last := c.t.w.served, false // first those after the tenant served last, then the others
	for len(tenants) < want {
		found, due := "", int64(0)
		more := false
		err := each(c.t, tenantText, []any{from}, []any{&found, &due}, func() error {
			more = true
			return nil
		})
		switch {
		case err != nil:
			return nil, err
		case !more && !last:
			from, last = "", true
			continue
		case !more || last && found > c.t.w.served:
			return tenants, nil
		}
		if due <= now {
			tenants = append(tenants, found)
		}
		from = found
	}
	return tenants, nil
}

func (c *claiming) decide(proposed []proposal) error {
	for _, p := range proposed {
		cmd := domain.ClaimRun{At: c.s.now(), Run: p.run, Process: c.req.Process, Budget: c.req.Budget}
		fx, err := c.s.decide(c.t, p.ref, cmd, cmd.Needs())
		switch {
		case err != nil && refusal(err):
			c.s.log.Warn("a proposed run was refused", zap.String("run", p.run), zap.Error(err))
			continue
		case err != nil:
			return err
		case fx.Empty():
			continue
		}
		c.written = append(c.written, fx)
		switch out := fx.Outcome; out.Claim {
		case domain.ClaimWork, domain.ClaimCancelled, domain.ClaimExhausted:
			c.claims = append(c.claims, ports.Claim{Session: out.Session, Run: *out.Run, Mode: out.Claim})
			c.t.w.served = p.ref.Tenant
		}
	}
	return nil
}
