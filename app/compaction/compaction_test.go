package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/app/compaction"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// backend answers with what its functions say and keeps what it was asked.
type backend struct {
	ports.Provider
	name     string
	answer   func(n int) (ports.Reply, error)
	requests []ports.ModelRequest
}

func (b *backend) Name() string { return b.name }

func (b *backend) Generate(_ context.Context, req ports.ModelRequest, _ func(ports.Delta)) (ports.Reply, error) {
	b.requests = append(b.requests, req)
	return b.answer(len(b.requests))
}

var model = domain.Model{Name: "m"}

func says(text string, stop domain.StopReason) (ports.Reply, error) {
	return ports.Reply{Content: []domain.Block{{Type: domain.ThinkingBlock, Thinking: "hm"}, {Type: domain.TextBlock, Text: text}},
		StopReason: stop, Usage: &domain.Usage{Input: 10, Output: 1}, Model: "m-2026"}, nil
}

// transcript is of a ledger of these kinds and payloads.
func transcript(t *testing.T, items ...any) *domain.Transcript {
	t.Helper()
	tr := domain.NewTranscript()
	for i := 0; i < len(items); i += 2 {
		p, ok := items[i+1].(domain.Payload)
		if !ok {
			p = domaintest.Payload(items[i+1].(string))
		}
		require.NoError(t, tr.Apply(domain.Event{Seq: tr.Head() + 1, Kind: items[i].(domain.Kind), Payload: p}))
	}
	return tr
}

const (
	user   = domain.UserMessage
	answer = domain.AssistantMessage
	result = domain.ToolResult
)

func talk(t *testing.T) *domain.Transcript {
	t.Helper()
	return transcript(t,
		user, `{"text":"first"}`, answer, domaintest.AssistantText([]domain.Seq{1}, "summarised"), domain.Compaction, domaintest.Compaction("EARLIER", 2),
		user, `{"text":"look","content":[{"type":"image","mimeType":"image/png","data":"AAAA"}]}`,
		answer, domaintest.AssistantFailed([]domain.Seq{4}, domain.StopError, "half an answer"),
		answer, domaintest.AssistantCalls([]domain.Seq{4}, "I look", domaintest.Call{ID: "c1", Name: "sh", Arguments: `{"cmd":"ls"}`}, domaintest.Call{ID: "c2", Name: "sh"}),
		result, domaintest.Result("c2", strings.Repeat("é", 2000)),
		result, `{"toolCallId":"c1","content":[{"type":"text","text":"no such file"}],"isError":true}`,
		answer, domaintest.AssistantText([]domain.Seq{4}, "nothing"),
		user, `{"text":"last"}`)
}

// A request for a summary holds the earlier one and what was said since, as one text, and nothing of failures.
func TestSummarise(t *testing.T) {
	b := &backend{name: "b", answer: func(int) (ports.Reply, error) { return says(" S \n", domain.StopEndTurn) }}
	c, err := compaction.New(compaction.Config{}).Summarise(t.Context(), plainly, b, model, talk(t), 10)
	require.NoError(t, err)
	require.Equal(t, domain.Compacted{Summary: "S", FirstKept: 10, Provider: "b", Model: "m-2026", Usage: &domain.Usage{Input: 10, Output: 1}}, c)
	require.Len(t, b.requests, 1)
	req := b.requests[0]
	require.Equal(t, "m", req.Model)
	require.True(t, req.Turn.Summary)
	require.Empty(t, req.Tools)
	require.Contains(t, req.System, "summary")
	require.Len(t, req.Messages, 1)
	require.Equal(t, "<earlier_summary>\nEARLIER\n</earlier_summary>\n\n<conversation>\n[Agent]\nsummarised\n\n[User]\nlook\n(an image)\n\n[Agent]\nI look\n\n"+
		"[Call of sh]\n{\"cmd\":\"ls\"}\n\n[Result of sh, an error]\nno such file\n\n[Call of sh]\n{}\n\n[Result of sh]\n"+strings.Repeat("é", 1024)+"\n(cut)\n\n"+
		"[Agent]\nnothing\n\n</conversation>\n\nWrite the summary of it all: bring the earlier summary up to date with this conversation.", req.Messages[0].Content[0].Text)
}

// What is no summary is a fault: an answer without text, a refusal. One that the token cap ended is better than none.
func TestWhatIsNoSummary(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		stop  domain.StopReason
		class ports.FaultClass
	}{
		"whole": {"S", domain.StopEndTurn, ""}, "cut": {"S", domain.StopLength, ""}, "blank": {" ", domain.StopEndTurn, ports.Retryable},
		"no reason": {"S", "", ports.Retryable}, "refused": {"I will not", domain.StopRefusal, ports.Fatal},
	} {
		b := &backend{name: "b", answer: func(int) (ports.Reply, error) { return says(c.text, c.stop) }}
		got, err := compaction.New(compaction.Config{}).Summarise(t.Context(), plainly, b, model, talk(t), 10)
		require.EqualValues(t, 10, got.Usage.Input, "it was paid for")
		if c.class == "" {
			require.NoError(t, err, name)
			require.Equal(t, "S", got.Summary)
			continue
		}
		fault, ok := errors.AsType[*ports.ProviderError](err)
		require.True(t, ok, name)
		require.Equal(t, c.class, fault.Class, name)
		require.Empty(t, got.Summary)
	}
}

// A conversation that is too long for a summary loses its older half, a few times; what is known of the window spares the
// refusals. All that was tried is counted.
func TestSummaryOfTooMuch(t *testing.T) {
	tr := transcript(t, user, `{"text":"OLD"}`, answer, domaintest.AssistantText([]domain.Seq{1}, strings.Repeat("word ", 3000)),
		user, `{"text":"NEW"}`, answer, domaintest.AssistantText([]domain.Seq{3}, strings.Repeat("word ", 1000)), user, `{"text":"last"}`)
	too := func() (ports.Reply, error) {
		return ports.Reply{Usage: &domain.Usage{Input: 5}}, &ports.ProviderError{Class: ports.Overflow, Message: "too long"}
	}
	b := &backend{name: "b", answer: func(n int) (ports.Reply, error) {
		if n == 1 {
			return too()
		}
		return says("S", domain.StopEndTurn)
	}}
	c, err := compaction.New(compaction.Config{}).Summarise(t.Context(), plainly, b, model, tr, 5)
	require.NoError(t, err)
	require.EqualValues(t, 15, c.Usage.Input)
	said := b.requests[1].Messages[0].Content[0].Text
	require.NotContains(t, said, "OLD")
	require.Contains(t, said, "(the older part of the conversation is left out)\n\n[User]\nNEW")

	b.answer, b.requests = func(int) (ports.Reply, error) { return too() }, nil
	_, err = compaction.New(compaction.Config{}).Summarise(t.Context(), plainly, b, model, tr, 5)
	fault, ok := errors.AsType[*ports.ProviderError](err)
	require.True(t, ok)
	require.Equal(t, ports.Overflow, fault.Class)
	require.Len(t, b.requests, 3)

	b.answer, b.requests = func(int) (ports.Reply, error) { return says("S", domain.StopEndTurn) }, nil
	_, err = compaction.New(compaction.Config{}).Summarise(t.Context(), plainly, b, domain.Model{Name: "m", ContextWindow: 4000}, tr, 5)
	require.NoError(t, err)
	require.NotContains(t, b.requests[0].Messages[0].Content[0].Text, "OLD")
}

// Due compacts above the share alone, when the window is known, and for enough.
func TestDue(t *testing.T) {
	long := strings.Repeat("word ", 800) // 1,000 tokens
	tr := transcript(t, user, `{"text":"a"}`, answer, domaintest.AssistantText([]domain.Seq{1}, long), user, `{"text":"b"}`,
		answer, domaintest.AssistantText([]domain.Seq{3}, long), user, fmt.Sprintf(`{"text":%q}`, strings.Repeat(long, 20)))
	for _, c := range []struct {
		at       float64
		window   int
		want     domain.Seq
		describe string
	}{
		{0.8, 27_000, 5, "above"}, {0.8, 28_000, 0, "below"}, {0, 27_000, 0, "never"},
		{0.8, 0, 0, "an unknown window"},
	} {
		s := compaction.New(compaction.Config{At: c.at})
		l := s.Load(domain.Model{ContextWindow: c.window}, ports.ModelRequest{}, tr, tr.Tokens(tr.Present(5, nil)))
		require.Equal(t, c.window, l.Window)
		require.InDelta(t, 22_060, l.Tokens, 50)
		require.Equal(t, c.want, s.Due(tr, l), c.describe)
	}
	s := compaction.New(compaction.Config{At: 0.1})
	l := s.Load(domain.Model{ContextWindow: 60_000}, ports.ModelRequest{}, tr, tr.Tokens(tr.Present(5, nil)))
	require.Zero(t, s.Due(tr, l), "2,000 of 60,000 tokens are not worth it")
	require.EqualValues(t, 5, s.Cut(tr, l), "unless it must be")
}

// The instructions and tools around the messages count.
func TestLoad(t *testing.T) {
	s, m := compaction.New(compaction.Config{}), domain.Model{ContextWindow: 7}
	tr := domain.NewTranscript()
	small := s.Load(m, ports.ModelRequest{System: strings.Repeat("abcd", 10)}, tr, 5)
	require.Equal(t, ports.Load{Messages: 5, Tokens: 15, Window: 7}, small)
	large := s.Load(m, ports.ModelRequest{Tools: []ports.ToolSpec{{Name: "sh", Description: "abcd", Schema: strings.Repeat("abcd", 2000)}}}, tr, 5)
	require.Equal(t, ports.Load{Messages: 5, Tokens: 2007, Window: 7}, large)
}

func plainly(ctx context.Context, p ports.Provider, req ports.ModelRequest) (ports.Reply, error) {
	return p.Generate(ctx, req, func(ports.Delta) {})
}
