package compaction

import (
	"strings"

	"github.com/keel-agent/keel/domain"
)

// What a summary is written from: text and not messages, for backends demand of messages what a conversation that ends
// anywhere does not hold, and models answer them. Long texts are cut: a summary keeps little of them.
const (
	maxSaid = 16 << 10 // bytes of one text of a person or the model
	maxTool = 2 << 10  // of a call's arguments, and of an output
)

// conversation returns the summary that entries begin with, "" when there is none, and what was said after it.
func conversation(entries []domain.Entry) (earlier, said string) {
	var b strings.Builder
	for _, e := range entries {
		switch {
		case e.Input != nil:
			write(&b, "User", append([]domain.Block{{Type: domain.TextBlock, Text: e.Input.Text}}, e.Input.Content...), maxSaid)
		case e.Answer == nil:
			earlier = e.Summary
		case e.Answer.StopReason.Completed():
			writeAnswer(&b, e)
		}
	}
	return earlier, b.String()
}

func writeAnswer(b *strings.Builder, e domain.Entry) {
	write(b, "Agent", e.Answer.Content, maxSaid)
	ordinal := 0
	for _, block := range e.Answer.Content {
		if block.Type != domain.CallBlock {
			continue
		}
		b.WriteString("[Call of " + block.Name + "]\n" + clip(block.Arguments+block.RawArguments, maxTool) + "\n\n")
		if out := e.Results[ordinal]; out != nil {
			who := "Result of " + block.Name
			if out.IsError {
				who += ", an error"
			}
			write(b, who, out.Content, maxTool)
		}
		ordinal++
	}
}

// write adds the texts of blocks, and what else people see there.
func write(b *strings.Builder, who string, blocks []domain.Block, most int) {
	var parts []string
	for _, block := range blocks {
		switch {
		case block.Type == domain.TextBlock && strings.TrimSpace(block.Text) != "":
			parts = append(parts, clip(block.Text, most))
		case block.Type == domain.ImageBlock:
			parts = append(parts, "(an image)")
		}
	}
	if len(parts) > 0 {
		b.WriteString("[" + who + "]\n" + strings.Join(parts, "\n") + "\n\n")
	}
}

// clip cuts s to about n bytes between characters and says so.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "\n(cut)"
}

const leftOut = "(the older part of the conversation is left out)\n\n"

// newer returns the last n bytes of a conversation, from the beginning of what somebody said if there is one.
func newer(said string, n int) string {
	said = said[len(said)-n:]
	if _, whole, ok := strings.Cut(said, "\n\n["); ok && whole != "" {
		said = "[" + whole
	}
	return leftOut + strings.ToValidUTF8(said, "")
}
