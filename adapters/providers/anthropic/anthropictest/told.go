package anthropictest

import (
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
)

// Told returns what a request that Check takes tells the model.
func Told(raw []byte) ([]wiretest.Told, error) {
	var b body
	if err := wiretest.ReadStrict(raw, &b); err != nil {
		return nil, err
	}
	var list []wiretest.Told
	for _, m := range b.Messages {
		for _, c := range m.Content {
			if c.Type != "tool_result" {
				list = append(list, c.told(wiretest.Told{Role: domain.Role(m.Role)}))
				continue
			}
			for _, inner := range c.Content {
				list = append(list, inner.told(wiretest.Told{Role: domain.RoleTool, Call: c.ToolUseID, IsError: c.IsError}))
			}
		}
	}
	return list, nil
}

// told completes t by what c says.
func (c content) told(t wiretest.Told) wiretest.Told {
	t.Type, t.Text = domain.BlockType(c.Type), c.Text
	switch c.Type {
	case "image":
		t.Text = c.Source.Data
	case "thinking":
		t.Text = *c.Thinking
	case "redacted_thinking":
		t.Type = domain.ThinkingBlock
	case "tool_use":
		t.Type, t.Text, t.Call, t.Name = domain.CallBlock, string(c.Input), c.ID, c.Name
	}
	return t
}
