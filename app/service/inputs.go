package service

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	"github.com/keel-agent/keel/domain"
)

// SubmitInput commits what the client sent as a user.message and ensures the run that will answer it. What is stored
// is the input itself, with a minted requestId when it has none (absent or null). The outcome has the event and the run
// that answers it, also for a replay.
func (s *Service) SubmitInput(ctx context.Context, ref domain.SessionRef, input domain.Payload) (domain.Outcome, error) {
	return s.submit(ctx, ref, input, "")
}

// AppendEvent commits {kind, payload, requestId?}. Clients may write user.message alone; it is the same command as
// SubmitInput. A requestId beside the payload and one in it must agree; the keys of other kinds are refused.
func (s *Service) AppendEvent(ctx context.Context, ref domain.SessionRef, envelope domain.Payload) (domain.Outcome, error) {
	b, err := parseBody(envelope)
	if err != nil {
		return domain.Outcome{}, err
	}
	kind, err := b.text("kind")
	if err != nil {
		return domain.Outcome{}, err
	}
	if err := domain.EdgeWritable(domain.Kind(kind)); err != nil {
		return domain.Outcome{}, err
	}
	for _, other := range []domain.KeyName{domain.ToolCallID, domain.GenerationID} {
		if b.given(string(other)) {
			return domain.Outcome{}, domain.ErrInvalidKey.At(string(other)).With("is the key of another kind")
		}
	}
	key, err := requestID(b)
	if err != nil {
		return domain.Outcome{}, err
	}
	if !b.given("payload") || b["payload"][0] != '{' {
		return domain.Outcome{}, domain.ErrInvalidPayload.At("payload").With("must be an object")
	}
	return s.submit(ctx, ref, domain.StoredPayload(string(b["payload"])), key)
}

// submit commits input under the key beside it, "" meaning the one in it.
func (s *Service) submit(ctx context.Context, ref domain.SessionRef, input domain.Payload, beside string) (domain.Outcome, error) {
	b, err := parseBody(input)
	if err != nil {
		return domain.Outcome{}, err
	}
	key, err := requestID(b)
	if err != nil {
		return domain.Outcome{}, err
	}
	if key != "" && beside != "" && key != beside {
		return domain.Outcome{}, domain.ErrInvalidKey.At("requestId").With("the payload's requestId differs from the request's")
	}
	if key == "" {
		if key = beside; key == "" {
			key = s.ids.New()
		}
		input = input.With("requestId", quote(key))
	}
	if err := s.checkInput(b, input); err != nil {
		return domain.Outcome{}, err
	}
	refused, err := refusal(cmp.Or(checkSaid(b, input), s.checkSelection(ctx, ref, b)))
	if err != nil {
		return domain.Outcome{}, err
	}
	out, err := s.ledger.Do(ctx, ref, domain.SubmitInput{
		At: s.now(), RequestID: key, Payload: input, NewRun: s.ids.New(), Refusal: refused,
	})
	if err != nil {
		return domain.Outcome{}, err
	}
	out.Run, err = s.answeringRun(ctx, ref, out)
	return out, err
}

// checkInput holds what the edge asks of an input beyond the shape that domain checks.
func (s *Service) checkInput(b body, input domain.Payload) error {
	if n := len(input.String()); n > s.maxPayload {
		return domain.ErrPayloadTooLarge.With(strconv.Itoa(n) + " bytes, at most " + strconv.Itoa(s.maxPayload) + " are accepted")
	}
	if len(b["content"]) == 0 && len(b["text"]) == 0 {
		return domain.ErrInvalidPayload.At("text").With("text or content is required")
	}
	return nil
}

// checkSaid refuses an input that says nothing. Ledgers of earlier versions hold such ones.
func checkSaid(b body, input domain.Payload) error {
	in, err := domain.ParseInput(input)
	switch {
	case err != nil || !in.Blank():
		return err
	case len(in.Content) > 0:
		return domain.ErrInvalidPayload.At("content").With("is empty: no block says anything")
	case len(b["content"]) > 0:
		return domain.ErrInvalidPayload.At("content").With("is empty")
	}
	return domain.ErrInvalidPayload.At("text").With("is empty")
}

// requestID returns the member requestId, "" when it is absent or null, or ErrInvalidKey.
func requestID(b body) (string, error) {
	if !b.given("requestId") {
		return "", nil
	}
	key, err := b.text("requestId")
	if err != nil {
		return "", domain.ErrInvalidKey.At("requestId").With(reason(err))
	}
	if _, err := domain.DedupeKey(domain.RequestID, key); err != nil {
		return "", err
	}
	return key, nil
}

// answeringRun returns the run that was stored with the event. While that run is only promised, after a cancel, it has
// an id and is pending. A session that is not open makes no more runs, so there the promised one counts as cancelled.
func (s *Service) answeringRun(ctx context.Context, ref domain.SessionRef, out domain.Outcome) (*domain.Run, error) {
	id := out.Event.RunID
	if id == "" {
		return nil, nil
	}
	if out.Run != nil && out.Run.ID == id {
		return out.Run, nil
	}
	run, err := s.runs.Get(ctx, ref, id)
	switch {
	case !errors.Is(err, domain.ErrNotFound):
		return &run, err
	case out.Session.State != domain.SessionOpen:
		return &domain.Run{ID: id, Ref: ref, Status: domain.StatusFailed, Reason: domain.ReasonCancelled}, nil
	}
	return &domain.Run{ID: id, Ref: ref, Status: domain.StatusPending}, nil
}
