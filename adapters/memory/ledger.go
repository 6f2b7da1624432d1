package memory

import (
	"context"
	"slices"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Do implements ports.Ledger.
func (s *Store) Do(ctx context.Context, ref domain.SessionRef, cmd domain.Command) (domain.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return domain.Outcome{}, err
	}
	s.mu.Lock()
	out, commit, err := s.carryOut(ref, cmd)
	s.mu.Unlock()
	if err != nil {
		return domain.Outcome{}, err
	}
	s.tell(commit)
	return out, nil
}

// carryOut decides cmd and applies its effects. The commit is nil when nothing was written.
func (s *Store) carryOut(ref domain.SessionRef, cmd domain.Command) (domain.Outcome, *ports.Commit, error) {
	v := s.view(ref, cmd.Needs())
	fx, err := domain.Decide(v, cmd)
	if err != nil {
		return domain.Outcome{}, nil, err
	}
	out := fx.Outcome
	if !fx.Empty() {
		if err := s.apply(ref, fx); err != nil {
			return domain.Outcome{}, nil, err
		}
	}
	out.Session = cloneSession(out.Session)
	if out.Run = clonePointer(out.Run); out.Run != nil {
		*out.Run = cloneRun(*out.Run)
		if r, ok := s.runs[out.Run.ID]; ok {
			out.Run.AvailableAt = r.runs[out.Run.ID].AvailableAt
		}
	}
	if fx.Empty() {
		return out, nil, nil
	}
	return out, &ports.Commit{Ref: ref, Wake: fx.Wake, Events: slices.Clone(fx.Events)}, nil
}

// tell hands commits to the notifier. The mutex must not be held.
func (s *Store) tell(commits ...*ports.Commit) {
	for _, c := range commits {
		if c != nil {
			s.notifier.Committed(*c)
		}
	}
}

// view loads what a command needs. Its rows are copies.
func (s *Store) view(ref domain.SessionRef, n domain.Needs) domain.View {
	v := domain.View{Ref: ref}
	r, ok := s.sessions[ref]
	if !ok {
		return v
	}
	row := cloneSession(r.row)
	v.Session = &row
	if n.Run == "" {
		n.Run = row.ActiveRun
	}
	if run, ok := r.runs[n.Run]; ok {
		run = cloneRun(run)
		v.Run = &run
	}
	if run, ok := r.runs[n.Made]; ok {
		run = cloneRun(run)
		v.Made = &run
	}
	if seq, ok := r.keys[n.Key]; ok && n.Key != "" {
		e := r.events[seq-1]
		v.Event = &e
	}
	v.Calls = r.needed(n)
	if n.OwnerLive && v.Run != nil {
		p, ok := s.processes[v.Run.Owner]
		v.OwnerLive = ok && !p.Dead
	}
	return v
}

func (r *record) needed(n domain.Needs) []domain.ToolCall {
	switch {
	case n.OpenCalls:
		return r.openCalls()
	case n.CallsBefore > 0:
		return r.callsBefore(n.CallsBefore)
	}
	var calls []domain.ToolCall
	for _, id := range n.Calls {
		if i, ok := r.callAt[id]; ok {
			calls = append(calls, r.calls[i])
		}
	}
	return cloneCalls(calls)
}

// Events implements ports.Ledger.
func (s *Store) Events(ctx context.Context, ref domain.SessionRef, after domain.Seq, limit int) ([]domain.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.sessions[ref]
	if !ok {
		return nil, domain.ErrNotFound
	}
	rest := r.events[min(max(after, 0), r.row.HeadSeq):]
	page, bytes := 0, 0
	for page < min(len(rest), limit) && bytes <= ports.PageBytes {
		bytes += len(rest[page].Payload.String())
		page++
	}
	return slices.Clone(rest[:page]), nil
}
