package openai

import (
	"slices"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

// request is the body of a generation. Equal requests have equal bytes.
type request struct {
	Model               string         `json:"model"`
	Messages            []message      `json:"messages"`
	Tools               []tool         `json:"tools,omitempty"`
	Temperature         *float64       `json:"temperature,omitzero"`
	MaxTokens           int            `json:"max_tokens,omitzero"`
	MaxCompletionTokens int            `json:"max_completion_tokens,omitzero"`
	ReasoningEffort     string         `json:"reasoning_effort,omitzero"`
	Stream              bool           `json:"stream"`
	StreamOptions       *streamOptions `json:"stream_options,omitzero"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type tool struct {
	Type     string       `json:"type"`
	Function toolFunction `json:"function"`
}

type toolFunction struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitzero"`
	Parameters  wire.Raw `json:"parameters"`
}

// build returns the request for req, shaped by what the backend is known to refuse.
func (p *Provider) build(req ports.ModelRequest) *request {
	_, brief := p.briefTools.Load(req.Model)
	r := &request{
		Model: req.Model, Messages: messages(req), Tools: tools(req.Tools, brief), ReasoningEffort: req.Options.Thinking, Stream: true,
	}
	if _, ok := p.noTemperature.Load(req.Model); !ok {
		r.Temperature = req.Options.Temperature
	}
	if _, ok := p.completionTokens.Load(req.Model); ok {
		r.MaxCompletionTokens = req.Options.MaxTokens
	} else {
		r.MaxTokens = req.Options.MaxTokens
	}
	if !p.noStreamOptions.Load() {
		r.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	return r
}

// maxTools is how many tools OpenAI takes in a request of this wire, as it documents it. Other backends have bounds of
// their own, or none.
const maxTools = 128

func tools(specs []ports.ToolSpec, brief bool) []tool {
	var list []tool
	for _, spec := range specs {
		f := toolFunction{Name: wire.ToolName(spec.Name, maxName), Description: wire.Description(spec.Description, brief), Parameters: wire.InputSchema(spec.Schema)}
		list = append(list, tool{Type: "function", Function: f})
	}
	return list
}

func (r *request) describesAtLength() bool {
	return slices.ContainsFunc(r.Tools, func(t tool) bool { return wire.IsLong(t.Function.Description) })
}
