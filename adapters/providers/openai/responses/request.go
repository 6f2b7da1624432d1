package responses

import (
	"slices"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

// request is the body of a generation. Equal requests have equal bytes.
type request struct {
	Model           string     `json:"model"`
	Instructions    string     `json:"instructions,omitzero"`
	Input           []item     `json:"input"`
	Tools           []tool     `json:"tools,omitempty"`
	Temperature     *float64   `json:"temperature,omitzero"`
	MaxOutputTokens int        `json:"max_output_tokens,omitzero"`
	Reasoning       *reasoning `json:"reasoning,omitzero"`
	Include         []string   `json:"include,omitempty"`
	Store           bool       `json:"store"`
	Stream          bool       `json:"stream"`
}

// tool is a function. Without strict the wire takes only schemas of a subset.
type tool struct {
	Type        string   `json:"type"`
	Name        string   `json:"name"`
	Description string   `json:"description,omitzero"`
	Parameters  wire.Raw `json:"parameters"`
	Strict      bool     `json:"strict"`
}

const (
	// maxName is the longest name of a tool that the wire takes.
	maxName = 64
	// minOutput is the smallest token cap that the wire takes.
	minOutput = 16
	// encrypted asks for reasoning that can be sent back though the backend keeps nothing.
	encrypted = "reasoning.encrypted_content"
)

// build returns the request for req, shaped by what the backend is known to refuse.
func (p *Provider) build(req ports.ModelRequest, history thoughts) (*request, error) {
	r := &request{Model: req.Model, Tools: tools(req.Tools, p.refuses(req.Model, longDescriptions)), Stream: true}
	if s := wire.Clean(req.System); strings.TrimSpace(s) != "" {
		r.Instructions = s
	}
	r.Input = messages(req.Messages, maker{p.Name(), family(req.Model), history.none})
	if req.Options.MaxTokens > 0 {
		r.MaxOutputTokens = max(req.Options.MaxTokens, minOutput)
	}
	if err := p.think(r, req.Options.Thinking); err != nil {
		return nil, err
	}
	if !p.refuses(r.Model, encryptedContent) {
		r.Include = []string{encrypted}
	}
	if (r.Reasoning == nil || r.Reasoning.Effort == "none") && !p.refuses(r.Model, temperature) {
		r.Temperature = req.Options.Temperature // a model that reasons takes none
	}
	return r, nil
}

func (r *request) describesAtLength() bool {
	return slices.ContainsFunc(r.Tools, func(t tool) bool { return wire.IsLong(t.Description) })
}

// replays reports whether r sends reasoning back.
func (r *request) replays() bool {
	for _, i := range r.Input {
		if i.Type == reasoningType {
			return true
		}
	}
	return false
}

func tools(specs []ports.ToolSpec, brief bool) []tool {
	var list []tool
	for _, spec := range specs {
		list = append(list, tool{
			Type: "function", Name: wire.ToolName(spec.Name, maxName), Description: wire.Description(spec.Description, brief),
			Parameters: wire.InputSchema(spec.Schema),
		})
	}
	return list
}
