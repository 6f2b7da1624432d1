package gemini

import (
	"slices"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

// request is the body of a generation. Equal requests have equal bytes.
type request struct {
	SystemInstruction *turn             `json:"systemInstruction,omitzero"`
	Contents          []turn            `json:"contents"`
	Tools             []toolList        `json:"tools,omitempty"`
	GenerationConfig  *generationConfig `json:"generationConfig,omitzero"`

	// What was known of the model's refusals when the request was made.
	strict  bool // maker.strict
	refused int  // how much of the wish for thinking
}

type generationConfig struct {
	Temperature     *float64        `json:"temperature,omitzero"`
	MaxOutputTokens int             `json:"maxOutputTokens,omitzero"`
	ThinkingConfig  *thinkingConfig `json:"thinkingConfig,omitzero"`
}

type toolList struct {
	FunctionDeclarations []declaration `json:"functionDeclarations"`
}

// declaration declares a tool. The backend reads JSON Schema in parametersJsonSchema; parameters is a narrower form that
// refuses whole requests for a keyword that it does not know.
type declaration struct {
	Name                 string   `json:"name"`
	Description          string   `json:"description,omitzero"`
	ParametersJSONSchema wire.Raw `json:"parametersJsonSchema,omitzero"`
}

// build returns the request for req, shaped by what the backend is known to refuse.
func (p *Provider) build(req ports.ModelRequest, history thoughts) (*request, error) {
	if err := wire.CheckToolCount(len(req.Tools), maxTools); err != nil {
		return nil, err
	}
	refused := p.refusedThinking(req)
	thinking, err := think(req, refused)
	if err != nil {
		return nil, err
	}
	to := p.maker(req.Model, history)
	r := &request{Contents: messages(req.Messages, to), Tools: tools(req.Tools), strict: to.strict, refused: refused}
	if s := wire.Clean(req.System); strings.TrimSpace(s) != "" {
		r.SystemInstruction = &turn{Parts: []requestPart{textPart(s)}}
	}
	config := generationConfig{Temperature: req.Options.Temperature, MaxOutputTokens: req.Options.MaxTokens, ThinkingConfig: thinking}
	if config != (generationConfig{}) {
		r.GenerationConfig = &config
	}
	return r, nil
}

// thinks reports whether r says something about thinking.
func (r *request) thinks() bool {
	return r.GenerationConfig != nil && r.GenerationConfig.ThinkingConfig != nil
}

// replays reports whether r sends signatures of the backend back.
func (r *request) replays() bool {
	for _, t := range r.Contents {
		if slices.ContainsFunc(t.Parts, func(p requestPart) bool { return p.ThoughtSignature != "" && p.ThoughtSignature != noSignature }) {
			return true
		}
	}
	return false
}

func tools(specs []ports.ToolSpec) []toolList {
	if len(specs) == 0 {
		return nil
	}
	var list []declaration
	for _, spec := range specs {
		list = append(list, declaration{wireName(spec.Name), wire.Clean(spec.Description), parameters(spec.Schema)})
	}
	return []toolList{{list}}
}

// parameters returns a schema as the wire wants it: nothing for a tool that takes nothing, else one that says that it is
// of an object, without the name of its dialect.
func parameters(schema string) wire.Raw {
	members := wire.Object(wire.Raw(strings.TrimSpace(wire.CleanJSON(schema))))
	delete(members, "$schema")
	if len(members) == 0 {
		return nil
	}
	if wire.IsNull(members["type"]) {
		members["type"] = wire.Raw(`"object"`)
	}
	b, _ := wire.Encode(members) // parts of valid JSON
	return b
}

// maxTools is how many declarations the wire takes.
const maxTools = 512

// maxName is the longest name of a tool that the wire takes.
const maxName = 64

// wireName returns the name of a tool as the wire takes it: it begins with a letter or _. Names that differ stay
// different.
func wireName(name string) string {
	if name != "" && strings.Contains("0123456789-", name[:1]) {
		name = "_." + name // the dot makes for a name of its own
	}
	return wire.ToolName(name, maxName)
}

// toolNames returns the name of each tool by the one that it has on the wire.
func toolNames(specs []ports.ToolSpec) map[string]string {
	names := make(map[string]string, len(specs))
	for _, spec := range specs {
		names[wireName(spec.Name)] = spec.Name
	}
	return names
}
