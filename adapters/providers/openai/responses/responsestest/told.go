package responsestest

import (
	"encoding/json"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
)

// Told returns what a request that Check takes tells the model.
func Told(raw []byte) ([]wiretest.Told, error) {
	var r request
	if err := wiretest.ReadStrict(raw, &r); err != nil {
		return nil, err
	}
	var list []wiretest.Told
	for _, it := range r.Input {
		t := wiretest.Told{Role: domain.Role(it.Role), Call: it.CallID}
		parts := it.Content
		switch it.Type {
		case "function_call":
			t.Role, t.Type, t.Text, t.Name = domain.RoleAssistant, domain.CallBlock, it.Arguments, it.Name
			list = append(list, t)
		case "reasoning":
			t.Role, t.Type = domain.RoleAssistant, domain.ThinkingBlock
			for _, s := range it.Summary {
				t.Text += s.Text
			}
			list = append(list, t)
		case "function_call_output":
			t.Role, parts = domain.RoleTool, it.printed()
		}
		for _, p := range parts {
			t.Type, t.Text = domain.TextBlock, p.Text
			if p.Type == "input_image" {
				t.Type, t.Text = domain.ImageBlock, wiretest.ImageData(p.ImageURL)
			}
			list = append(list, t)
		}
	}
	return list, nil
}

// printed returns an output, a plain text as its only part.
func (it inputItem) printed() (parts []content) {
	var text string
	if json.Unmarshal(it.Output, &text) == nil {
		return []content{{Type: "input_text", Text: text}}
	}
	_ = json.Unmarshal(it.Output, &parts) // what Check takes is one or the other
	return parts
}
