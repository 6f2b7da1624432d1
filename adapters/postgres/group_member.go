package postgres

import (
	"cmp"
	"slices"
	"time"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
)

// member is a session in a group: its rows as they will be after the commands decided so far.
type member struct {
	ref     domain.SessionRef
	known   *kept // what the store knows of it, right if seen agrees
	seen    int64 // its version in the database; 0 when it does not exist
	session *domain.Session
	runs    map[string]*domain.Run
	events  map[string]*domain.Event
	calls   map[string]domain.ToolCall

	merged  domain.Effects // of all commands
	mine    bool           // some command came from the process that runs it
	applied bool
}

func newMember(ref domain.SessionRef, known *kept) *member {
	return &member{
		ref: ref, known: known,
		runs: make(map[string]*domain.Run), events: make(map[string]*domain.Event), calls: make(map[string]domain.ToolCall),
	}
}

// knownHolds reports whether what the store knows of the session is what the database has.
func (m *member) knownHolds() bool { return m.known != nil && m.known.session.Version == m.seen }

func (m *member) view(needs domain.Needs) domain.View {
	v := domain.View{Ref: m.ref, Session: m.session}
	if m.session == nil {
		return v
	}
	run := needs.Run
	if run == "" || !sqlstore.Storable(run) {
		run = m.session.ActiveRun
	}
	v.Run = m.runs[run]
	if needs.Key != "" {
		v.Event = m.events[needs.Key]
	}
	for _, call := range m.calls {
		if slices.Contains(needs.Calls, call.ID) {
			v.Calls = append(v.Calls, call)
		}
	}
	slices.SortFunc(v.Calls, func(a, b domain.ToolCall) int {
		return cmp.Or(cmp.Compare(a.AssistantSeq, b.AssistantSeq), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	return v
}

// add lets the effects of a command happen to m, and completes its outcome.
func (m *member) add(fx *domain.Effects, now int64) {
	sqlstore.CompleteOutcome(fx, now)
	m.session = fx.Session
	m.merged.Session, m.merged.InfoChanged = fx.Session, m.merged.InfoChanged || fx.InfoChanged
	m.merged.Events = append(m.merged.Events, fx.Events...)
	for i := range fx.Events {
		if e := &fx.Events[i]; e.Key != "" {
			m.events[e.Key] = e
		}
	}
	for _, c := range fx.Runs {
		m.addRun(dated(c, now), c.Insert)
	}
	for _, c := range fx.Calls {
		m.addCall(c)
	}
	merge(&m.merged.Wake, fx.Wake)
}

// addRun keeps the last state of a run, which is inserted when any command inserted it.
func (m *member) addRun(run domain.Run, insert bool) {
	m.runs[run.ID] = &run
	all := &m.merged.Runs
	if i := slices.IndexFunc(*all, func(c domain.RunChange) bool { return c.Run.ID == run.ID }); i >= 0 {
		(*all)[i].Run = run
		return
	}
	*all = append(*all, domain.RunChange{Run: run, Insert: insert})
}

func (m *member) addCall(c domain.ToolCall) {
	m.calls[c.ID] = c
	all := &m.merged.Calls
	if i := slices.IndexFunc(*all, func(have domain.ToolCall) bool { return have.ID == c.ID }); i >= 0 {
		(*all)[i] = c
		return
	}
	*all = append(*all, c)
}

// dated returns the run of c as it will be stored at now.
func dated(c domain.RunChange, now int64) domain.Run {
	run := c.Run
	if c.Due != nil {
		run.AvailableAt = time.UnixMilli(now + c.Due.Milliseconds()).UTC()
	}
	return run
}
