package service

import (
	"context"
	"strconv"

	"github.com/keel-agent/keel/domain"
)

// Messages returns one page of the transcript as people read it, the inputs that wait for an answer, and the cursor of
// the next page, "" after the last. All pages show the ledger as it stood when the first one was read. limit 0 means
// the default; a page of large messages has fewer.
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
	o := newOutline()
	if err := s.scan(ctx, ref, 0, at.Head, o.add); err != nil {
		return nil, nil, "", err
	}
	all := o.transcript.Entries()
	begin := min(at.Offset, len(all))
	end := o.pageEnd(all, begin, pageSize(limit, messagesPageDefault, messagesPageMax))
	if end < len(all) {
		next = position{List: messagesList, Head: at.Head, Offset: end}.encode()
	}
	entries = all[begin:end]
	return entries, o.transcript.Unanswered, next, s.fillIn(ctx, ref, o, entries)
}

// outline is the transcript of a ledger without what its messages say: which entries there are, in which order. Its
// size follows the number of events, not their bytes.
type outline struct {
	transcript *domain.Transcript
	sizes      map[domain.Seq]int
	events     map[domain.Seq]domain.Event // the first of the ledger, up to messagesPageBytes
	bytes      int
}

func newOutline() *outline {
	return &outline{
		transcript: domain.NewTranscript(), sizes: map[domain.Seq]int{}, events: map[domain.Seq]domain.Event{},
	}
}

func (o *outline) add(e domain.Event) (bool, error) {
	bare, err := bare(e)
	if err != nil {
		return false, err
	}
	size := len(e.Payload.String())
	o.sizes[e.Seq] = size
	if o.bytes += size; o.bytes <= messagesPageBytes {
		o.events[e.Seq] = e
	}
	e.Payload = bare
	return true, o.transcript.Apply(e)
}

// bare returns the payload of e without what it says. That of a result has its own seq as durationMs.
func bare(e domain.Event) (domain.Payload, error) {
	switch e.Kind {
	case domain.UserMessage:
		in, err := domain.ParseInput(e.Payload)
		if err != nil || in.RetryOf == 0 {
			return domain.StoredPayload("{}"), err
		}
		return domain.StoredPayload(`{"retryOf":` + strconv.FormatInt(int64(in.RetryOf), 10) + `}`), nil
	case domain.AssistantMessage:
		m, err := domain.ParseAssistant(e.Payload)
		if err != nil {
			return domain.Payload{}, err
		}
		calls := domain.Assistant{InputSeqs: m.InputSeqs, HasInputSeqs: m.HasInputSeqs, StopReason: m.StopReason}
		for _, b := range m.Content {
			if b.Type == domain.CallBlock {
				calls.Content = append(calls.Content, domain.Block{Type: b.Type, ID: b.ID, Name: b.Name, Arguments: "{}"})
			}
		}
		return calls.Payload(0)
	case domain.ToolResult:
		out, err := domain.ParseToolOutput(e.Payload)
		if err != nil {
			return domain.Payload{}, err
		}
		return domain.ToolOutput{ToolCallID: out.ToolCallID, DurationMS: int64(e.Seq)}.Payload(0)
	}
	return e.Payload, nil // only the latest summary stays
}

// seqsOf returns the seqs of the events that an entry of the outline shows, none for a summary, which is whole.
func seqsOf(e domain.Entry) []domain.Seq {
	if e.Input == nil && e.Answer == nil {
		return nil
	}
	seqs := []domain.Seq{e.Seq}
	for _, r := range e.Results {
		if r != nil {
			seqs = append(seqs, domain.Seq(r.DurationMS))
		}
	}
	return seqs
}

// pageEnd returns where the page that begins at begin ends: after most entries, or before one that would make it too
// large.
func (o *outline) pageEnd(all []domain.Entry, begin, most int) int {
	end := min(begin+most, len(all))
	bytes := 0
	for i := begin; i < end; i++ {
		bytes += len(all[i].Summary)
		for _, seq := range seqsOf(all[i]) {
			bytes += o.sizes[seq]
		}
		if bytes > messagesPageBytes && i > begin {
			return i
		}
	}
	return end
}

// fillIn makes entries of the outline whole.
func (s *Service) fillIn(ctx context.Context, ref domain.SessionRef, o *outline, entries []domain.Entry) error {
	missing := map[domain.Seq]bool{}
	first, last := domain.Seq(0), domain.Seq(0)
	for _, e := range entries {
		for _, seq := range seqsOf(e) {
			if _, ok := o.events[seq]; ok {
				continue
			}
			if missing[seq] = true; first == 0 || seq < first {
				first = seq
			}
			last = max(last, seq)
		}
	}
	if first > 0 {
		err := s.scan(ctx, ref, first-1, last, func(e domain.Event) (bool, error) {
			if missing[e.Seq] {
				o.events[e.Seq] = e
			}
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	for i := range entries {
		if err := o.whole(&entries[i]); err != nil {
			return err
		}
	}
	return nil
}

func (o *outline) whole(e *domain.Entry) error {
	switch {
	case e.Input != nil:
		in, err := domain.ParseInput(o.events[e.Seq].Payload)
		e.Input = &in
		return err
	case e.Answer != nil:
		m, err := domain.ParseAssistant(o.events[e.Seq].Payload)
		if err != nil {
			return err
		}
		e.Answer = &m
		for i, r := range e.Results {
			if r == nil {
				continue
			}
			out, err := domain.ParseToolOutput(o.events[domain.Seq(r.DurationMS)].Payload)
			if err != nil {
				return err
			}
			e.Results[i] = &out
		}
	}
	return nil
}
