// Package builtin holds a few harmless tools: time, calculator and sleep.
package builtin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/keel-agent/keel/adapters/tools/output"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Tools is the set of built-in tools.
type Tools struct {
	clock ports.Clock
	all   []tool // sorted by name
}

// tool is one tool. run gets arguments that fit the schema; the text of its error is for the model. An error that ends
// ctx is the cause of ctx.
type tool struct {
	spec   ports.ToolSpec
	schema *jsonschema.Resolved
	run    func(ctx context.Context, args arguments) (string, error)
}

// New returns the built-in tools. The clock tells the time to the time tool and measures durations.
func New(clock ports.Clock) ports.Tools {
	t := &Tools{clock: clock}
	t.add(timeSpec, t.time)
	t.add(calculatorSpec, calculate)
	t.add(sleepSpec, sleep)
	slices.SortFunc(t.all, func(a, b tool) int { return strings.Compare(a.spec.Name, b.spec.Name) })
	return t
}

// add panics when the schema of spec is broken: specs are constants of this package.
func (t *Tools) add(spec ports.ToolSpec, run func(context.Context, arguments) (string, error)) {
	schema, err := resolve(spec.Schema)
	if err != nil {
		panic(fmt.Sprintf("builtin: the schema of %s: %v", spec.Name, err))
	}
	t.all = append(t.all, tool{spec, schema, run})
}

// Specs returns the specs, sorted by name.
func (t *Tools) Specs() []ports.ToolSpec {
	specs := make([]ports.ToolSpec, 0, len(t.all))
	for _, tool := range t.all {
		specs = append(specs, tool.spec)
	}
	return specs
}

// Execute runs one call; see ports.Tools.
func (t *Tools) Execute(ctx context.Context, call ports.ToolInvocation) (ports.ToolOutput, error) {
	if ctx.Err() != nil {
		return ports.ToolOutput{}, context.Cause(ctx)
	}
	text, err := t.execute(ctx, call)
	if err != nil && ctx.Err() != nil {
		return ports.ToolOutput{}, context.Cause(ctx)
	}
	out := ports.ToolOutput{IsError: err != nil}
	if err != nil {
		text = err.Error()
	}
	out.Content = []domain.Block{{Type: domain.TextBlock, Text: output.Cap(text, 0)}}
	return out, nil
}

func (t *Tools) execute(ctx context.Context, call ports.ToolInvocation) (string, error) {
	i := slices.IndexFunc(t.all, func(tool tool) bool { return tool.spec.Name == call.Name })
	if i < 0 {
		return "", fmt.Errorf("there is no tool named %q", call.Name)
	}
	tool := t.all[i]
	args, err := parseArguments(tool.schema, call.Arguments)
	if err != nil {
		return "", fmt.Errorf("bad arguments: %w. The arguments of %s must fit this JSON Schema: %s", err, call.Name, tool.spec.Schema)
	}
	return tool.run(ctx, args)
}
