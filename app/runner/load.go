package runner

import (
	"context"
	"fmt"

	"github.com/keel-agent/keel/domain"
)

// remembered returns the transcript of a session that was run here lately, or nil when there is none, or when reading
// what a compaction has kept since is less than reading what is new.
func (r *Runner) remembered(s *domain.Session) *domain.Transcript {
	t := r.cache.take(s.Ref)
	if t != nil && t.Head() < s.KeptSeq-1 {
		return nil
	}
	return t
}

// load reads the transcript of a session that this process does not remember: as of the claim and at the cost of what
// was kept when the ledger was compacted, else all of it.
func (a *attempt) load() error {
	s := &a.claim.Session
	if s.KeptSeq == 0 {
		a.t = domain.NewTranscript()
		a.t.LegacyWatermark = s.LegacyWatermark
		return a.sync()
	}
	kept := domain.Resume(s.Fold)
	for kept.Head() < s.HeadSeq {
		events, err := a.events(kept.Head(), min(pageSize, int(s.HeadSeq-kept.Head())))
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := kept.Add(e); err != nil {
				return fmt.Errorf("event %d: %w", e.Seq, err)
			}
		}
	}
	var late []domain.Event
	for _, seq := range kept.Late() {
		events, err := a.events(seq-1, 1)
		if err != nil {
			return err
		}
		late = append(late, events...)
	}
	t, err := kept.Transcript(late)
	a.t = t
	return err
}

// events reads at most limit events after seq, one at least.
func (a *attempt) events(seq domain.Seq, limit int) ([]domain.Event, error) {
	events, err := retried(a, func(ctx context.Context) ([]domain.Event, error) {
		return a.r.Ledger.Events(ctx, a.ref, seq, limit)
	})
	if err == nil && len(events) == 0 {
		err = fmt.Errorf("the ledger ends at %d, before its head", seq)
	}
	return events, err
}
