package anthropic

import (
	"cmp"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

// request is the body of a generation. Equal requests have equal bytes.
type request struct {
	Model        string        `json:"model"`
	MaxTokens    int           `json:"max_tokens"`
	System       []block       `json:"system,omitempty"`
	Messages     []message     `json:"messages"`
	Tools        []tool        `json:"tools,omitempty"`
	Temperature  *float64      `json:"temperature,omitzero"`
	Thinking     *thinking     `json:"thinking,omitzero"`
	OutputConfig *outputConfig `json:"output_config,omitzero"`
	Stream       bool          `json:"stream"`
}

type tool struct {
	Name         string        `json:"name"`
	Description  string        `json:"description,omitzero"`
	InputSchema  wire.Raw      `json:"input_schema"`
	CacheControl *cacheControl `json:"cache_control,omitzero"`
}

// cacheControl marks where the backend may keep the prefix of a request.
type cacheControl struct {
	Type string `json:"type"`
}

var ephemeral = &cacheControl{"ephemeral"}

// maxName is the longest name of a tool that the wire takes.
const maxName = 128

// build returns the request for req, shaped by what the backend is known to refuse.
func (p *Provider) build(req ports.ModelRequest, history thoughts) (*request, error) {
	r := &request{Model: req.Model, MaxTokens: p.cap(req), Tools: tools(req.Tools), Stream: true}
	if s := wire.Clean(req.System); strings.TrimSpace(s) != "" {
		r.System = []block{{Type: "text", Text: s}}
	}
	r.Messages = messages(req.Messages, maker{p.Name(), family(req.Model), history.none})
	if err := p.think(r, req.Options.Thinking); err != nil {
		return nil, err
	}
	if _, refused := p.noSampling.Load(r.Model); !refused && r.Thinking == nil {
		r.Temperature = req.Options.Temperature // it goes with no thinking
	}
	r.markCache()
	return r, nil
}

// cap returns the token cap of req, at most what the model is known to take.
func (p *Provider) cap(req ports.ModelRequest) int {
	n := cmp.Or(req.Options.MaxTokens, p.maxTokens)
	if limit, ok := p.limits.Load(req.Model); ok {
		n = min(n, limit.(int))
	}
	return n
}

// markCache marks the end of what stays from turn to turn, and the end of the request: the next one begins with it.
func (r *request) markCache() {
	switch {
	case len(r.System) > 0:
		r.System[len(r.System)-1].CacheControl = ephemeral
	case len(r.Tools) > 0:
		r.Tools[len(r.Tools)-1].CacheControl = ephemeral
	}
	last := r.Messages[len(r.Messages)-1].Content
	last[len(last)-1].CacheControl = ephemeral
}

// replays reports whether r sends thinking back.
func (r *request) replays() bool {
	for _, m := range r.Messages {
		for _, b := range m.Content {
			if b.isThinking() {
				return true
			}
		}
	}
	return false
}

func tools(specs []ports.ToolSpec) []tool {
	var list []tool
	for _, spec := range specs {
		list = append(list, tool{
			Name: wire.ToolName(spec.Name, maxName), Description: wire.Clean(spec.Description), InputSchema: wire.InputSchema(spec.Schema),
		})
	}
	return list
}
