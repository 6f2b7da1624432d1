package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// Effects that the domain must never give are refused, and change nothing.
func TestCorruptEffectsAreRefused(t *testing.T) {
	ref := domain.SessionRef{Tenant: "t", Session: "s"}
	input := func(id string) domain.SubmitInput {
		return domain.SubmitInput{At: domaintest.Epoch, RequestID: id, Payload: domaintest.User(id, "x"), NewRun: "r-" + id}
	}
	for name, spoil := range map[string]func(fx *domain.Effects){
		"the version stays":       func(fx *domain.Effects) { fx.Session.Version-- },
		"the version jumps":       func(fx *domain.Effects) { fx.Session.Version++ },
		"another session":         func(fx *domain.Effects) { fx.Session.Ref.Tenant = "u" },
		"create what exists":      func(fx *domain.Effects) { fx.Create = true },
		"the epoch falls":         func(fx *domain.Effects) { fx.Session.Epoch-- },
		"a seq is burned":         func(fx *domain.Effects) { fx.Events[0].Seq++; fx.Session.HeadSeq++ },
		"the head is elsewhere":   func(fx *domain.Effects) { fx.Session.HeadSeq++ },
		"the hash breaks":         func(fx *domain.Effects) { fx.Events[0].Hash[0]++; fx.Session.HeadHash = fx.Events[0].Hash },
		"a key is used twice":     func(fx *domain.Effects) { fx.Events[0].Key = "requestId:a"; rehash(fx) },
		"no key":                  func(fx *domain.Effects) { fx.Events[0].Key = ""; rehash(fx) },
		"an unknown kind":         func(fx *domain.Effects) { fx.Events[0].Kind = "x"; rehash(fx) },
		"a run that is not there": func(fx *domain.Effects) { fx.Runs[0].Run.ID = "x" },
		"a run inserted twice":    func(fx *domain.Effects) { fx.Runs[0].Insert = true },
		"two active runs": func(fx *domain.Effects) {
			fx.Runs = append(fx.Runs, domain.RunChange{Insert: true, Run: domain.Run{ID: "x", Ref: ref, Status: domain.StatusPending}})
		},
		"no active run":         func(fx *domain.Effects) { fx.Session.ActiveRun = "" },
		"an owner without run":  func(fx *domain.Effects) { fx.Session.Owner = "p" },
		"open calls miscounted": func(fx *domain.Effects) { fx.Session.OpenCalls++ },
		"a call of old":         func(fx *domain.Effects) { fx.Calls = append(fx.Calls, domain.ToolCall{ID: "c", AssistantSeq: 1}) },
	} {
		s := New(Config{})
		for _, cmd := range []domain.Command{domain.CreateSession{Request: domaintest.Payload(`{}`)}, input("a")} {
			_, err := s.Do(t.Context(), ref, cmd)
			require.NoError(t, err)
		}
		next := input("b")
		fx, err := domain.Decide(s.view(ref, next.Needs()), next)
		require.NoError(t, err)
		row, run := s.sessions[ref].row, s.sessions[ref].runs["r-a"]
		spoil(&fx)
		require.ErrorIs(t, s.apply(ref, fx), ErrCorrupt, name)
		require.Equal(t, row, s.sessions[ref].row, name)
		require.Equal(t, run, s.sessions[ref].runs["r-a"], name)
		require.Len(t, s.sessions[ref].events, 1, name)
		_, err = s.Do(t.Context(), ref, next)
		require.NoError(t, err, name)
	}
}

func rehash(fx *domain.Effects) {
	e := &fx.Events[0]
	e.Hash = domain.NextHash(domain.Hash{}, *e)
	fx.Session.HeadHash = e.Hash
}

// What a caller does to a reply or a row does not reach the store.
func TestRowsAreCopies(t *testing.T) {
	s := New(Config{})
	ref := domain.SessionRef{Tenant: "t", Session: "s"}
	tools := []string{"a"}
	_, err := s.Do(t.Context(), ref, domain.CreateSession{Request: domaintest.Payload(`{}`), Info: domain.SessionInfo{Tools: tools}})
	require.NoError(t, err)
	tools[0] = "spoiled"
	out, err := s.Do(t.Context(), ref, domain.SubmitInput{RequestID: "a", Payload: domaintest.User("a", "x"), NewRun: "r"})
	require.NoError(t, err)
	out.Session.Unanswered[0], out.Event.Seq, out.Run.ID = 9, 9, "spoiled"
	out, err = s.Do(t.Context(), ref, domain.RequestCancel{})
	require.NoError(t, err)
	*out.Run.CancelSeq = 9
	row, run, err := s.Sessions().Get(t.Context(), ref)
	require.NoError(t, err)
	row.Unanswered[0], *run.CancelSeq, row.Tools[0] = 9, 9, "spoiled"

	row, run, err = s.Sessions().Get(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, []domain.Seq{1}, row.Unanswered)
	require.Equal(t, []string{"a"}, row.Tools)
	require.EqualValues(t, 1, *run.CancelSeq)
	events, err := s.Events(t.Context(), ref, 0, 10)
	require.NoError(t, err)
	require.EqualValues(t, 1, events[0].Seq)
}
