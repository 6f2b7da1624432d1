package memory

import (
	"errors"
	"fmt"

	"github.com/keel-agent/keel/domain"
)

// ErrCorrupt is returned, and nothing is written, when the effects of a command would break an invariant of the
// tables. It means a fault in the domain, never one of the caller.
var ErrCorrupt = errors.New("the effects would corrupt the store")

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// check returns nil when fx may be applied to r, which is nil when the session does not exist.
func (s *Store) check(ref domain.SessionRef, r *record, fx domain.Effects) error {
	if (r == nil) != fx.Create {
		return corrupt("create is %t, but a row exists: %t", fx.Create, r != nil)
	}
	if r == nil {
		r = newRecord()
	}
	if err := checkRow(ref, &r.row, fx.Session); err != nil {
		return err
	}
	if err := checkEvents(r, fx); err != nil {
		return err
	}
	if err := checkCalls(r, fx); err != nil {
		return err
	}
	return s.checkRuns(r, fx)
}

func checkRow(ref domain.SessionRef, was, is *domain.Session) error {
	switch {
	case is.Ref != ref:
		return corrupt("the row of %v is written to %v", is.Ref, ref)
	case is.Version != was.Version+1:
		return corrupt("version %d follows %d", is.Version, was.Version)
	case is.Epoch < was.Epoch:
		return corrupt("the epoch falls from %d to %d", was.Epoch, is.Epoch)
	case is.HeadAt.Before(was.HeadAt):
		return corrupt("head_at falls")
	case was.State == domain.SessionClosed && is.State != domain.SessionClosed:
		return corrupt("a closed session opens")
	}
	return nil
}

func checkEvents(r *record, fx domain.Effects) error {
	head, hash, at := r.row.HeadSeq, r.row.HeadHash, r.row.HeadAt
	keys := map[string]bool{}
	for _, e := range fx.Events {
		spec, err := domain.LookupKind(e.Kind)
		if err != nil {
			return corrupt("kind %q", e.Kind)
		}
		_, used := r.keys[e.Key]
		switch {
		case e.Seq != head+1:
			return corrupt("seq %d follows %d", e.Seq, head)
		case (e.Key == "") != (spec.Key == domain.NoKey):
			return corrupt("%s has the key %q", e.Kind, e.Key)
		case e.Key != "" && (used || keys[e.Key]):
			return corrupt("the key %q is used twice", e.Key)
		case e.Hash != domain.NextHash(hash, e):
			return corrupt("the hash of seq %d does not chain", e.Seq)
		case e.CreatedAt.Before(at):
			return corrupt("created_at falls at seq %d", e.Seq)
		}
		keys[e.Key] = true
		head, hash, at = e.Seq, e.Hash, e.CreatedAt
	}
	if fx.Session.HeadSeq != head || fx.Session.HeadHash != hash || len(fx.Events) > 0 && !fx.Session.HeadAt.Equal(at) {
		return corrupt("the row's head is not the last event")
	}
	return nil
}

func checkCalls(r *record, fx domain.Effects) error {
	open := len(r.openCalls())
	for _, c := range fx.Calls {
		i, known := r.callAt[c.ID]
		switch {
		case known && !r.calls[i].Open():
			return corrupt("call %q changes after its result", c.ID)
		case known && r.calls[i].AssistantSeq != c.AssistantSeq:
			return corrupt("call %q moves to another message", c.ID)
		case !known && c.AssistantSeq <= r.row.HeadSeq:
			return corrupt("call %q belongs to an old message", c.ID)
		case c.ResultSeq > fx.Session.HeadSeq:
			return corrupt("the result of call %q lies beyond the head", c.ID)
		}
		if !known {
			open++
		}
		if !c.Open() {
			open--
		}
	}
	if fx.Session.OpenCalls != open {
		return corrupt("open_calls is %d, but %d are open", fx.Session.OpenCalls, open)
	}
	return nil
}

func (s *Store) checkRuns(r *record, fx domain.Effects) error {
	changed := map[string]domain.Run{}
	for _, c := range fx.Runs {
		was, known := r.runs[c.Run.ID]
		switch {
		case c.Run.Ref != fx.Session.Ref:
			return corrupt("run %q is of %v", c.Run.ID, c.Run.Ref)
		case c.Insert && s.runs[c.Run.ID] != nil:
			return corrupt("the run id %q is used twice", c.Run.ID)
		case !c.Insert && !known:
			return corrupt("run %q does not exist", c.Run.ID)
		case known && !was.Status.Active() && c.Run.Status != was.Status:
			return corrupt("run %q was final", c.Run.ID)
		}
		changed[c.Run.ID] = c.Run
	}
	active := map[string]domain.Run{}
	for _, run := range changed {
		if run.Status.Active() {
			active[run.ID] = run
		}
	}
	if was, ok := r.runs[r.row.ActiveRun]; ok && was.Status.Active() {
		if _, ok := changed[was.ID]; !ok {
			active[was.ID] = was
		}
	}
	return checkActive(fx.Session, active)
}

func checkActive(row *domain.Session, active map[string]domain.Run) error {
	if len(active) > 1 {
		return corrupt("%d active runs", len(active))
	}
	run, ok := active[row.ActiveRun]
	switch {
	case row.ActiveRun == "" && len(active) > 0, row.ActiveRun != "" && !ok:
		return corrupt("active_run_id is %q, not the active run", row.ActiveRun)
	case (row.Owner != "") != (run.Status == domain.StatusRunning):
		return corrupt("owner is %q while the run is %q", row.Owner, run.Status)
	case run.Owner != row.Owner:
		return corrupt("the run's owner is %q, the session's %q", run.Owner, row.Owner)
	case row.Owner != "" && run.Epoch != row.Epoch:
		return corrupt("the run's epoch is %d, the session's %d", run.Epoch, row.Epoch)
	case run.Parked && run.Status != domain.StatusPending:
		return corrupt("a run is parked and %q", run.Status)
	case row.State == domain.SessionClosed && row.ActiveRun != "":
		return corrupt("a closed session has an active run")
	}
	return nil
}
