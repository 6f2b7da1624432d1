package domain_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/keel-agent/keel/domain"
)

// The ledger form is for people and for other programs, so its spelling is pinned.
func TestAssistantPayload(t *testing.T) {
	for want, m := range map[string]domain.Assistant{
		`{"role":"assistant","content":[],"stopReason":"aborted"}`: {StopReason: domain.StopAborted},
		`{"role":"assistant","content":[],"inputSeqs":[],"stopReason":"error","error":"503"}`: {
			HasInputSeqs: true, StopReason: domain.StopError, Error: "503",
		},
		`{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s=="},{"type":"text","text":""},` +
			`{"type":"toolCall","id":"c1","name":"sh","arguments":{"n":8123456789012345677,"x":1.0},"providerId":"call_0"},` +
			`{"type":"toolCall","id":"c2","name":"sh","rawArguments":"{\"p\":"},{"type":"image","mimeType":"image/png","data":"AA=="}],` +
			`"inputSeqs":[1,4],"stopReason":"tool_use","generationId":"g","provider":"fake","model":"m",` +
			`"usage":{"input":1,"output":2,"reasoning":3}}`: {
			Content: []domain.Block{
				{Type: domain.ThinkingBlock, Thinking: "hm", Signature: "s=="}, {Type: domain.TextBlock},
				{Type: domain.CallBlock, ID: "c1", Name: "sh", Arguments: `{"n":8123456789012345677,"x":1.0}`,
					ProviderID: "call_0"},
				{Type: domain.CallBlock, ID: "c2", Name: "sh", RawArguments: `{"p":`},
				{Type: domain.ImageBlock, MimeType: "image/png", Data: "AA=="},
			},
			InputSeqs: []domain.Seq{1, 4}, HasInputSeqs: true, StopReason: domain.StopToolUse, GenerationID: "g",
			Provider: "fake",
			Model:    "m", Usage: &domain.Usage{Input: 1, Output: 2, Reasoning: 3},
		},
	} {
		p, err := m.Payload(0)
		require.NoError(t, err)
		require.Equal(t, want, p.String())
	}
}

func TestToolOutputPayload(t *testing.T) {
	for want, o := range map[string]domain.ToolOutput{
		`{"toolCallId":"c","content":[],"isError":false,"durationMs":0}`: {ToolCallID: "c"},
		`{"toolCallId":"c","content":[{"type":"text","text":"d\u0000i\\u0000"}],"isError":true,"durationMs":7}`: {
			ToolCallID: "c", Content: []domain.Block{{Type: domain.TextBlock, Text: "d\x00i\\u0000"}}, IsError: true,
			DurationMS: 7,
		},
		`{"toolCallId":"c","content":[{"type":"text","text":"why"}],"isError":true,"durationMs":0,"interrupted":true}`: domain.Interrupted("c", "why"),
	} {
		p, err := o.Payload(0)
		require.NoError(t, err)
		require.Equal(t, want, p.String())
	}
}

func TestPayloadRefuses(t *testing.T) {
	for name, m := range map[string]domain.Assistant{
		"no stop reason": {},
		"no call id":     {StopReason: domain.StopToolUse, Content: []domain.Block{{Type: domain.CallBlock, Name: "n"}}},
		"call id repeats": {StopReason: domain.StopToolUse, Content: []domain.Block{{Type: domain.CallBlock, ID: "c",
			Name: "n"}, {Type: domain.CallBlock, ID: "c", Name: "n"}}},
		"seqs not sorted": {StopReason: domain.StopEndTurn, InputSeqs: []domain.Seq{2, 1}, HasInputSeqs: true},
		"arguments a list": {StopReason: domain.StopToolUse, Content: []domain.Block{{Type: domain.CallBlock, ID: "c",
			Name: "n", Arguments: `[]`}}},
		"negative usage": {StopReason: domain.StopEndTurn, Usage: &domain.Usage{Input: -1}},
	} {
		_, err := m.Payload(0)
		require.ErrorIs(t, err, domain.ErrInvalidPayload, name)
	}
	m := domain.Assistant{StopReason: domain.StopToolUse, Content: []domain.Block{{Type: domain.CallBlock, ID: "c",
		Name: "n", Arguments: `{"a":`}}}
	_, err := m.Payload(0)
	require.ErrorIs(t, err, domain.ErrInvalidJSON)
	_, err = domain.ToolOutput{ToolCallID: "c", Content: []domain.Block{{Type: domain.TextBlock,
		Text: strings.Repeat("x", 100)}}}.Payload(99)
	require.ErrorIs(t, err, domain.ErrPayloadTooLarge)
	_, err = domain.ToolOutput{ToolCallID: "c", DurationMS: -1}.Payload(0)
	require.ErrorIs(t, err, domain.ErrInvalidPayload)
}

// Invalid bytes become U+FFFD before the commit, so that the stored text is the one that was sent.
func TestPayloadMendsText(t *testing.T) {
	p, err := domain.ToolOutput{ToolCallID: "c", Content: []domain.Block{{Type: domain.TextBlock,
		Text: "\xc3( \xff\xfe \xed\xa0\xbd"}}}.Payload(0)
	require.NoError(t, err)
	o, err := domain.ParseToolOutput(p)
	require.NoError(t, err)
	require.Equal(t, "\ufffd( \ufffd\ufffd \ufffd\ufffd\ufffd", o.Content[0].Text)
}

func drawBlock(t *rapid.T, id string) domain.Block {
	text := func(name string) string { return rapid.String().Draw(t, name) }
	kinds := []domain.BlockType{domain.TextBlock, domain.ThinkingBlock, domain.ImageBlock, domain.CallBlock}
	switch kind := rapid.SampledFrom(kinds).Draw(t, "type"); kind {
	case domain.TextBlock:
		return domain.Block{Type: kind, Text: text("text"), Signature: text("signature")}
	case domain.ThinkingBlock:
		return domain.Block{Type: kind, Thinking: text("thinking"), Signature: text("signature")}
	case domain.ImageBlock:
		return domain.Block{Type: kind, MimeType: text("mimeType"), Data: text("data")}
	default:
		b := domain.Block{Type: kind, ID: id, Name: "n" + strings.ReplaceAll(text("name"), "\x00",
			""), ProviderID: text("providerId")}
		if rapid.Bool().Draw(t, "whole") {
			b.Arguments = rapid.SampledFrom([]string{`{}`, `{"a":1.0}`, `{"b":[{"c":null}],"a":"\u0000"}`}).Draw(t, "arguments")
		} else {
			b.RawArguments = text("rawArguments")
		}
		return b
	}
}

func drawBlocks(t *rapid.T) []domain.Block {
	all := []domain.Block{}
	for i := range rapid.IntRange(0, 4).Draw(t, "blocks") {
		all = append(all, drawBlock(t, "c"+string(rune('0'+i))))
	}
	return all
}

// What is written is what is read.
func TestPayloadRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := domain.Assistant{
			Content: drawBlocks(t), HasInputSeqs: rapid.Bool().Draw(t,
				"hasInputSeqs"), GenerationID: rapid.String().Draw(t, "generationId"),
			Provider: rapid.String().Draw(t, "provider"), Model: rapid.String().Draw(t, "model"),
			Error: rapid.String().Draw(t, "error"),
			StopReason: rapid.SampledFrom([]domain.StopReason{domain.StopEndTurn, domain.StopToolUse,
				domain.StopError}).Draw(t, "stopReason"),
		}
		if m.HasInputSeqs {
			m.InputSeqs = append([]domain.Seq{}, subset(t, seqs(1, 9), "inputSeqs")...)
		}
		if rapid.Bool().Draw(t, "hasUsage") {
			count := rapid.Int64Range(0, 1<<62)
			m.Usage = &domain.Usage{
				Input: count.Draw(t, "input"), Output: count.Draw(t, "output"), CacheRead: count.Draw(t, "cacheRead"),
				CacheWrite: count.Draw(t, "cacheWrite"), Reasoning: count.Draw(t, "reasoning"),
			}
		}
		p, err := m.Payload(0)
		require.NoError(t, err)
		got, err := domain.ParseAssistant(p)
		require.NoError(t, err)
		require.Equal(t, m, got)

		o := domain.ToolOutput{
			ToolCallID: "c" + strings.ReplaceAll(rapid.String().Draw(t, "toolCallId"), "\x00", ""), Content: drawBlocks(t),
			IsError: rapid.Bool().Draw(t, "isError"), Interrupted: rapid.Bool().Draw(t, "interrupted"),
			DurationMS: rapid.Int64Range(0, 1<<62).Draw(t, "durationMs"),
		}
		p, err = o.Payload(0)
		require.NoError(t, err)
		back, err := domain.ParseToolOutput(p)
		require.NoError(t, err)
		require.Equal(t, o, back)
	})
}

// A summary's spelling, seen through a settlement.
func TestSummaryPayload(t *testing.T) {
	v := running()
	v.Session.Unanswered = nil
	fx, err := domain.Decide(v, domain.Settle{At: noon, Run: "R1", Token: held, Result: domain.Success, Summary: domain.Summary{
		Turns: 2, Provider: "fake", Model: "m", StopReason: domain.StopTurnLimit, DurationMS: 24,
		Tokens:      &domain.Usage{Input: 5, CacheRead: 1},
		ToolTimings: []domain.ToolTiming{{ToolCallID: "c1", Name: "sh", DurationMS: 3}, {ToolCallID: "c2", IsError: true}},
		Context:     &domain.ContextSize{Messages: 4}, Error: "e",
	}})
	require.NoError(t, err)
	require.Equal(t, `{"status":"done","turns":2,"provider":"fake","model":"m","stopReason":"turn_limit","durationMs":24,`+
		`"tokens":{"input":5,"output":0,"cacheRead":1},"toolTimings":[{"toolCallId":"c1","name":"sh","durationMs":3},`+
		`{"toolCallId":"c2","durationMs":0,"isError":true}],"context":{"messages":4},"error":"e"}`,
		fx.Events[0].Payload.String())
}

func TestUsageSumsStopAtTheLargestNumber(t *testing.T) {
	huge := &domain.Usage{Input: math.MaxInt64, Output: 1}
	sum := huge.Add(huge)
	require.Equal(t, domain.Usage{Input: math.MaxInt64, Output: 2}, *sum)
}
