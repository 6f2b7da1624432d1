package ports

import (
	"context"

	"github.com/keel-agent/keel/domain"
)

// Ledger is the only write path of a session, and the read path of its events.
type Ledger interface {
	// Do carries out one command: it loads the view that cmd needs, lets domain.Decide decide and applies the effects
	// atomically. Either all of the effects are durable when Do returns nil, or nothing was written and the refusal of
	// the domain is returned. The wake-ups of the outcome have been handed to the Notifier when Do returns.
	//
	// A context that ends before the commit was sent stops Do; one that ends later does not undo the commit. When the
	// fate of a commit is unknown, Do finds it out by itself (it decides again, and a retry is answered by the key or
	// by the recorded end of the attempt); only when the store stays out of reach does it return ErrUnavailable, and
	// then the same command may be given again.
	Do(ctx context.Context, ref domain.SessionRef, cmd domain.Command) (domain.Outcome, error)

	// Events returns at most limit committed events with seq > after, ascending and without gaps. What it returns is a
	// complete prefix of what follows after: an event with a lower seq never appears later. It stops early when the
	// payloads exceed PageBytes together, after one event at least; IsLastPage tells. The caller owns the page. It
	// returns domain.ErrNotFound when the session does not exist in this tenant. limit must be positive.
	Events(ctx context.Context, ref domain.SessionRef, after domain.Seq, limit int) ([]domain.Event, error)
}

// PageBytes bounds what Ledger.Events returns at a time: the payload that exceeds it is the last one.
const PageBytes = 1 << 20

// IsLastPage reports whether a page that Ledger.Events returned for limit ended where the ledger did.
func IsLastPage(page []domain.Event, limit int) bool {
	return len(page) < limit && !overPageBytes(page)
}

func overPageBytes(page []domain.Event) bool {
	bytes := 0
	for _, e := range page {
		bytes += len(e.Payload.String())
	}
	return bytes > PageBytes
}

// Commit is what a store tells its Notifier after a command became durable.
type Commit struct {
	Ref    domain.SessionRef
	Wake   domain.Wake
	Events []domain.Event // those appended by the commit, in seq order; often none
}

// Notifier is told of commits by the store that made them. Committed must not block and must not fail; commits of one
// session may arrive out of order, so a reader goes by seq.
type Notifier interface {
	Committed(c Commit)
}
