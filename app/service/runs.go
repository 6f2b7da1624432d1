package service

import (
	"context"
	"errors"

	"github.com/keel-agent/keel/app/cascade"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// EnsureRun makes sure that a run will look at the session and returns it, nil when there is nothing to do.
func (s *Service) EnsureRun(ctx context.Context, ref domain.SessionRef) (*domain.Run, error) {
	out, err := s.ledger.Do(ctx, ref, domain.EnsureRun{At: s.now(), NewRun: s.ids.New()})
	return out.Run, err
}

// Compact asks for a compaction and returns the run that will see to it, a new one when none is active. Asking again
// before it was carried out changes nothing.
func (s *Service) Compact(ctx context.Context, ref domain.SessionRef) (*domain.Run, error) {
	out, err := s.ledger.Do(ctx, ref, domain.EnsureRun{At: s.now(), Compact: true, NewRun: s.ids.New()})
	return out.Run, err
}

// Cancel asks a run to end as cancelled: the one that request names in runId, else the active one. It returns that run
// as it is now, nil when there is none. Asking again changes nothing.
func (s *Service) Cancel(ctx context.Context, ref domain.SessionRef, request domain.Payload) (*domain.Run, error) {
	b, err := parseBody(request)
	if err != nil {
		return nil, err
	}
	named, err := b.id("runId")
	if err != nil {
		return nil, err
	}
	if named == "" { // the command names its run: given again after a lost reply it must not meet the next one
		row, _, err := s.sessions.Get(ctx, ref)
		if err != nil {
			return nil, err
		}
		named = row.ActiveRun
	}
	var out domain.Outcome
	if named != "" {
		if out, err = s.ledger.Do(ctx, ref, domain.RequestCancel{Run: named}); err != nil {
			return nil, err
		}
	}
	if err := s.cancelChildren(ctx, ref); err != nil || named == "" {
		return nil, err
	}
	if out.Run != nil && out.Run.ID == named {
		return out.Run, nil
	}
	run, err := s.runs.Get(ctx, ref, named)
	if errors.Is(err, domain.ErrNotFound) {
		return nil, nil
	}
	return &run, err
}

// cancelChildren cancels the runs that a cancelled run of parent leaves behind.
func (s *Service) cancelChildren(ctx context.Context, parent domain.SessionRef) error {
	_, err := cascade.Cancel(ctx, s.ledger, s.runs, parent)
	return err
}

// Runs returns one page of a session's runs, newest first, and the cursor of the next page, "" after the last. limit 0
// means the default.
func (s *Service) Runs(ctx context.Context, ref domain.SessionRef, cursor string, limit int) ([]domain.Run, string, error) {
	var before *ports.RunCursor
	if cursor != "" {
		p, err := decodePosition(cursor, runsList)
		if err != nil {
			return nil, "", err
		}
		before = &ports.RunCursor{CreatedAtMS: p.CreatedAtMS, Run: p.ID}
	}
	size := pageSize(limit, runsPageDefault, runsPageMax)
	runs, err := s.runs.List(ctx, ref, before, size+1)
	if err != nil || len(runs) <= size {
		return runs, "", err
	}
	last := runs[size-1]
	return runs[:size], position{List: runsList, CreatedAtMS: last.CreatedAt.UnixMilli(), ID: last.ID}.encode(), nil
}
