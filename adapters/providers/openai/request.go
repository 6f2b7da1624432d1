package openai

import (
	"bytes"

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

const noParameters = `{"type":"object","properties":{}}`

// body returns the bytes of the request for req, shaped by what the backend is known to refuse.
func (p *Provider) body(req ports.ModelRequest) ([]byte, error) {
	r := request{
		Model: req.Model, Messages: messages(req), Temperature: req.Options.Temperature,
		ReasoningEffort: req.Options.Thinking, Stream: true,
	}
	if _, ok := p.completionTokens.Load(req.Model); ok {
		r.MaxCompletionTokens = req.Options.MaxTokens
	} else {
		r.MaxTokens = req.Options.MaxTokens
	}
	if !p.noStreamOptions.Load() {
		r.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	for _, spec := range req.Tools {
		f := toolFunction{Name: wire.ToolName(spec.Name, maxName), Description: wire.Clean(spec.Description), Parameters: wire.Raw(wire.CleanJSON(spec.Schema))}
		if len(f.Parameters) == 0 {
			f.Parameters = wire.Raw(noParameters)
		}
		r.Tools = append(r.Tools, tool{Type: "function", Function: f})
	}
	b, err := wire.Encode(r)
	if err != nil {
		return nil, &ports.ProviderError{Class: ports.Fatal, Code: "request", Message: "the request cannot be written: " + err.Error(), Err: err}
	}
	return b, nil
}

// learn reads the body of a refused request and reports whether the next one will be shaped otherwise.
func (p *Provider) learn(model string, body []byte) bool {
	if bytes.Contains(body, []byte("stream_options")) || bytes.Contains(body, []byte("include_usage")) {
		if p.noStreamOptions.CompareAndSwap(false, true) {
			return true
		}
	}
	if bytes.Contains(body, []byte("max_completion_tokens")) && bytes.Contains(body, []byte("max_tokens")) {
		_, known := p.completionTokens.LoadOrStore(model, true)
		return !known
	}
	return false
}
