package memory

import "github.com/keel-agent/keel/domain"

// apply writes fx, all of it or, with ErrCorrupt, nothing.
func (s *Store) apply(ref domain.SessionRef, fx domain.Effects) error {
	r := s.sessions[ref]
	if err := s.check(ref, r, fx); err != nil {
		return err
	}
	if fx.Create {
		r = newRecord()
		s.sessions[ref] = r
	}
	r.row = cloneSession(*fx.Session)
	for _, e := range fx.Events {
		r.events = append(r.events, e)
		if e.Key != "" {
			r.keys[e.Key] = e.Seq
		}
	}
	for _, c := range fx.Runs {
		s.putRun(r, c)
	}
	for _, c := range cloneCalls(fx.Calls) {
		if i, ok := r.callAt[c.ID]; ok {
			r.calls[i] = c
			continue
		}
		r.callAt[c.ID] = len(r.calls)
		r.calls = append(r.calls, c)
	}
	return nil
}

func (s *Store) putRun(r *record, c domain.RunChange) {
	run := cloneRun(c.Run)
	if c.Due != nil {
		run.AvailableAt = s.now().Add(*c.Due)
	}
	r.runs[run.ID] = run
	s.runs[run.ID] = r
	delete(s.pending, run.ID)
	delete(s.running, run.ID)
	switch run.Status {
	case domain.StatusPending:
		s.pending[run.ID] = r
	case domain.StatusRunning:
		s.running[run.ID] = r
	}
}
