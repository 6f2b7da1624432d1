package sqlstore

import (
	"github.com/uptrace/bun"

	"github.com/keel-agent/keel/ports"
)

// ProcessRow is a row of processes.
type ProcessRow struct {
	bun.BaseModel `bun:"table:processes,alias:p"`

	ProcessID string `bun:"process_id,pk"`
	Address   string `bun:"address"`
	StartedAt int64  `bun:"started_at"`
	ExpiresAt int64  `bun:"expires_at"`
	Draining  bool   `bun:"draining"`
	Dead      bool   `bun:"dead"`
}

func (r *ProcessRow) process() ports.Process {
	return ports.Process{
		ID: r.ProcessID, Address: r.Address, StartedAt: moment(&r.StartedAt), ExpiresAt: moment(&r.ExpiresAt),
		Draining: r.Draining, Dead: r.Dead,
	}
}
