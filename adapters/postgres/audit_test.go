package postgres_test

import (
	"testing"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
	"github.com/keel-agent/keel/ports/portstest"
)

func TestAudit(t *testing.T) {
	for _, mode := range execModes {
		t.Run(mode, func(t *testing.T) {
			b := newBench(t, mode)
			t.Parallel()
			portstest.TestAudit(t, func(t *testing.T) (portstest.Store, ports.Audit) {
				s := b.open(t)
				return s, s.Ledger.(*postgres.Store).Audit()
			})
		})
	}
}

func TestStrays(t *testing.T) {
	b := newBench(t, "cache_statement")
	s := b.open(t).Ledger.(*postgres.Store)
	b.insertRun(t, domain.Run{
		ID: "r", Ref: domain.SessionRef{Tenant: "t", Session: "gone"}, CreatedAt: domaintest.Epoch, Status: domain.StatusDone,
	})
	portstest.CheckStrays(t, s, s.Audit(), "gone")
}
