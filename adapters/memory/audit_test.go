package memory

import (
	"testing"

	"github.com/keel-agent/keel/ports"
	"github.com/keel-agent/keel/ports/portstest"
)

func TestAudit(t *testing.T) {
	portstest.TestAudit(t, func(t *testing.T) (portstest.Store, ports.Audit) {
		s := open(t)
		return s, s.Ledger.(*Store).Audit()
	})
}
