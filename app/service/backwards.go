package service

import "github.com/keel-agent/keel/domain"

// backwards reads a ledger, which the store reads forwards alone, from its end: in windows that grow while events are
// small. It holds about a page's bytes of events, and one event at least.
type backwards struct {
	scan func(after, until domain.Seq, visit func(domain.Event) (bool, error)) error
	step int // how many events the next window has, at most most
	most int

	held  []domain.Event // without gaps, ascending
	bytes int            // of held
}

// at returns the event at seq, and reads the window that ends with it when it is not held.
func (b *backwards) at(seq domain.Seq) (domain.Event, error) {
	if !b.holds(seq) {
		if err := b.readTo(seq); err != nil {
			return domain.Event{}, err
		}
	}
	if !b.holds(seq) {
		return domain.Event{}, domain.ErrNotFound
	}
	return b.held[seq-b.held[0].Seq], nil
}

// one returns the event at seq, and reads it alone when it is not held.
func (b *backwards) one(seq domain.Seq) (found domain.Event, err error) {
	if b.holds(seq) {
		return b.held[seq-b.held[0].Seq], nil
	}
	err = b.scan(seq-1, seq, func(e domain.Event) (bool, error) {
		found = e
		return false, nil
	})
	return found, err
}

func (b *backwards) holds(seq domain.Seq) bool {
	return len(b.held) > 0 && seq >= b.held[0].Seq && seq <= b.held[len(b.held)-1].Seq
}

// readTo reads the window that ends with seq, puts it before what is held when that goes on from there, and drops the
// latest events that are too much.
func (b *backwards) readTo(seq domain.Seq) error {
	window, bytes, err := b.window(seq)
	if err != nil {
		return err
	}
	if !b.holds(seq + 1) {
		b.held, b.bytes = nil, 0
	}
	b.held, b.bytes = append(window, b.held...), b.bytes+bytes
	for last := len(b.held) - 1; b.bytes > messagesPageBytes && last >= len(window); last-- {
		b.bytes -= len(b.held[last].Payload.String())
		b.held[last], b.held = domain.Event{}, b.held[:last]
	}
	return nil
}

// window reads the window that ends with seq. One that turns out to have too many bytes gives way to a smaller one.
func (b *backwards) window(seq domain.Seq) (events []domain.Event, bytes int, err error) {
	for {
		events, bytes = nil, 0
		err := b.scan(max(seq-domain.Seq(b.step), 0), seq, func(e domain.Event) (bool, error) {
			events, bytes = append(events, e), bytes+len(e.Payload.String())
			return bytes <= messagesPageBytes, nil
		})
		switch {
		case err != nil:
			return nil, 0, err
		case bytes > messagesPageBytes && b.step > 1:
			b.step = max(b.step/4, 1)
			continue
		case bytes < messagesPageBytes/4:
			b.step = min(2*b.step, b.most)
		}
		return events, bytes, nil
	}
}
