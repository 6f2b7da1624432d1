package domain

import (
	"slices"
	"strings"
)

// Context returns the messages of a request that presents the inputs of p: no failed answer, every call with its
// result in call order, no empty block, neighbouring user messages merged. What it returns is valid until the next call
// of Context or Apply; its cost is that of what is new, not of the whole transcript.
func (t *Transcript) Context(p Presented) []Message {
	for t.settled < len(t.entries) && t.entries[t.settled].complete() {
		t.base.add(t.entries[t.settled])
		t.settled++
	}
	c := modelContext{messages: t.base.messages, kept: len(t.base.messages)}
	for _, e := range t.entries[t.settled:] {
		c.add(e)
	}
	for _, e := range t.presented(p.Seqs) {
		c.add(e)
	}
	return c.messages
}

// complete reports whether every call of the entry has its result.
func (e *heldEntry) complete() bool { return !slices.Contains(e.Results, nil) }

// What stands in the context in place of nothing: backends refuse empty messages.
const (
	emptyInput  = "(empty message)"
	emptyOutput = "(no output)"
	noResult    = "The call was interrupted; its outcome is unknown."
)

// summaryHead tells a model what the text behind it is.
const summaryHead = "Summary of the conversation before this point:\n\n"

// modelContext is messages under construction. The first kept of them belong to somebody else and are not changed.
type modelContext struct {
	messages []Message
	kept     int
}

func (c *modelContext) add(e heldEntry) {
	switch {
	case e.Input != nil:
		c.user(e.inputBlocks())
	case e.Answer == nil:
		c.user([]Block{{Type: TextBlock, Text: summaryText(e.Summary)}})
	case e.Answer.StopReason.Completed():
		c.assistant(e)
	}
}

func summaryText(summary string) string {
	if strings.TrimSpace(summary) == "" {
		return ""
	}
	return summaryHead + summary
}

func (e *heldEntry) inputBlocks() []Block {
	return e.seen(append([]Block{{Type: TextBlock, Text: e.Input.Text}}, e.Input.Content...))
}

func (c *modelContext) user(blocks []Block) {
	blocks = presentable(blocks, TextBlock, ImageBlock)
	if len(blocks) == 0 {
		blocks = []Block{{Type: TextBlock, Text: emptyInput}}
	}
	if n := len(c.messages); n > 0 && c.messages[n-1].Role == RoleUser {
		if n <= c.kept {
			c.messages, c.kept = slices.Clone(c.messages), 0
		}
		last := &c.messages[n-1]
		last.Content = slices.Concat(last.Content, blocks)
		return
	}
	c.messages = append(c.messages, Message{Role: RoleUser, Content: blocks})
}

func (c *modelContext) assistant(e heldEntry) {
	m := e.Answer
	blocks := presentable(m.Content, TextBlock, ThinkingBlock, CallBlock, ImageBlock)
	if len(blocks) == 0 {
		return
	}
	c.messages = append(c.messages, Message{Role: RoleAssistant, Content: blocks, Provider: m.Provider, Model: m.Model})
	ordinal := 0
	for _, b := range blocks {
		if b.Type == CallBlock {
			c.result(e, b, e.Results[ordinal])
			ordinal++
		}
	}
}

func (c *modelContext) result(e heldEntry, call Block, out *ToolOutput) {
	if out == nil {
		stand := Interrupted(call.ID, noResult)
		out = &stand
	}
	blocks := presentable(e.output(out.Content), TextBlock, ImageBlock)
	if len(blocks) == 0 {
		blocks = []Block{{Type: TextBlock, Text: emptyOutput}}
	}
	c.messages = append(c.messages, Message{
		Role: RoleTool, Content: blocks, CallID: call.ID, ProviderID: call.ProviderID, ToolName: call.Name, IsError: out.IsError,
	})
}

// presentable returns the blocks that a backend may see: those of the types, and nothing blank. In an answer, which is
// what holds thinking, a signature makes a blank block worth sending back.
func presentable(blocks []Block, types ...BlockType) []Block {
	answered := slices.Contains(types, ThinkingBlock)
	var kept []Block
	for _, b := range blocks {
		if !slices.Contains(types, b.Type) {
			continue
		}
		switch b.Type {
		case TextBlock:
			if strings.TrimSpace(b.Text) != "" || answered && b.Signature != "" {
				kept = append(kept, b)
			}
		case ThinkingBlock:
			if strings.TrimSpace(b.Thinking) != "" || b.Signature != "" {
				kept = append(kept, b)
			}
		case CallBlock:
			kept = append(kept, b)
		case ImageBlock:
			if b.Data != "" {
				kept = append(kept, b)
			}
		}
	}
	return kept
}
