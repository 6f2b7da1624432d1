package openaitest

import (
	"encoding/json"

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
		if m.Role == "system" {
			continue
		}
		for _, p := range m.parts() {
			t := wiretest.Told{Role: domain.Role(m.Role), Type: domain.TextBlock, Text: p.Text, Call: m.ToolCallID}
			if p.ImageURL != nil {
				t.Type, t.Text = domain.ImageBlock, wiretest.ImageData(p.ImageURL.URL)
			}
			list = append(list, t)
		}
		for _, k := range m.ToolCalls {
			list = append(list, wiretest.Told{
				Role: domain.RoleAssistant, Type: domain.CallBlock, Text: k.Function.Arguments, Call: k.ID, Name: k.Function.Name,
			})
		}
	}
	return wiretest.ImagesInResults(list), nil
}

// parts returns the content, a plain text as the only one.
func (m message) parts() (parts []part) {
	var text string
	if json.Unmarshal(m.Content, &parts) != nil && json.Unmarshal(m.Content, &text) == nil {
		return []part{{Type: "text", Text: text}}
	}
	return parts
}
