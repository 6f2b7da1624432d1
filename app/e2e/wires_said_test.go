package e2e

import (
	"strings"

	"github.com/keel-agent/keel/adapters/providers/anthropic/anthropictest"
	"github.com/keel-agent/keel/adapters/providers/gemini/geminitest"
	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
	"github.com/keel-agent/keel/adapters/providers/openai/responses/responsestest"
)

// How each wire carries what is said.

func chatItems(all []speech) (items [][]string) {
	number := 0
	for _, s := range all {
		var events []string
		piece := map[string]func(string) string{"text": openaitest.Text, "thought": openaitest.Thinking, "call": func(p string) string {
			return openaitest.CallArguments(number, p)
		}}[s.kind]
		if s.kind == "call" {
			events = append(events, openaitest.Event(openaitest.CallHead(number, s.id, s.name)))
		}
		for _, p := range s.pieces {
			events = append(events, openaitest.Event(piece(p)))
		}
		if s.kind == "call" {
			number++
		}
		items = append(items, events)
	}
	return items
}

func messagesItems(all []speech) (items [][]string) {
	for i, s := range all {
		var b anthropictest.Block
		switch {
		case s.kind == "text":
			b = anthropictest.Text(s.pieces...)
		case s.kind == "call":
			b = anthropictest.Call(s.id, s.name, s.pieces...)
		case s.unsigned:
			b = anthropictest.Unsigned(s.pieces...)
		default:
			b = anthropictest.Thinking(s.pieces...)
		}
		items = append(items, b(i))
	}
	return items
}

// generateItems sends each piece in a chunk of its own, a call in one. A thought is signed in its last piece.
func generateItems(all []speech) (items [][]string) {
	for _, s := range all {
		var parts []string
		if s.kind == "call" {
			parts = []string{geminitest.Call(s.id, s.name, strings.Join(s.pieces, ""))}
		} else {
			part := map[string]func(string) string{"text": geminitest.Text, "thought": geminitest.Thinking}[s.kind]
			for _, p := range s.pieces {
				parts = append(parts, part(p))
			}
		}
		if s.kind == "thought" && !s.unsigned {
			parts[len(parts)-1] = geminitest.Signed(parts[len(parts)-1])
		}
		var events []string
		for _, p := range parts {
			events = append(events, geminitest.Event(geminitest.Chunk(p)))
		}
		items = append(items, events)
	}
	return items
}

// reasoningID is the id of each thought on the Responses wire.
const reasoningID = "rs_1"

func responsesSaid(all []speech) (items []responsestest.Item) {
	for _, s := range all {
		switch {
		case s.kind == "text":
			items = append(items, responsestest.Text(s.pieces...))
		case s.kind == "call":
			items = append(items, responsestest.Call(s.id, s.name, s.pieces...))
		case s.unsigned:
			items = append(items, responsestest.Plain(reasoningID, s.pieces...))
		default:
			items = append(items, responsestest.Reasoning(reasoningID, s.pieces...))
		}
	}
	return items
}

func responsesItems(all []speech) (items [][]string) {
	for i, item := range responsesSaid(all) {
		events, _ := item(i)
		items = append(items, events)
	}
	return items
}

// responsesEnd tells everything again, as the wire does.
func responsesEnd(reason string, all []speech) []string {
	r := responsestest.Completed(responsesSaid(all)...)
	if reason != "" {
		r = responsestest.Incomplete(reason, responsesSaid(all)...)
	}
	return []string{r.Steps[len(r.Steps)-1].Write}
}
