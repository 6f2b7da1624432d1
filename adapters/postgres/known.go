package postgres

import (
	"slices"
	"sync"

	"github.com/keel-agent/keel/domain"
)

// maxKnown bounds the sessions, maxKnownBytes the texts of sessions, that a store keeps in memory.
const (
	maxKnown      = 4096
	maxKnownBytes = 64 << 20
)

// known are sessions that this process runs, as its own last commits left them. A decision on one is a guess that its
// write verifies: the guard holds only while the version is the same, and with it the session, its active run and its
// calls; that neither the key nor new calls exist is left to their unique indexes. So only a decision to write is taken
// on it, never a refusal and never an answer.
type known struct {
	mu    sync.Mutex
	rows  map[domain.SessionRef]kept
	bytes int
}

// kept is never changed once it is kept.
type kept struct {
	session *domain.Session
	run     *domain.Run
	calls   []domain.ToolCall // open ones, perhaps not all
}

func (k kept) bytes() int {
	s := k.session
	return len(s.System) + len(s.CreateRequest.String()) + len(s.Metadata.String())
}

// get returns what is known of a session, nil when it is not.
func (k *known) get(ref domain.SessionRef) *kept {
	k.mu.Lock()
	defer k.mu.Unlock()
	if row, ok := k.rows[ref]; ok {
		return &row
	}
	return nil
}

// view returns what is known of a session if it is all that needs asks for, keys and new calls aside.
func (k *known) view(ref domain.SessionRef, needs domain.Needs) (v domain.View, ok bool) {
	if !plain(needs) {
		return v, false
	}
	row := k.get(ref)
	if row == nil || needs.Run != "" && needs.Run != row.run.ID {
		return v, false
	}
	v = domain.View{Ref: ref, Session: row.session, Run: row.run}
	for _, c := range row.calls {
		if slices.Contains(needs.Calls, c.ID) {
			v.Calls = append(v.Calls, c)
		}
	}
	return v, true
}

// keep remembers what a commit of fx, decided on v, left behind at now: of a session that this process runs when mine,
// else only of one that is known.
func (k *known) keep(v domain.View, fx *domain.Effects, now int64, mine bool) {
	s := fx.Session
	next := kept{session: s, run: v.Run}
	for _, c := range fx.Runs {
		if c.Run.ID == s.ActiveRun {
			run := dated(c, now)
			next.run = &run
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	last, had := k.rows[s.Ref]
	switch {
	case had && last.session.Version >= s.Version, !had && !mine:
		return
	case s.Owner == "" || next.run == nil || next.run.ID != s.ActiveRun:
		k.remove(s.Ref)
		return
	}
	if v.Session == nil || had && last.session.Version != v.Session.Version {
		last.calls = nil
	}
	next.calls = stillOpen(s, last.calls, v.Calls, fx.Calls)
	k.remove(s.Ref)
	for ref := range k.rows {
		if len(k.rows) < maxKnown && k.bytes+next.bytes() <= maxKnownBytes {
			break
		}
		k.remove(ref)
	}
	k.rows[s.Ref] = next
	k.bytes += next.bytes()
}

// stillOpen returns the calls without a result, the later lists overruling the earlier ones.
func stillOpen(s *domain.Session, lists ...[]domain.ToolCall) []domain.ToolCall {
	if s.OpenCalls == 0 {
		return nil
	}
	var open []domain.ToolCall
	for _, list := range lists {
		for _, c := range list {
			open = slices.DeleteFunc(open, func(have domain.ToolCall) bool { return have.ID == c.ID })
			if c.Open() {
				open = append(open, c)
			}
		}
	}
	return open
}

func (k *known) drop(ref domain.SessionRef) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remove(ref)
}

// remove needs the lock.
func (k *known) remove(ref domain.SessionRef) {
	if row, ok := k.rows[ref]; ok {
		k.bytes -= row.bytes()
		delete(k.rows, ref)
	}
}

// ofOwner reports whether cmd comes from the process that runs the session.
func ofOwner(cmd domain.Command) bool {
	switch cmd.(type) {
	case domain.AppendAssistant, domain.StartCalls, domain.AppendToolResult, domain.AppendCompaction:
		return true
	}
	return false
}
