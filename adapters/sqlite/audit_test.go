package sqlite_test

import (
	"testing"

	"github.com/keel-agent/keel/adapters/sqlite"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
	"github.com/keel-agent/keel/ports/portstest"
)

func TestAudit(t *testing.T) {
	portstest.TestAudit(t, func(t *testing.T) (portstest.Store, ports.Audit) {
		path, now := migrated(t), &clock{now: domaintest.Epoch}
		s := open(t, sqlite.Config{Path: path, Now: now.time})
		beside, err := sqlite.OpenReadOnly(t.Context(), sqlite.Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(beside.Close)
		return portstest.Store{
			Ledger: s, Sessions: s.Sessions(), Runs: s.Runs(), Processes: s.Processes(), Advance: now.advance,
		}, beside.Audit()
	})
}

func TestStrays(t *testing.T) {
	path := migrated(t)
	s := open(t, sqlite.Config{Path: path})
	insertRun(t, path, domain.Run{
		ID: "r", Ref: domain.SessionRef{Tenant: "t", Session: "gone"}, CreatedAt: domaintest.Epoch, Status: domain.StatusDone,
	})
	portstest.CheckStrays(t, s, s.Audit(), "gone")
}
