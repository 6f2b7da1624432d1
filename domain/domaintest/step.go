package domaintest

import (
	"time"

	"github.com/keel-agent/keel/domain"
)

// Step is one call of a store: Do, Claim, Register, Drain, Kill, Bury or Advance. A list of steps is a history.
type Step interface{ step() }

// The steps.
type (
	// Do gives a command to the ledger.
	Do struct {
		Ref domain.SessionRef
		Cmd domain.Command
	}

	// Claim claims every claimable run for a process.
	Claim struct {
		Process string
		Budget  int
	}

	// Register begins a process.
	Register struct{ Process string }

	// Drain marks a process as draining.
	Drain struct{ Process string }

	// Kill ends a process as if its lease had expired.
	Kill struct{ Process string }

	// Bury collects the runs of dead processes.
	Bury struct{}

	// Advance lets time pass.
	Advance struct{ By time.Duration }
)

func (Do) step()       {}
func (Claim) step()    {}
func (Register) step() {}
func (Drain) step()    {}
func (Kill) step()     {}
func (Bury) step()     {}
func (Advance) step()  {}

// Reply is what a step gave.
type Reply struct {
	Outcome domain.Outcome   // Do
	Claims  []domain.Outcome // Claim: one for each attempt that began
	NoWork  int              // Claim: how many runs it found without work, which a store does not tell
	Orphans []Orphan         // Bury
	Err     error
}

// Orphan is a running run whose owner is dead.
type Orphan struct {
	Ref domain.SessionRef
	Run string
}
