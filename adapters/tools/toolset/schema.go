package toolset

import (
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema is the JSON Schema of a tool's arguments, for sets whose tools are not constants of the program.
type Schema struct {
	text     string
	resolved *jsonschema.Resolved
}

// Compile reads a JSON Schema. It fails when the text is none, or refers to another document.
func Compile(text string) (*Schema, error) {
	resolved, err := resolve(text)
	if err != nil {
		return nil, err
	}
	return &Schema{text, resolved}, nil
}

// Parse reads the arguments of a call of the named tool: one strict JSON object that fits the schema. The error tells
// the model which argument is wrong and what the schema is.
func (s *Schema) Parse(tool, raw string) (Arguments, error) {
	args, err := parse(s.resolved, raw)
	if err != nil {
		return nil, fmt.Errorf("bad arguments: %w. The arguments of %s must fit this JSON Schema: %s", err, tool, s.text)
	}
	return args, nil
}
