package domain_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// fences are the ways to hold no lease. Each ends every owner command with ErrFenced, whatever else is wrong.
var fences = map[string]func(*domain.View){
	"another owner":        func(v *domain.View) { v.Session.Owner = "P2" },
	"owner cleared":        func(v *domain.View) { v.Session.Owner = "" },
	"a later epoch":        func(v *domain.View) { v.Session.Epoch = 4 },
	"an earlier epoch":     func(v *domain.View) { v.Session.Epoch = 2 },
	"another run":          func(v *domain.View) { v.Run.ID = "R2" },
	"no run":               func(v *domain.View) { v.Run = nil },
	"the run is pending":   func(v *domain.View) { v.Run.Status = domain.StatusPending },
	"the run has failed":   func(v *domain.View) { v.Run.Status = domain.StatusFailed },
	"the run is done":      func(v *domain.View) { v.Run.Status = domain.StatusDone },
	"taken over meanwhile": func(v *domain.View) { v.Session.Owner, v.Session.Epoch = "P2", 4 },
}

func ownerCommands(token domain.Token) []domain.Command {
	answer := domaintest.AssistantText(seqs(4, 4), "hi")
	return []domain.Command{
		domain.AppendAssistant{At: noon, Run: "R1", Token: token, GenerationID: "g", Payload: answer},
		domain.StartCalls{Run: "R1", Token: token, Calls: []string{"c1"}},
		domain.AppendToolResult{At: noon, Run: "R1", Token: token, Call: "c1", Payload: domaintest.Result("c1", "x")},
		domain.AppendCompaction{At: noon, Run: "R1", Token: token, Payload: domaintest.Compaction("sum", 1)},
		domain.AppendCompaction{At: noon, Run: "R1", Token: token},
		domain.ParkRun{Run: "R1", Token: token},
		domain.HandBack{Run: "R1", Token: token},
		domain.Settle{At: noon, Run: "R1", Token: token, Result: domain.Success},
	}
}

func TestFence(t *testing.T) {
	for _, c := range ownerCommands(held) {
		for name, spoil := range fences {
			v := calling()
			v.Event = &domain.Event{Seq: 1, Payload: domaintest.Payload(`{"other":1}`)}
			spoil(&v)
			fx, err := decide(t, v, c)
			require.ErrorIs(t, err, domain.ErrFenced, "%T: %s", c, name)
			require.Equal(t, domain.Effects{}, fx, "%T: %s", c, name)
		}
	}
	for _, token := range []domain.Token{{}, {Epoch: 3}, {Process: "P1"}, {Process: "P2", Epoch: 3},
		{Process: "P1", Epoch: 2}} {
		for _, c := range ownerCommands(token) {
			_, err := decide(t, calling(), c)
			require.ErrorIs(t, err, domain.ErrFenced, "%T %v", c, token)
		}
	}
}

func TestAppendAssistantRefusals(t *testing.T) {
	type C = domain.AppendAssistant
	calls := domaintest.AssistantCalls(seqs(4, 4), "", domaintest.Call{ID: "c7", Name: "sh"})
	list := func(seqs string) func(*domain.View, *C) {
		return func(_ *domain.View, c *C) { c.Payload = c.Payload.With("inputSeqs", seqs) }
	}
	checkRefusals(t, func() (domain.View, C) {
		v := running()
		v.Session.HeadSeq, v.Session.Unanswered = 6, []domain.Seq{4, 5, 6}
		v.Session.Guides = []domain.Seq{6}
		return v, C{At: noon, Run: "R1", Token: held, GenerationID: "g", Payload: calls, Start: []string{"c7"}}
	}, []fault[C]{
		{"no key", domain.ErrInvalidKey, func(_ *domain.View, c *C) { c.GenerationID = "" }},
		{"payload", domain.ErrInvalidPayload, func(_ *domain.View, c *C) {
			c.Payload = c.Payload.With("stopReason",
				`"stop"`)
		}},
		{"another key in the payload", domain.ErrInvalidKey, func(_ *domain.View, c *C) {
			c.Payload = c.Payload.With("generationId", `"g2"`)
		}},
		{"missing", domain.ErrNotFound, missing[C]},
		{"fenced", domain.ErrFenced, func(_ *domain.View, c *C) { c.Token.Epoch = 2 }},
		{"known key", domain.ErrIdempotencyConflict, func(v *domain.View, _ *C) {
			v.Event = &domain.Event{Seq: 2, Payload: domaintest.AssistantText(nil, "other")}
		}},
		{"open calls", domain.ErrOpenCalls, onSession[C](func(s *domain.Session) { s.OpenCalls = 1 })},
		{"call id used", domain.ErrCallIDUsed, func(v *domain.View, _ *C) {
			v.Calls = []domain.ToolCall{{ID: "c7", AssistantSeq: 2, ResultSeq: 3}}
		}},
		{"starts what it does not call", domain.ErrUnknownCall, func(_ *domain.View, c *C) { c.Start = []string{"c7", "c8"} }},
		{"no input", domain.ErrInvalidPayload, list("[2,4]")},
		{"beyond the head", domain.ErrInvalidPayload, list("[4,9]")},
		{"a queued input beyond the claim", domain.ErrInvalidPayload, list("[4,5]")},
	})
}

// What an answer may list: unanswered inputs up to the claim, guides beyond it, and the inputs of this turn.
func TestInputSeqsReferences(t *testing.T) {
	v := running()
	v.Session.HeadSeq = 9
	v.Session.Fold = domain.Fold{
		TurnInputs: []domain.Seq{1, 3}, Unanswered: []domain.Seq{4, 6, 7, 8}, Guides: []domain.Seq{7}, Owed: domain.OwedCalls,
	}
	for list, want := range map[string]error{
		`[]`: nil, `[1,3,4]`: nil, `[1,3,4,7]`: nil, `[7]`: nil, `[4]`: nil,
		`[2]`: domain.ErrInvalidPayload, `[1,3,4,6]`: domain.ErrInvalidPayload, `[8]`: domain.ErrInvalidPayload,
		`[10]`: domain.ErrInvalidPayload,
	} {
		for _, reason := range []domain.StopReason{domain.StopEndTurn, domain.StopError, domain.StopAborted} {
			p := domaintest.AssistantFailed(nil, reason, "x").With("inputSeqs", list)
			_, err := decide(t, v, domain.AppendAssistant{At: noon, Run: "R1", Token: held, GenerationID: "g", Payload: p})
			require.ErrorIs(t, err, want, "%s %s", list, reason)
		}
	}
	p := domaintest.AssistantText(nil, "x").Without("inputSeqs")
	fx, err := decide(t, v, domain.AppendAssistant{At: noon, Run: "R1", Token: held, GenerationID: "g", Payload: p})
	require.NoError(t, err)
	require.Equal(t, v.Session.Unanswered, fx.Session.Unanswered)
}

// Calls of a failed message are no committed calls: no rows, nothing open, and their ids stay free.
func TestCallsOfAFailedMessage(t *testing.T) {
	for _, reason := range []domain.StopReason{domain.StopError, domain.StopAborted} {
		v := running()
		p := domaintest.AssistantCalls(seqs(4, 4), "", domaintest.Call{ID: "c1", Name: "sh"}).With("stopReason",
			`"`+string(reason)+`"`)
		c := domain.AppendAssistant{At: noon, Run: "R1", Token: held, GenerationID: "g", Payload: p, Start: []string{"c1"}}
		require.Equal(t, domain.Needs{Run: "R1", Key: "generationId:g", Calls: []string{"c1"}}, c.Needs())
		v.Calls = []domain.ToolCall{{ID: "c1", AssistantSeq: 2, ResultSeq: 3, StartedEpoch: new(int64(3))}}
		fx, err := decide(t, v, c)
		require.NoError(t, err)
		require.Empty(t, fx.Calls)
		require.Empty(t, fx.Outcome.Started)
		require.Equal(t, []any{0, domain.OwedFailure, seqs(4, 4)},
			[]any{fx.Session.OpenCalls, fx.Session.Owed, fx.Session.Unanswered})

		v.Event = &fx.Events[0]
		fx, err = decide(t, v, c)
		require.NoError(t, err)
		require.Empty(t, fx.Outcome.Started, "the call of that id is another message's")
	}
}

// The start of calls may ride in the answer: with a cancel it does not happen, and the reply says so, now and later.
func TestStartRidesInAnswer(t *testing.T) {
	p := domaintest.AssistantCalls(seqs(4, 4), "", domaintest.Call{ID: "a", Name: "sh"}, domaintest.Call{ID: "b", Name: "sh"})
	c := domain.AppendAssistant{At: noon, Run: "R1", Token: held, GenerationID: "g", Payload: p, Start: []string{"b"}}
	for _, cancelled := range []bool{false, true} {
		v := running()
		want, row := []string{"b"}, new(int64(3))
		if cancelled {
			v.Run.CancelSeq = new(domain.Seq(4))
			want, row = nil, nil
		}
		fx, err := decide(t, v, c)
		require.NoError(t, err)
		require.Equal(t, want, fx.Outcome.Started)
		require.Equal(t, cancelled, fx.Outcome.Run.CancelSeq != nil)
		require.Equal(t, []domain.ToolCall{
			{ID: "a", AssistantSeq: 5, Name: "sh"}, {ID: "b", AssistantSeq: 5, Ordinal: 1, Name: "sh", StartedEpoch: row},
		}, fx.Calls)

		v.Event, v.Calls, v.Session.OpenCalls = &fx.Events[0], fx.Calls, 2
		again, err := decide(t, v, c)
		require.NoError(t, err)
		require.True(t, again.Empty())
		require.Equal(t, want, again.Outcome.Started)
	}
}

func TestStartCallsRefusals(t *testing.T) {
	type C = domain.StartCalls
	checkRefusals(t, func() (domain.View, C) {
		return calling(), C{Run: "R1", Token: held, Calls: []string{"c1", "c2"}}
	}, []fault[C]{
		{"missing", domain.ErrNotFound, missing[C]},
		{"fenced", domain.ErrFenced, func(_ *domain.View, c *C) { c.Token.Process = "P2" }},
		{"cancelled", domain.ErrCancelled, onRun[C](func(r *domain.Run) { r.CancelSeq = new(domain.Seq(4)) })},
		{"no such call", domain.ErrUnknownCall, func(_ *domain.View, c *C) {
			c.Calls = append(c.Calls[:0:0], "c9", "c1",
				"c2")
		}},
		{"it has its result", domain.ErrUnknownCall, func(v *domain.View, _ *C) { v.Calls[0].ResultSeq = 5 }},
		{"an earlier attempt started it", domain.ErrOpenCalls,
			func(v *domain.View, _ *C) { v.Calls[1].StartedEpoch = new(int64(2)) }},
	})
	v := calling()
	v.Calls[0].StartedEpoch = new(int64(0)) // marked by a fork
	_, err := decide(t, v, domain.StartCalls{Run: "R1", Token: held, Calls: []string{"c1"}})
	require.ErrorIs(t, err, domain.ErrOpenCalls)
	fx, err := decide(t, calling(), domain.StartCalls{Run: "R1", Token: held, Calls: []string{"c2"}})
	require.NoError(t, err)
	require.True(t, fx.Empty(), "it was started by this very attempt")
	require.Equal(t, []string{"c2"}, fx.Outcome.Started)
}

func TestAppendToolResultRefusals(t *testing.T) {
	type C = domain.AppendToolResult
	checkRefusals(t, func() (domain.View, C) {
		v := calling()
		v.Calls = v.Calls[:1]
		return v, C{At: noon, Run: "R1", Token: held, Call: "c1", Payload: domaintest.Result("c1", "x")}
	}, []fault[C]{
		{"no key", domain.ErrInvalidKey, func(_ *domain.View, c *C) { c.Call = "" }},
		{"payload", domain.ErrInvalidPayload, func(_ *domain.View, c *C) { c.Payload = c.Payload.With("isError", "0") }},
		{"another call in the payload", domain.ErrInvalidPayload,
			func(_ *domain.View, c *C) { c.Payload = c.Payload.With("toolCallId", `"c2"`) }},
		{"missing", domain.ErrNotFound, missing[C]},
		{"fenced", domain.ErrFenced, func(_ *domain.View, c *C) { c.Run = "R2" }},
		{"known key", domain.ErrIdempotencyConflict, func(v *domain.View, _ *C) {
			v.Event = &domain.Event{Seq: 2, Payload: domaintest.Result("c1", "y")}
		}},
		{"no such call", domain.ErrUnknownCall, func(v *domain.View, _ *C) { v.Calls = nil }},
		{"it has its result", domain.ErrUnknownCall, func(v *domain.View, _ *C) {
			if len(v.Calls) > 0 {
				v.Calls[0].ResultSeq = 3
			}
		}},
	})
}

func TestAppendCompactionRefusals(t *testing.T) {
	type C = domain.AppendCompaction
	at := func(kept domain.Seq) func(*domain.View, *C) {
		return func(_ *domain.View, c *C) { c.Payload = domaintest.Compaction("sum", kept) }
	}
	base := func() (domain.View, C) {
		v := running()
		v.Session.HeadSeq, v.Session.KeptSeq, v.Session.Unanswered = 30, 10, []domain.Seq{24, 25}
		v.Session.TurnInputs, v.Run.Compact = []domain.Seq{22}, true
		v.Calls = []domain.ToolCall{{ID: "a", AssistantSeq: 15, ResultSeq: 16}, {ID: "b", AssistantSeq: 15, ResultSeq: 18}}
		return v, C{At: noon, Run: "R1", Token: held, Payload: domaintest.Compaction("sum", 20)}
	}
	checkRefusals(t, base, []fault[C]{
		{"payload", domain.ErrInvalidPayload, func(_ *domain.View, c *C) { c.Payload = c.Payload.Without("summary") }},
		{"missing", domain.ErrNotFound, missing[C]},
		{"fenced", domain.ErrFenced, func(_ *domain.View, c *C) { c.Token.Epoch = 4 }},
		{"open calls", domain.ErrOpenCalls, onSession[C](func(s *domain.Session) { s.OpenCalls = 1 })},
		{"before the last cut", domain.ErrInvalidPayload, at(9)},
		{"beyond the head", domain.ErrInvalidPayload, at(31)},
	})
	v, c := base()
	require.Equal(t, domain.Needs{Run: "R1", CallsBefore: 20}, c.Needs())
	for kept, want := range map[domain.Seq]error{
		16: domain.ErrInvalidPayload, 18: domain.ErrInvalidPayload, 19: nil, 22: nil, 23: domain.ErrInvalidPayload,
	} {
		at(kept)(&v, &c)
		_, err := decide(t, v, c)
		require.ErrorIs(t, err, want, kept)
	}
	v.Session.TurnInputs = nil
	for kept, want := range map[domain.Seq]error{24: nil, 25: domain.ErrInvalidPayload} {
		at(kept)(&v, &c)
		_, err := decide(t, v, c)
		require.ErrorIs(t, err, want, kept)
	}
	v.Session.Unanswered = nil
	for kept, want := range map[domain.Seq]error{30: nil, 31: domain.ErrInvalidPayload} {
		at(kept)(&v, &c)
		_, err := decide(t, v, c)
		require.ErrorIs(t, err, want, kept)
	}
	v.Session.OpenCalls = 1
	at(10)(&v, &c)
	fx, err := decide(t, v, c)
	require.NoError(t, err, "the same cut is the first outcome, before all bounds")
	require.True(t, fx.Empty())

	c.Payload = domain.Payload{}
	fx, err = decide(t, v, c)
	require.NoError(t, err)
	require.Empty(t, fx.Events)
	require.False(t, fx.Runs[0].Run.Compact, "nothing to compact is an answer too")
}

func TestClaimRun(t *testing.T) {
	work := pending()
	for name, c := range map[string]struct {
		spoil func(*domain.View)
		want  domain.ClaimMode
	}{
		"work":      {func(*domain.View) {}, domain.ClaimWork},
		"cancelled": {func(v *domain.View) { v.Run.CancelSeq = new(domain.Seq(4)) }, domain.ClaimCancelled},
		"exhausted": {func(v *domain.View) { v.Run.Attempts = 5 }, domain.ClaimExhausted},
		"one left":  {func(v *domain.View) { v.Run.Attempts = 4 }, domain.ClaimWork},
		"cancelled, exhausted": {func(v *domain.View) { v.Run.CancelSeq, v.Run.Attempts = new(domain.Seq(4)), 5 },
			domain.ClaimCancelled},
		"cancelled, no work": {func(v *domain.View) {
			v.Run.CancelSeq, v.Session.Unanswered = new(domain.Seq(4)), nil
		}, domain.ClaimCancelled},
		"closing": {func(v *domain.View) {
			v.Session.State, v.Run.CancelSeq = domain.SessionClosing,
				new(domain.Seq(4))
		}, domain.ClaimCancelled},
		"no work":    {func(v *domain.View) { v.Session.Unanswered = nil }, domain.ClaimNoWork},
		"compaction": {func(v *domain.View) { v.Session.Unanswered, v.Run.Compact = nil, true }, domain.ClaimWork},
		"owed": {func(v *domain.View) { v.Session.Unanswered, v.Session.Owed = nil, domain.OwedFailure },
			domain.ClaimWork},
		"parked":        {func(v *domain.View) { v.Run.Parked = true }, domain.ClaimSkipped},
		"running":       {func(v *domain.View) { v.Run.Status = domain.StatusRunning }, domain.ClaimSkipped},
		"done":          {func(v *domain.View) { v.Run.Status = domain.StatusDone }, domain.ClaimSkipped},
		"failed":        {func(v *domain.View) { v.Run.Status = domain.StatusFailed }, domain.ClaimSkipped},
		"external":      {func(v *domain.View) { v.Session.StateOwner = domain.External }, domain.ClaimSkipped},
		"owner unknown": {func(v *domain.View) { v.Session.StateOwner = "" }, domain.ClaimSkipped},
		"not active":    {func(v *domain.View) { v.Session.ActiveRun = "R2" }, domain.ClaimSkipped},
		"other run":     {func(v *domain.View) { v.Run.ID, v.Session.ActiveRun = "R2", "R2" }, domain.ClaimSkipped},
		"no run":        {func(v *domain.View) { v.Run = nil }, domain.ClaimSkipped},
		"no session":    {func(v *domain.View) { v.Session = nil }, domain.ClaimSkipped},
	} {
		v := cloneView(work)
		c.spoil(&v)
		fx, err := decide(t, v, domain.ClaimRun{At: noon, Run: "R1", Process: "P9"})
		require.NoError(t, err, name)
		require.Equal(t, c.want, fx.Outcome.Claim, name)
		require.Empty(t, fx.Events, name)
		switch c.want {
		case domain.ClaimSkipped:
			require.True(t, fx.Empty(), name)
		case domain.ClaimNoWork:
			require.Equal(t, []any{"", int64(2), domain.StatusDone, 0},
				[]any{fx.Session.ActiveRun, fx.Session.Epoch, fx.Runs[0].Run.Status, fx.Runs[0].Run.Attempts}, name)
			require.Equal(t, noon, fx.Runs[0].Run.SettledAt, name)
		default:
			run := fx.Runs[0].Run
			require.Equal(t, []any{"P9", int64(3), "P9", int64(3)},
				[]any{fx.Session.Owner, fx.Session.Epoch, run.Owner, run.Epoch}, name)
			require.Equal(t, v.Run.Attempts+1, run.Attempts, name)
			require.Equal(t, v.Session.HeadSeq, *run.ClaimSeq, name)
			require.Zero(t, run.ReadWatermark, name)
		}
	}
}

// The turn's boundary is set once; a claim that continues the turn keeps it and the hint of waiting input.
func TestClaimContinuesTurn(t *testing.T) {
	v := pending()
	v.Session.HeadSeq, v.Run.ClaimSeq, v.Run.PendingInput = 9, new(domain.Seq(4)), true
	fx, err := decide(t, v, domain.ClaimRun{At: noon.Add(time.Second), Run: "R1", Process: "P9"})
	require.NoError(t, err)
	require.Equal(t, []any{domain.Seq(4), true}, []any{*fx.Runs[0].Run.ClaimSeq, fx.Runs[0].Run.PendingInput})
	v.Run.ClaimSeq = nil
	fx, err = decide(t, v, domain.ClaimRun{At: noon.Add(time.Second), Run: "R1", Process: "P9"})
	require.NoError(t, err)
	require.Equal(t, []any{domain.Seq(9), false}, []any{*fx.Runs[0].Run.ClaimSeq, fx.Runs[0].Run.PendingInput})
}
