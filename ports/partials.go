package ports

import "github.com/keel-agent/keel/domain"

// Partial is one token-level frame. It is never stored.
type Partial struct {
	Ref          domain.SessionRef
	GenerationID string
	Run          string
	Attempt      int   // the run's attempt number
	Epoch        int64 // frames of a lower epoch than one already seen for the session are dropped
	Delta        Delta
}

// Partials carries token-level frames beside the ledger. It may drop frames under pressure and never blocks. Deltas of
// one generation and kind that follow each other may arrive joined to one, or a long one cut between code points.
type Partials interface {
	// Publish offers a frame to the present subscribers of its session.
	Publish(p Partial)

	// Subscribe returns the frames of one session from now on. cancel ends the subscription and may be called more
	// than once; the channel is not closed.
	Subscribe(ref domain.SessionRef) (frames <-chan Partial, cancel func())
}
