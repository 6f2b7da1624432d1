package service

import (
	"context"
	"slices"

	"github.com/keel-agent/keel/domain"
)

// Messages returns one page of the transcript as people read it, the inputs on it that wait for an answer, and the
// cursor of the next page, "" after the last. All pages show the ledger as it stood when the first one was read. limit 0
// means the default; a page of large messages has fewer. It reads about as many events as the page shows.
func (s *Service) Messages(
	ctx context.Context, ref domain.SessionRef, cursor string, limit int,
) (entries []domain.Entry, waiting []domain.Seq, next string, err error) {
	row, _, err := s.sessions.Get(ctx, ref)
	if err != nil {
		return nil, nil, "", err
	}
	p := page{most: pageSize(limit, messagesPageDefault, messagesPageMax), seen: map[domain.Seq]domain.Event{}}
	p.load = func(seq domain.Seq) (domain.Event, error) { return s.event(ctx, ref, seq) }
	if cursor == "" {
		err = s.firstPage(ctx, row, &p)
	} else {
		p.at, err = messagesPosition(cursor, messagesList, row)
	}
	if err != nil {
		return nil, nil, "", err
	}
	p.cut = p.at.Cut
	p.fold = domain.Fold{TurnInputs: p.at.Turn}
	step := min(2*p.most+16, scanPage)
	if err := s.scanBy(ctx, ref, step, p.at.Next-1, p.at.Head, p.visit); err != nil {
		return nil, nil, "", err
	}
	if p.next == nil {
		waiting, err = p.rest()
	}
	if p.next != nil {
		next = p.next.encode()
	}
	return p.entries, waiting, next, err
}

// messagesPosition reads a cursor of the list of a session's messages.
func messagesPosition(cursor, list string, row domain.Session) (position, error) {
	at, err := decodePosition(cursor, list)
	if err == nil && !at.within(row.HeadSeq) {
		err = domain.ErrInvalidCursor.At("cursor")
	}
	return at, err
}

// within reports whether p can be a position of a transcript whose ledger has this head.
func (p position) within(head domain.Seq) bool {
	bad := func(seq domain.Seq) bool { return seq < 1 || seq > p.Head }
	return p.Head >= 1 && p.Head <= head && p.Next >= 1 && p.Next <= p.Head+1 && p.Skip >= 0 && p.Cut >= 0 &&
		!slices.ContainsFunc(p.Turn, bad) && !slices.ContainsFunc(p.Waiting, bad)
}

// firstPage begins p where the transcript begins: at the first event, or with the latest summary.
func (s *Service) firstPage(ctx context.Context, row domain.Session, p *page) error {
	kept := row.KeptSeq
	p.at = position{List: messagesList, Head: row.HeadSeq, Next: max(kept, 1), Cut: kept, Waiting: row.Unanswered}
	return s.summary(ctx, row.Ref, p)
}

// summary adds the summary that the transcript begins with, if there is one.
func (s *Service) summary(ctx context.Context, ref domain.SessionRef, p *page) error {
	kept := p.at.Cut
	if kept == 0 {
		return nil
	}
	return s.scanBy(ctx, ref, messagesPageDefault, kept-1, p.at.Head, func(e domain.Event) (bool, error) {
		if e.Kind != domain.Compaction {
			return true, nil
		}
		summary := domain.NewTranscript() // knows what a compaction says
		if err := summary.Apply(e); err != nil || summary.KeptSeq != kept {
			return true, err
		}
		p.add(summary.Entries()[0], len(e.Payload.String()), p.at)
		return false, nil
	})
}

// event returns one event of the ledger.
func (s *Service) event(ctx context.Context, ref domain.SessionRef, seq domain.Seq) (found domain.Event, err error) {
	err = s.scanBy(ctx, ref, 1, seq-1, seq, func(e domain.Event) (bool, error) {
		found = e
		return false, nil
	})
	return found, err
}

// page is a page of a transcript that is being read. An input stands just before the first completed answer that lists
// it: one that the answers of its turn did not list before (domain.Transcript). Those that no answer lists come last.
type page struct {
	most int
	at   position   // where it begins
	cut  domain.Seq // position.Cut of the next entry
	fold domain.Fold

	entries []domain.Entry
	begins  []position     // of a page that began with the entry
	sizes   int            // bytes of the entries
	open    map[string]int // the open calls of the last entry, by their place among its results
	next    *position      // where the next page begins, once an entry found no room

	load  func(domain.Seq) (domain.Event, error)
	seen  map[domain.Seq]domain.Event // inputs that were read and may be presented soon
	bytes int                         // of seen, at most a page's
}

// add appends an entry unless the page is full. It reports whether there was room.
func (p *page) add(e domain.Entry, size int, begins position) bool {
	if len(p.entries) == p.most || len(p.entries) > 0 && p.sizes+size > messagesPageBytes {
		p.next = &begins
		return false
	}
	p.entries, p.begins, p.sizes = append(p.entries, e), append(p.begins, begins), p.sizes+size
	return true
}

func (p *page) visit(e domain.Event) (more bool, err error) {
	turn := p.fold.TurnInputs
	if err := p.fold.Apply(e); err != nil {
		return false, err
	}
	switch e.Kind {
	case domain.UserMessage:
		if size := len(e.Payload.String()); p.bytes+size <= messagesPageBytes {
			p.seen[e.Seq], p.bytes = e, p.bytes+size
		}
	case domain.AssistantMessage:
		return p.answer(e, turn)
	case domain.ToolResult:
		return p.result(e)
	}
	return true, nil
}

// answer adds an answer and, before it, the inputs that it is the first to list.
func (p *page) answer(e domain.Event, turn []domain.Seq) (more bool, err error) {
	m, err := domain.ParseAssistant(e.Payload)
	if err != nil {
		return false, err
	}
	p.open = nil
	var inputs []domain.Seq
	entry := domain.Entry{Seq: e.Seq, Answer: &m}
	if m.StopReason.Completed() {
		if inputs, err = p.presented(e.Seq, domain.BehindCut(p.cut, m.InputSeqs), turn); err != nil {
			return false, err
		}
		entry.Results = make([]*domain.ToolOutput, len(m.CallIDs()))
	}
	begins := p.at
	begins.Next, begins.Skip, begins.Turn, begins.Cut = e.Seq, 0, turn, p.cut
	if e.Seq == p.at.Next {
		begins.Skip = min(p.at.Skip, len(inputs)) // an answer is never behind: the page would begin later
	}
	for _, seq := range inputs[begins.Skip:] {
		if more, err = p.input(seq, begins); err != nil || !more {
			return more, err
		}
		begins.Skip++
	}
	p.forget(m.InputSeqs)
	if m.StopReason.Completed() {
		p.cut = 0
	}
	if !p.add(entry, len(e.Payload.String()), begins) {
		return false, nil
	}
	p.open = map[string]int{}
	for i := range entry.Results {
		p.open[m.CallIDs()[i]] = i
	}
	return true, nil
}

// presented returns, of the inputs that the answer at seq lists, those that no answer of its turn listed before and that
// none of them replaces.
func (p *page) presented(seq domain.Seq, listed, turn []domain.Seq) ([]domain.Seq, error) {
	var inputs, replaced []domain.Seq
	for _, s := range listed {
		if s >= seq || slices.Contains(turn, s) {
			continue
		}
		e, err := p.loaded(s)
		if err != nil {
			return nil, err
		}
		if e.Kind != domain.UserMessage {
			continue
		}
		in, err := domain.ParseInput(e.Payload)
		if err != nil {
			return nil, err
		}
		if inputs = append(inputs, s); in.RetryOf > 0 && in.RetryOf < s {
			replaced = append(replaced, in.RetryOf)
		}
	}
	return slices.DeleteFunc(inputs, func(s domain.Seq) bool { return slices.Contains(replaced, s) }), nil
}

// forget drops inputs that were presented.
func (p *page) forget(inputs []domain.Seq) {
	for _, seq := range inputs {
		p.bytes -= len(p.seen[seq].Payload.String())
		delete(p.seen, seq)
	}
}

func (p *page) loaded(seq domain.Seq) (domain.Event, error) {
	if e, ok := p.seen[seq]; ok {
		return e, nil
	}
	return p.load(seq)
}

// input adds an input. It reports whether there was room.
func (p *page) input(seq domain.Seq, begins position) (bool, error) {
	e, err := p.loaded(seq)
	if err != nil {
		return false, err
	}
	if e.Kind != domain.UserMessage {
		return false, domain.ErrInvalidCursor.At("cursor")
	}
	in, err := domain.ParseInput(e.Payload)
	return p.add(domain.Entry{Seq: seq, Input: &in}, len(e.Payload.String()), begins), err
}

// result adds a result to the answer that made the call, if that is on the page. An entry that becomes too large by its
// results begins the next page.
func (p *page) result(e domain.Event) (more bool, err error) {
	out, err := domain.ParseToolOutput(e.Payload)
	if err != nil {
		return false, err
	}
	i, ok := p.open[out.ToolCallID]
	if !ok {
		return true, nil
	}
	last := len(p.entries) - 1
	if p.sizes += len(e.Payload.String()); p.sizes > messagesPageBytes && last > 0 {
		p.next, p.entries = &p.begins[last], p.entries[:last]
		return false, nil
	}
	p.entries[last].Results[i] = &out
	delete(p.open, out.ToolCallID)
	return true, nil
}

// rest adds the inputs that wait, and returns those that are on the page.
func (p *page) rest() (waiting []domain.Seq, err error) {
	begins := p.at
	begins.Next, begins.Skip, begins.Turn, begins.Cut = p.at.Head+1, 0, nil, 0
	if p.at.Next > p.at.Head {
		begins.Skip = min(p.at.Skip, len(p.at.Waiting))
	}
	for _, seq := range p.at.Waiting[begins.Skip:] {
		if more, err := p.input(seq, begins); err != nil || !more {
			return waiting, err
		}
		waiting = append(waiting, seq)
		begins.Skip++
	}
	return waiting, nil
}
