package service

import (
	"context"
	"slices"

	"github.com/keel-agent/keel/domain"
)

// NewestMessages is Messages from the end: all of its pages together are the transcript in reverse. It reads about as
// many events as the page shows, and the failed attempts before an answer that the page begins or ends with.
func (s *Service) NewestMessages(
	ctx context.Context, ref domain.SessionRef, cursor string, limit int,
) (entries []domain.Entry, waiting []domain.Seq, next string, err error) {
	row, _, err := s.sessions.Get(ctx, ref)
	if err != nil {
		return nil, nil, "", err
	}
	p := newestPage{page: page{most: pageSize(limit, messagesPageDefault, messagesPageMax)}}
	if cursor == "" {
		p.at = position{List: newestList, Head: row.HeadSeq, Next: row.HeadSeq + 1, Cut: row.KeptSeq, Waiting: row.Unanswered}
	} else if p.at, err = messagesPosition(cursor, newestList, row); err != nil {
		return nil, nil, "", err
	}
	most := min(2*p.most+16, scanPage)
	p.events = backwards{step: 16, most: most, scan: func(after, until domain.Seq, visit func(domain.Event) (bool, error)) error {
		return s.scanBy(ctx, ref, most, after, until, visit)
	}}
	p.load = p.events.one
	if waiting, err = p.read(); err == nil && p.next == nil {
		p.at.Next, p.at.Skip, p.at.Waiting = max(p.at.Cut, 1), 0, nil
		err = s.summary(ctx, ref, &p.page)
	}
	if p.next != nil {
		next = p.next.encode()
	}
	return p.entries, waiting, next, err
}

// newestPage is a page of a transcript that is read from the end: first the inputs that wait, then each answer, with
// its results, before the inputs that it is the first to list.
type newestPage struct {
	page
	events  backwards
	results map[string]*domain.ToolOutput // that were met before their answer
	output  int                           // bytes of the results
	bound   domain.Seq                    // the answer met last: results of the next one stand before it
}

// read fills the page, and returns those of its inputs that wait, ascending.
func (p *newestPage) read() (waiting []domain.Seq, err error) {
	begins := p.at
	for n := len(p.at.Waiting); n > 0; n-- {
		begins.Waiting = p.at.Waiting[:n]
		if more, err := p.input(begins.Waiting[n-1], begins); err != nil || !more {
			return waiting, err
		}
		waiting = slices.Insert(waiting, 0, begins.Waiting[n-1])
	}
	p.results, p.bound = map[string]*domain.ToolOutput{}, p.at.Next
	for seq := p.at.Next - 1; seq >= max(p.at.Cut, 1); seq-- {
		e, err := p.events.at(seq)
		if err != nil {
			return waiting, err
		}
		if more, err := p.visit(e); err != nil || !more {
			return waiting, err
		}
	}
	return waiting, nil
}

func (p *newestPage) visit(e domain.Event) (more bool, err error) {
	switch e.Kind {
	case domain.ToolResult:
		out, err := domain.ParseToolOutput(e.Payload)
		p.results[out.ToolCallID], p.output = &out, p.output+len(e.Payload.String())
		return true, err
	case domain.AssistantMessage:
		more, err = p.answer(e)
		clear(p.results)
		p.output, p.bound = 0, e.Seq
		return more, err
	}
	return true, nil
}

// answer adds an answer and, behind it, the inputs that it is the first to list.
func (p *newestPage) answer(e domain.Event) (more bool, err error) {
	begins := p.at
	begins.Next, begins.Skip, begins.Waiting = p.bound, 0, nil
	if len(p.entries) == p.most {
		p.next = &begins
		return false, nil
	}
	m, err := domain.ParseAssistant(e.Payload)
	if err != nil {
		return false, err
	}
	var inputs []domain.Seq
	entry := domain.Entry{Seq: e.Seq, Answer: &m}
	if m.StopReason.Completed() {
		if inputs, err = p.first(e.Seq, m.InputSeqs); err != nil {
			return false, err
		}
		entry.Results = make([]*domain.ToolOutput, len(m.CallIDs()))
		for i, id := range m.CallIDs() {
			entry.Results[i] = p.results[id]
		}
	}
	skip := 0
	if e.Seq == p.at.Next-1 {
		skip = min(p.at.Skip, 1+len(inputs))
	}
	if skip == 0 {
		if !p.add(entry, len(e.Payload.String())+p.output, begins) {
			return false, nil
		}
		skip = 1
	}
	begins.Next, begins.Skip = e.Seq+1, skip
	for ; begins.Skip <= len(inputs); begins.Skip++ {
		if more, err = p.input(inputs[len(inputs)-begins.Skip], begins); err != nil || !more {
			return more, err
		}
	}
	return true, nil
}

// first returns, of the inputs that the completed answer at seq lists, those that it is the first to list: those that the
// completed answer before it does not, which tells of its turn, or of one that is over.
func (p *newestPage) first(seq domain.Seq, listed []domain.Seq) ([]domain.Seq, error) {
	if len(listed) == 0 {
		return nil, nil
	}
	for s := seq - 1; s >= max(listed[0], p.at.Cut); s-- {
		e, err := p.events.at(s)
		if err != nil {
			return nil, err
		}
		if e.Kind != domain.AssistantMessage {
			continue
		}
		m, err := domain.ParseAssistant(e.Payload)
		if err != nil {
			return nil, err
		}
		if m.StopReason.Completed() {
			return p.presented(seq, listed, m.InputSeqs)
		}
	}
	return p.presented(seq, domain.BehindCut(p.at.Cut, listed), nil)
}
