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

// Messages returns one page of the transcript as people read it, the inputs that wait for an answer, and the cursor of
// the next page, "" after the last. All pages show the ledger as it stood when the first one was read. limit 0 means
// the default.
func (s *Service) Messages(
	ctx context.Context, ref domain.SessionRef, cursor string, limit int,
) (entries []domain.Entry, waiting []domain.Seq, next string, err error) {
	at := position{List: messagesList}
	if cursor != "" {
		if at, err = decodePosition(cursor, messagesList); err != nil {
			return nil, nil, "", err
		}
	}
	head, err := s.head(ctx, ref, 0)
	if err != nil {
		return nil, nil, "", err
	}
	if cursor == "" {
		at.Head = head
	}
	if at.Head < 0 || at.Head > head || at.Offset < 0 {
		return nil, nil, "", domain.ErrInvalidCursor.At("cursor")
	}
	t := domain.NewTranscript()
	if err := s.scan(ctx, ref, 0, at.Head, func(e domain.Event) (bool, error) { return true, t.Apply(e) }); err != nil {
		return nil, nil, "", err
	}
	all := t.Entries()
	begin := min(at.Offset, len(all))
	end := min(begin+pageSize(limit, messagesPageDefault, messagesPageMax), len(all))
	if end < len(all) {
		next = position{List: messagesList, Head: at.Head, Offset: end}.encode()
	}
	return all[begin:end], t.Unanswered, next, nil
}

// Pages of a scan aim at scanBytes, in events by the size of those before.
const (
	scanBytes   = 1 << 20
	scanFirst   = 32
	scanLargest = 1000
)

// scan calls visit for the events after < seq ≤ until in order, until it returns false or an error.
func (s *Service) scan(
	ctx context.Context, ref domain.SessionRef, after, until domain.Seq, visit func(domain.Event) (bool, error),
) error {
	for page := scanFirst; after < until; {
		events, err := s.ledger.Events(ctx, ref, after, min(page, int(until-after)))
		if err != nil || len(events) == 0 {
			return err
		}
		bytes := 0
		for _, e := range events {
			if ok, err := visit(e); !ok || err != nil {
				return err
			}
			bytes += wireSize(e)
			after = e.Seq
		}
		page = min(max(scanBytes*len(events)/bytes, 1), scanLargest)
	}
	return nil
}

// wireSize is about how long an event's JSON is.
func wireSize(e domain.Event) int {
	const frame = len(`{"seq":1234567890,"kind":"","payload":,"createdAt":"2006-01-02T15:04:05.000Z"},`)
	return frame + len(e.Kind) + len(e.Payload.String())
}
