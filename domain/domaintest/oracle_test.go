package domaintest_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// The incremental fold equals the oracle on every prefix of any ledger, also on ones that no command of today would
// write: answers without inputSeqs, watermarks, answers that list what they like.
func TestFoldIsTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		watermark := domain.Seq(0)
		if rapid.Bool().Draw(t, "legacy") {
			watermark = domain.Seq(rapid.IntRange(1, 12).Draw(t, "watermark"))
		}
		l := ledger{t: t}
		fold := domain.Fold{Owed: domain.OwedNone, LegacyWatermark: watermark}
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			l.add(watermark > 0)
			require.NoError(t, fold.Apply(l.events[len(l.events)-1]))
			require.NoError(t, domaintest.SameFold(fold, domaintest.Oracle(l.events, watermark)), "%v", l)
		}
		whole, err := domain.FoldEvents(l.events, watermark)
		require.NoError(t, err)
		require.NoError(t, domaintest.SameFold(whole, fold))
		clone := fold.Clone()
		require.NoError(t, domaintest.SameFold(clone, fold))
	})
}

// ledger grows by random events.
type ledger struct {
	t      *rapid.T
	events []domain.Event
	inputs []domain.Seq
	open   []string
}

func (l ledger) String() string {
	s := ""
	for _, e := range l.events {
		s += fmt.Sprintf("%d %s %s\n", e.Seq, e.Kind, e.Payload)
	}
	return s
}

func (l *ledger) add(legacy bool) {
	seq := domain.Seq(len(l.events) + 1)
	put := func(k domain.Kind, p domain.Payload) {
		l.events = append(l.events, domain.Event{Seq: seq, Kind: k, Payload: p})
	}
	kind := rapid.SampledFrom([]domain.Kind{
		domain.UserMessage, domain.UserMessage, domain.AssistantMessage, domain.AssistantMessage, domain.ToolResult,
		domain.RunFinished, domain.Compaction, domain.ExternalEvent,
	}).Draw(l.t, "kind")
	switch kind {
	case domain.ToolResult:
		if len(l.open) > 0 {
			i := rapid.IntRange(0, len(l.open)-1).Draw(l.t, "call")
			put(kind, domaintest.Result(l.open[i], "out"))
			l.open = slices.Delete(l.open, i, i+1)
			return
		}
		fallthrough
	case domain.UserMessage:
		build := rapid.SampledFrom([]func(id, text string) domain.Payload{domaintest.User, domaintest.Queued, domaintest.Guide}).Draw(l.t, "delivery")
		put(domain.UserMessage, build(fmt.Sprint("q", seq), "hello").With("DELIVERY", `"guide"`))
		l.inputs = append(l.inputs, seq)
	case domain.AssistantMessage:
		put(kind, l.answer(seq, legacy))
	case domain.RunFinished:
		status := rapid.SampledFrom([]string{"done", "failed", "cancelled"}).Draw(l.t, "status")
		put(kind, domaintest.Payload(`{"status":"`+status+`"}`))
	case domain.Compaction:
		put(kind, domaintest.Compaction("s", domain.Seq(rapid.IntRange(1, int(seq)).Draw(l.t, "kept"))))
	case domain.ExternalEvent:
		put(kind, domaintest.External("x"))
	}
}

func (l *ledger) answer(seq domain.Seq, legacy bool) domain.Payload {
	var listed []domain.Seq
	for _, in := range l.inputs {
		if rapid.IntRange(0, 2).Draw(l.t, "listed") == 0 {
			listed = append(listed, in)
		}
	}
	var calls []domaintest.Call
	for i := range rapid.IntRange(0, 2).Draw(l.t, "calls") {
		calls = append(calls, domaintest.Call{ID: fmt.Sprintf("c%d.%d", seq, i), Name: "n"})
	}
	stop := rapid.SampledFrom([]domain.StopReason{
		domain.StopEndTurn, domain.StopToolUse, domain.StopLength, domain.StopRefusal, domain.StopError, domain.StopAborted,
	}).Draw(l.t, "stop")
	p := domaintest.AssistantCalls(listed, "x", calls...).With("stopReason", domaintest.Quote(string(stop)))
	if legacy && rapid.Bool().Draw(l.t, "without inputSeqs") {
		p = p.Without("inputSeqs")
	}
	if stop.Completed() {
		for _, c := range calls {
			l.open = append(l.open, c.ID)
		}
	}
	return p
}
