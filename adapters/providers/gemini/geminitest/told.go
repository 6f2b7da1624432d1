package geminitest

import (
	"encoding/json"
	"fmt"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
)

// Told returns what a request that Check takes tells the model. Calls are told apart by their places: not all of them have
// ids, and the next turn responds to all of a turn, in order.
func Told(raw []byte) ([]wiretest.Told, error) {
	var b body
	if err := wiretest.ReadStrict(raw, &b); err != nil {
		return nil, err
	}
	var list []wiretest.Told
	for i, t := range b.Contents {
		calls, responses := 0, 0
		role := domain.RoleUser
		if t.Role == "model" {
			role = domain.RoleAssistant
		}
		for _, p := range t.Parts {
			told := p.told(role)
			switch {
			case p.FunctionCall != nil:
				told.Call = fmt.Sprint(i, calls)
				calls++
			case p.FunctionResponse != nil:
				told.Call = fmt.Sprint(i-1, responses)
				responses++
			}
			list = append(list, told)
		}
	}
	return wiretest.ImagesInResults(list), nil
}

// told returns what c says in a turn of role.
func (c content) told(role domain.Role) wiretest.Told {
	switch {
	case c.FunctionCall != nil:
		return wiretest.Told{Role: role, Type: domain.CallBlock, Text: string(c.FunctionCall.Args), Name: c.FunctionCall.Name}
	case c.FunctionResponse != nil:
		var r struct{ Output, Error *string }
		if json.Unmarshal(c.FunctionResponse.Response, &r) == nil && r.Error != nil {
			return wiretest.Told{Role: domain.RoleTool, Type: domain.TextBlock, Text: *r.Error, IsError: true}
		}
		if r.Output == nil {
			r.Output = new(string)
		}
		return wiretest.Told{Role: domain.RoleTool, Type: domain.TextBlock, Text: *r.Output}
	case c.InlineData != nil:
		return wiretest.Told{Role: role, Type: domain.ImageBlock, Text: c.InlineData.Data}
	case c.Thought:
		return wiretest.Told{Role: role, Type: domain.ThinkingBlock, Text: *c.Text}
	}
	return wiretest.Told{Role: role, Type: domain.TextBlock, Text: *c.Text}
}
