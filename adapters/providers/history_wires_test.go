package providers_test

import (
	"strings"

	"github.com/keel-agent/keel/adapters/providers/anthropic/anthropictest"
	"github.com/keel-agent/keel/adapters/providers/gemini/geminitest"
	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
	"github.com/keel-agent/keel/adapters/providers/openai/responses/responsestest"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
)

// How each wire carries an answer. What it has no place for is not said.

func chatAnswer(model string, a answer) wiretest.Response {
	var chunks []string
	calls := 0
	for _, s := range a.list {
		switch s.kind {
		case domain.TextBlock:
			chunks = append(chunks, openaitest.Text(s.text))
		case domain.ThinkingBlock:
			chunks = append(chunks, openaitest.Thinking(s.text))
		case domain.CallBlock:
			chunks = append(chunks, openaitest.CallHead(calls, s.id, s.name), openaitest.CallArguments(calls, s.text))
			calls++
		}
	}
	stop := map[domain.StopReason]string{domain.StopToolUse: "tool_calls", domain.StopLength: "length", domain.StopRefusal: "content_filter", domain.StopEndTurn: "stop"}[a.stop]
	return openaitest.Stream(append(chunks, openaitest.Finish(stop))...).Replacing(`"`+openaitest.Model+`"`, `"`+model+`"`)
}

func responsesAnswer(model string, a answer) wiretest.Response {
	var items []responsestest.Item
	names := []string{`"` + responsestest.Model + `"`, `"` + model + `"`}
	for _, s := range a.list {
		switch {
		case s.kind == domain.TextBlock && a.stop == domain.StopRefusal:
			items = append(items, responsestest.Refusal(s.text))
		case s.kind == domain.TextBlock:
			items = append(items, responsestest.Text(s.text))
		case s.kind == domain.ThinkingBlock && s.signed:
			items = append(items, responsestest.Reasoning(s.id, s.text))
			names = append(names, responsestest.Sign(responsestest.Model, s.id, s.text), responsestest.Sign(model, s.id, s.text))
		case s.kind == domain.ThinkingBlock:
			items = append(items, responsestest.Plain(s.id, s.text))
		case s.kind == domain.CallBlock:
			items = append(items, responsestest.Call(s.id, s.name, s.text))
		}
	}
	r := responsestest.Completed(items...)
	if a.stop == domain.StopLength {
		r = responsestest.Incomplete("max_output_tokens", items...)
	}
	return r.Replacing(names...)
}

func anthropicAnswer(model string, a answer) wiretest.Response {
	var blocks []anthropictest.Block
	names := []string{
		`"` + anthropictest.Model + `"`, `"` + model + `"`,
		anthropictest.Sign(anthropictest.Model, "redacted"), anthropictest.Sign(model, "redacted"),
	}
	for _, s := range a.list {
		switch {
		case s.kind == domain.TextBlock:
			blocks = append(blocks, anthropictest.Text(s.text))
		case s.redacted:
			blocks = append(blocks, anthropictest.Redacted())
		case s.kind == domain.ThinkingBlock && s.signed:
			blocks = append(blocks, anthropictest.Thinking(s.text))
			names = append(names, anthropictest.Sign(anthropictest.Model, s.text), anthropictest.Sign(model, s.text))
		case s.kind == domain.ThinkingBlock:
			blocks = append(blocks, anthropictest.Unsigned(s.text))
		case s.kind == domain.CallBlock:
			blocks = append(blocks, anthropictest.Call(s.id, s.name, s.text))
		}
	}
	stop := map[domain.StopReason]string{domain.StopToolUse: "tool_use", domain.StopLength: "max_tokens", domain.StopRefusal: "refusal", domain.StopEndTurn: "end_turn"}[a.stop]
	return anthropictest.Stream(stop, blocks...).Replacing(names...)
}

func geminiAnswer(model string, a answer) wiretest.Response {
	var chunks []string
	names := []string{`"` + geminitest.Model + `"`, `"` + model + `"`}
	for _, s := range a.list {
		part := geminiPart(s)
		if s.signed {
			names = append(names, geminitest.SignPart(geminitest.Model, part), geminitest.SignPart(model, part))
			part = geminitest.Signed(part)
		}
		chunks = append(chunks, geminitest.Chunk(part))
	}
	stop := map[domain.StopReason]string{domain.StopLength: "MAX_TOKENS", domain.StopRefusal: "SAFETY"}[a.stop]
	if stop == "" {
		stop = "STOP"
	}
	return geminitest.Stream(append(chunks, geminitest.Last(stop))...).Replacing(names...)
}

func geminiPart(s said) string {
	switch s.kind {
	case domain.ThinkingBlock:
		return geminitest.Thinking(s.text)
	case domain.CallBlock:
		return geminitest.Call(s.id, s.name, s.text)
	case domain.ImageBlock:
		return strings.NewReplacer("TYPE", s.name, "DATA", s.text).Replace(`{"inlineData":{"mimeType":"TYPE","data":"DATA"}}`)
	}
	return geminitest.Text(s.text)
}
