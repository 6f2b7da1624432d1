package domaintest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/keel-agent/keel/domain"
)

// ErrProcessDead is what a World replies to a process that may not claim.
var ErrProcessDead = errors.New("domaintest: the process is dead")

// Epoch is when the first World begins.
var Epoch = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// World carries out commands on rows in memory, by nothing but domain.Decide, and checks the invariants of the ledger
// after each. The first violation is kept in Fault; a test looks at it after each step.
type World struct {
	Now       time.Time
	Ledgers   map[domain.SessionRef]*Ledger
	Processes map[string]*Process
	Fault     error
}

// Ledger is one session with all that belongs to it.
type Ledger struct {
	Row    domain.Session
	Events []domain.Event
	Runs   map[string]domain.Run
	Calls  []domain.ToolCall // in the order of their commit
	ghost  ghost
	sent   map[string]domain.Payload // what was accepted under each key, as it was sent
}

// Process is one server process.
type Process struct {
	Dead     bool
	Draining bool
}

// NewWorld returns an empty world.
func NewWorld() *World {
	return &World{Now: Epoch, Ledgers: map[domain.SessionRef]*Ledger{}, Processes: map[string]*Process{}}
}

// Do carries out one step.
func (w *World) Do(step Step) Reply {
	switch s := step.(type) {
	case Do:
		out, err := w.command(s.Ref, s.Cmd)
		return Reply{Outcome: out, Err: err}
	case Claim:
		return w.claim(s)
	case Register:
		if _, ok := w.Processes[s.Process]; ok {
			return Reply{Err: fmt.Errorf("domaintest: process %q exists", s.Process)}
		}
		w.Processes[s.Process] = &Process{}
	case Drain:
		w.Processes[s.Process].Draining = true
	case Kill:
		if p, ok := w.Processes[s.Process]; ok {
			p.Dead = true
		}
	case Bury:
		return Reply{Orphans: w.bury()}
	case Advance:
		w.Now = w.Now.Add(s.By)
	}
	return Reply{}
}

// Check returns nil unless some step broke an invariant.
func (w *World) Check() error { return w.Fault }

func (w *World) fail(err error) {
	if w.Fault == nil {
		w.Fault = err
	}
}

func (w *World) command(ref domain.SessionRef, cmd domain.Command) (domain.Outcome, error) {
	out, err := w.decide(ref, cmd)
	if fault := w.checkReply(ref, cmd, out, err); fault != nil {
		w.fail(fault)
	}
	return out, err
}

func (w *World) decide(ref domain.SessionRef, cmd domain.Command) (domain.Outcome, error) {
	v, untouched := w.view(ref, cmd.Needs()), w.view(ref, cmd.Needs())
	fx, err := domain.Decide(v, cmd)
	if !reflect.DeepEqual(v, untouched) {
		w.fail(fmt.Errorf("%T: Decide changed its view", cmd))
	}
	if err != nil {
		if !fx.Empty() || len(fx.Events)+len(fx.Runs)+len(fx.Calls) > 0 {
			w.fail(fmt.Errorf("%T: refused (%w) and yet it has effects", cmd, err))
		}
		return domain.Outcome{}, err
	}
	if fx.Empty() {
		if len(fx.Events)+len(fx.Runs)+len(fx.Calls) > 0 {
			w.fail(fmt.Errorf("%T: effects without a new version of the session", cmd))
		}
		return fx.Outcome, nil
	}
	l := w.Ledgers[ref]
	if (l == nil) != fx.Create {
		w.fail(fmt.Errorf("%T: Create is %t", cmd, fx.Create))
		return fx.Outcome, nil
	}
	if l == nil {
		l = &Ledger{Runs: map[string]domain.Run{}}
		w.Ledgers[ref] = l
	}
	if c, ok := cmd.(domain.Rescue); ok && v.OwnerLive {
		w.fail(fmt.Errorf("run %q was rescued from a live process", c.Run))
	}
	before := l.snapshot()
	l.apply(fx, w.Now)
	if err := l.check(before, cmd, fx); err != nil {
		w.fail(fmt.Errorf("%T on %v: %w", cmd, ref, err))
	}
	return fx.Outcome, nil
}

func (l *Ledger) snapshot() Ledger {
	c := *l
	c.Row.Fold = l.Row.Fold.Clone()
	c.Runs = maps.Clone(l.Runs)
	c.Calls = slices.Clone(l.Calls)
	return c
}

func (l *Ledger) apply(fx domain.Effects, now time.Time) {
	l.Row = *fx.Session
	l.Row.Fold = fx.Session.Fold.Clone()
	l.Events = append(l.Events, fx.Events...)
	for _, c := range fx.Runs {
		if c.Due != nil {
			c.Run.AvailableAt = now.Add(*c.Due)
		}
		l.Runs[c.Run.ID] = c.Run
	}
	for _, c := range fx.Calls {
		if i := slices.IndexFunc(l.Calls, func(have domain.ToolCall) bool { return have.ID == c.ID }); i >= 0 {
			l.Calls[i] = c
		} else {
			l.Calls = append(l.Calls, c)
		}
	}
}

func (w *World) view(ref domain.SessionRef, n domain.Needs) domain.View {
	v := domain.View{Ref: ref}
	l, ok := w.Ledgers[ref]
	if !ok {
		return v
	}
	row := l.Row
	row.Fold = l.Row.Fold.Clone()
	v.Session = &row
	if run, ok := l.Runs[cmp.Or(n.Run, row.ActiveRun)]; ok {
		v.Run = &run
		if p, ok := w.Processes[run.Owner]; ok && n.OwnerLive {
			v.OwnerLive = !p.Dead
		}
	}
	if run, ok := l.Runs[n.Made]; ok {
		v.Made = &run
	}
	for _, e := range l.Events {
		if e.Key != "" && e.Key == n.Key {
			v.Event = &e
		}
	}
	lastCalls := domain.Seq(0)
	for _, c := range l.Calls {
		if c.AssistantSeq < n.CallsBefore {
			lastCalls = c.AssistantSeq
		}
	}
	for _, c := range l.Calls {
		if slices.Contains(n.Calls, c.ID) || n.OpenCalls && c.Open() || lastCalls > 0 && c.AssistantSeq == lastCalls {
			v.Calls = append(v.Calls, c)
		}
	}
	return v
}

// claim proposes the due runs in the order of their sessions.
func (w *World) claim(s Claim) Reply {
	p, ok := w.Processes[s.Process]
	if !ok || p.Dead {
		return Reply{Err: ErrProcessDead}
	}
	var r Reply
	for _, ref := range w.Refs() {
		l := w.Ledgers[ref]
		run, ok := l.Runs[l.Row.ActiveRun]
		if p.Draining || !ok || run.Status != domain.StatusPending || run.Parked || run.AvailableAt.After(w.Now) ||
			l.Row.StateOwner != domain.Native {
			continue
		}
		out, err := w.command(ref, domain.ClaimRun{At: w.Now, Run: run.ID, Process: s.Process, Budget: s.Budget})
		if err != nil {
			w.fail(fmt.Errorf("ClaimRun of a claimable run was refused: %w", err))
		}
		switch out.Claim {
		case domain.ClaimSkipped:
			w.fail(fmt.Errorf("ClaimRun skips the claimable run %q", run.ID))
		case domain.ClaimNoWork:
			r.NoWork++
		default:
			r.Claims = append(r.Claims, out)
		}
	}
	return r
}

func (w *World) bury() []Orphan {
	var orphans []Orphan
	named := map[string]bool{}
	for _, ref := range w.Refs() {
		l := w.Ledgers[ref]
		if p, ok := w.Processes[l.Row.Owner]; ok && p.Dead {
			named[l.Row.Owner] = true
			orphans = append(orphans, Orphan{ref, l.Row.ActiveRun})
		}
	}
	maps.DeleteFunc(w.Processes, func(id string, p *Process) bool { return p.Dead && !named[id] })
	return orphans
}

// Refs returns the sessions by tenant and id.
func (w *World) Refs() []domain.SessionRef {
	return slices.SortedFunc(maps.Keys(w.Ledgers), func(a, b domain.SessionRef) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Session, b.Session))
	})
}
