package service

import (
	"context"

	"github.com/keel-agent/keel/domain"
)

// CheckCursor returns nil when after is a position of the session's ledger, and a CursorAheadError when it lies beyond
// the head.
func (s *Service) CheckCursor(ctx context.Context, ref domain.SessionRef, after domain.Seq) error {
	_, err := s.head(ctx, ref, after)
	return err
}

// head returns the seq of the last event, with the errors of CheckCursor.
func (s *Service) head(ctx context.Context, ref domain.SessionRef, after domain.Seq) (domain.Seq, error) {
	session, _, err := s.sessions.Get(ctx, ref)
	if err != nil {
		return 0, err
	}
	if after > session.HeadSeq {
		return 0, &CursorAheadError{Head: session.HeadSeq}
	}
	return session.HeadSeq, nil
}

// Events returns the events that follow after, as many as a page holds, and whether there are more. limit 0 means the
// default.
func (s *Service) Events(ctx context.Context, ref domain.SessionRef, after domain.Seq, limit int) (events []domain.Event, more bool, err error) {
	head, err := s.head(ctx, ref, after)
	if err != nil {
		return nil, false, err
	}
	size := pageSize(limit, eventsPageDefault, eventsPageMax)
	until := min(head, after+domain.Seq(size))
	bytes, last := 0, after
	err = s.scan(ctx, ref, after, until, func(e domain.Event) (bool, error) {
		bytes += wireSize(e)
		if bytes > eventsPageBytes && len(events) > 0 {
			return false, nil
		}
		events, last = append(events, e), e.Seq
		return true, nil
	})
	return events, last < head, err
}

// scanPage is how many events are read at a time; the ledger bounds their bytes.
const scanPage = 1000

// scan calls visit for the events after < seq ≤ until in order, until it returns false or an error.
func (s *Service) scan(
	ctx context.Context, ref domain.SessionRef, after, until domain.Seq, visit func(domain.Event) (bool, error),
) error {
	return s.scanBy(ctx, ref, scanPage, after, until, visit)
}

// scanBy is scan by pages of step events.
func (s *Service) scanBy(
	ctx context.Context, ref domain.SessionRef, step int, after, until domain.Seq, visit func(domain.Event) (bool, error),
) error {
	for after < until {
		events, err := s.ledger.Events(ctx, ref, after, int(min(domain.Seq(step), until-after)))
		if err != nil || len(events) == 0 {
			return err
		}
		for _, e := range events {
			if ok, err := visit(e); !ok || err != nil {
				return err
			}
			after = e.Seq
		}
	}
	return nil
}

// wireSize is about how long an event's JSON is.
func wireSize(e domain.Event) int {
	const frame = len(`{"seq":1234567890,"kind":"","payload":,"createdAt":"2006-01-02T15:04:05.000Z"},`)
	return frame + len(e.Kind) + len(e.Payload.String())
}
