package domain_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// history builds events with ascending seqs from kinds and payloads.
func history(items ...any) (events []domain.Event) {
	for i := 0; i < len(items); i += 2 {
		p, ok := items[i+1].(domain.Payload)
		if !ok {
			p = domaintest.Payload(items[i+1].(string))
		}
		events = append(events, domain.Event{Seq: domain.Seq(len(events) + 1), Kind: items[i].(domain.Kind), Payload: p})
	}
	return events
}

const (
	user     = domain.UserMessage
	answer   = domain.AssistantMessage
	result   = domain.ToolResult
	finished = domain.RunFinished
)

func TestFold(t *testing.T) {
	for name, c := range map[string]struct {
		events []domain.Event
		want   domain.Fold
	}{
		"nothing": {nil, domain.Fold{Owed: domain.OwedNone}},
		"inputs": {
			history(user, `{}`, user, `{"delivery":"guide"}`, user, `{"delivery":"queue"}`),
			domain.Fold{Owed: domain.OwedNone, Unanswered: seqs(1, 3), Guides: seqs(2, 2)},
		},
		"answered": {
			history(user, `{}`, user, `{"delivery":"guide"}`, answer, domaintest.AssistantText(seqs(1, 2), "x")),
			domain.Fold{Owed: domain.OwedNone, Unanswered: seqs(1, 0), Guides: seqs(1, 0)},
		},
		"length answers": {
			history(user, `{}`, answer, `{"inputSeqs":[1],"stopReason":"length"}`), domain.Fold{Owed: domain.OwedNone},
		},
		"refusal answers": {
			history(user, `{}`, answer, `{"inputSeqs":[1],"stopReason":"refusal"}`), domain.Fold{Owed: domain.OwedNone},
		},
		"error does not": {
			history(user, `{}`, answer, `{"inputSeqs":[1],"stopReason":"error"}`),
			domain.Fold{Owed: domain.OwedFailure, Unanswered: seqs(1, 1)},
		},
		"aborted does not": {
			history(user, `{"delivery":"guide"}`, answer, domaintest.AssistantCalls(seqs(1, 1),
				"", domaintest.Call{ID: "c", Name: "n"}).With("stopReason", `"aborted"`)),
			domain.Fold{Owed: domain.OwedFailure, Unanswered: seqs(1, 1), Guides: seqs(1, 1)},
		},
		"calls": {
			history(user, `{}`, answer, domaintest.AssistantCalls(seqs(1, 1),
				"", domaintest.Call{ID: "c", Name: "n"}, domaintest.Call{ID: "d", Name: "n"}),
				result, domaintest.Result("d", "x")),
			domain.Fold{Owed: domain.OwedCalls, OpenCalls: 1, TurnInputs: seqs(1, 1)},
		},
		"tools done, request failed, settled as failed": {
			history(user, `{}`, answer, domaintest.AssistantCalls(seqs(1, 1), "", domaintest.Call{ID: "c", Name: "n"}),
				result, domaintest.Result("c", "x"), answer, `{"inputSeqs":[1],"stopReason":"error"}`,
				finished, `{"status":"failed"}`),
			domain.Fold{Owed: domain.OwedFailure, TurnInputs: seqs(1, 1)},
		},
		"cancelled": {
			history(user, `{}`, answer, domaintest.AssistantCalls(seqs(1, 1), "", domaintest.Call{ID: "c", Name: "n"}),
				result, domaintest.Result("c", "x"), finished, `{"status":"cancelled"}`),
			domain.Fold{Owed: domain.OwedCalls},
		},
		"turn limit": {
			history(user, `{}`, answer, domaintest.AssistantCalls(seqs(1, 1), "", domaintest.Call{ID: "c", Name: "n"}),
				result, domaintest.Result("c", "x"), finished, `{"status":"done"}`),
			domain.Fold{Owed: domain.OwedCalls},
		},
		"compaction": {
			history(user, `{}`, answer, domaintest.AssistantText(seqs(1, 1), "x"),
				domain.Compaction, domaintest.Compaction("s", 2)),
			domain.Fold{Owed: domain.OwedNone, KeptSeq: 2},
		},
		"others": {
			history(domain.ExternalEvent, domaintest.External("x"), domain.RunStarted, `{}`, domain.RunFailed, `{}`),
			domain.Fold{Owed: domain.OwedNone},
		},
	} {
		got, err := domain.FoldEvents(c.events, 0)
		require.NoError(t, err, name)
		require.NoError(t, domaintest.SameFold(got, c.want), name)
	}
}

// Before the first answer that lists its inputs the watermark decides, from then on inputSeqs alone.
func TestLegacyWatermark(t *testing.T) {
	old := `{"content":[],"stopReason":"end_turn"}`
	for name, c := range map[string]struct {
		events    []domain.Event
		watermark domain.Seq
		want      []domain.Seq
	}{
		"all answered": {history(user, `{}`, answer, old, user, `{}`, answer, old), 3, nil},
		"one above":    {history(user, `{}`, answer, old, user, `{}`), 2, seqs(3, 3)},
		"no watermark": {history(user, `{}`, answer, old), 0, seqs(1, 1)},
		"then inputSeqs": {history(user, `{}`, answer, old, user, `{}`, answer, domaintest.AssistantText(seqs(3, 3),
			"x")), 1, nil},
		"watermark is over": {history(user, `{}`, answer, domaintest.AssistantText(seqs(1, 1), "x"),
			user, `{}`), 9, seqs(3, 3)},
		"a failure lists it": {history(user, `{}`, answer, `{"inputSeqs":[],"stopReason":"error"}`, user, `{}`), 9, seqs(3, 3)},
		"an empty list":      {history(user, `{}`, answer, domaintest.AssistantText(nil, "x"), user, `{}`), 9, seqs(3, 3)},
	} {
		got, err := domain.FoldEvents(c.events, c.watermark)
		require.NoError(t, err, name)
		require.ElementsMatch(t, c.want, got.Unanswered, name)
		tr := domain.NewTranscript()
		tr.LegacyWatermark = c.watermark
		for _, e := range c.events {
			require.NoError(t, tr.Apply(e), name)
		}
		require.NoError(t, domaintest.SameFold(tr.Fold, got), name)
	}
}

func TestFoldRefusesBadPayloads(t *testing.T) {
	for _, e := range history(user, `{"text":1}`, answer, `{}`, result, `{}`, finished, `{}`, domain.Compaction, `{}`) {
		f := domain.Fold{Owed: domain.OwedCalls, OpenCalls: 1, Unanswered: seqs(1, 1)}
		before := f.Clone()
		require.ErrorIs(t, f.Apply(e), domain.ErrInvalidPayload, e.Kind)
		require.Equal(t, before, f)
		tr := domain.NewTranscript()
		require.ErrorIs(t, tr.Apply(e), domain.ErrInvalidPayload, e.Kind)
		require.Zero(t, tr.Head())
	}
}

func TestFoldClone(t *testing.T) {
	f := domain.Fold{Unanswered: seqs(1, 2), Guides: seqs(2, 2), TurnInputs: seqs(1, 1)}
	c := f.Clone()
	clear(c.Unanswered)
	clear(c.Guides)
	clear(c.TurnInputs)
	require.Equal(t, domain.Fold{Unanswered: seqs(1, 2), Guides: seqs(2, 2), TurnInputs: seqs(1, 1)}, f)
}

func TestPresent(t *testing.T) {
	f := domain.Fold{TurnInputs: seqs(1, 2), Unanswered: []domain.Seq{4, 6, 7, 8, 9}, Guides: []domain.Seq{4, 7, 8}}
	for _, c := range []struct {
		claim    domain.Seq
		injected []domain.Seq
		want     domain.Presented
	}{
		{3, nil, domain.Presented{Seqs: []domain.Seq{1, 2, 4}, Guide: 4}},
		{4, nil, domain.Presented{Seqs: []domain.Seq{1, 2, 4, 7}, Guide: 7}},
		{4, seqs(7, 7), domain.Presented{Seqs: []domain.Seq{1, 2, 4, 7, 8}, Guide: 8}},
		{4, seqs(7, 8), domain.Presented{Seqs: []domain.Seq{1, 2, 4, 7, 8}}},
		{9, nil, domain.Presented{Seqs: []domain.Seq{1, 2, 4, 6, 7, 8, 9}}},
		{0, seqs(4, 4), domain.Presented{Seqs: []domain.Seq{1, 2, 4, 7}, Guide: 7}},
	} {
		require.Equal(t, c.want, f.Present(c.claim, c.injected), "%+v", c)
	}
	f.TurnInputs = append(make([]domain.Seq, 0, 9), 1, 2) // with room to be overwritten
	p := f.Present(9, nil)
	clear(p.Seqs)
	require.Equal(t, seqs(1, 2), f.TurnInputs, "a snapshot is a copy")
}

func subset(t *rapid.T, all []domain.Seq, name string) (some []domain.Seq) {
	for _, s := range all {
		if rapid.Bool().Draw(t, name) {
			some = append(some, s)
		}
	}
	return some
}

func TestPresentProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := seqs(1, 14)
		f := domain.Fold{TurnInputs: subset(t, all[:6], "turn"), Unanswered: subset(t, all[6:],
			"unanswered"), Owed: domain.OwedNone}
		f.Guides = subset(t, f.Unanswered, "guides")
		claim := domain.Seq(rapid.IntRange(0, 14).Draw(t, "claim"))
		injected := subset(t, all, "injected")
		injected = slices.DeleteFunc(injected, func(s domain.Seq) bool {
			return slices.Contains(f.Unanswered, s) && !slices.Contains(f.Guides, s)
		})
		before := f.Clone()
		p := f.Present(claim, injected)
		require.Equal(t, before, f)
		require.True(t, slices.IsSorted(p.Seqs))
		require.Equal(t, slices.Compact(slices.Clone(p.Seqs)), p.Seqs)
		fresh := 0
		for _, s := range all {
			turn, waits, guide := slices.Contains(f.TurnInputs, s), slices.Contains(f.Unanswered, s),
				slices.Contains(f.Guides, s)
			in := slices.Contains(p.Seqs, s)
			switch {
			case turn, waits && s <= claim, waits && slices.Contains(injected, s):
				require.True(t, in, "%d belongs to the turn", s)
			case waits && guide && fresh == 0:
				fresh++
				require.True(t, in, "%d is the oldest guide", s)
				require.Equal(t, p.Guide, s)
			default:
				require.False(t, in, "%d", s)
			}
		}
		require.Equal(t, fresh == 1, p.Guide != 0)
		waits := slices.ContainsFunc(p.Seqs, func(s domain.Seq) bool { return slices.Contains(f.Unanswered, s) })
		require.Equal(t, !waits, f.Idle(p))
		for _, owed := range []domain.Owed{domain.OwedCalls, domain.OwedFailure} {
			f.Owed = owed
			require.False(t, f.Idle(p))
		}
		checkKernelAccepts(t, f, claim, p)
	})
}

// What PrepareRequest presents, the kernel lets the answer list.
func checkKernelAccepts(t *rapid.T, f domain.Fold, claim domain.Seq, p domain.Presented) {
	v := running()
	v.Session.Fold, v.Session.HeadSeq, v.Run.ClaimSeq = f, 14, &claim
	fx, err := domain.Decide(v, domain.AppendAssistant{
		At: noon, Run: "R1", Token: held, GenerationID: "g", Payload: domaintest.AssistantText(p.Seqs, "x"),
	})
	require.NoError(t, err)
	for _, s := range p.Seqs {
		require.NotContains(t, fx.Session.Unanswered, s)
	}
	require.Len(t, fx.Session.Unanswered, len(f.Unanswered)-len(p.Seqs)+len(f.TurnInputs))
}
