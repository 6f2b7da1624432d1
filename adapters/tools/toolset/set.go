// Package toolset is what sets of tools share: arguments that are validated before a tool runs, limits of time and of
// output, and results for everything that goes wrong.
package toolset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keel-agent/keel/adapters/tools/output"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Tool is one tool of a set.
type Tool struct {
	Spec    ports.ToolSpec
	Timeout time.Duration // of one call; none when 0
	Limit   int           // bytes of an output that are kept; output.DefaultLimit when 0

	// Run gets arguments that fit the schema. The text of its error is for the model; an error after ctx ended says
	// nothing, whatever it is.
	Run func(ctx context.Context, call Call) (string, error)
}

// Call is a call whose arguments fit the schema of its tool.
type Call struct {
	Ref  domain.SessionRef
	ID   string
	Args Arguments
	Raw  string // the arguments as the model wrote them
}

// Set is a set of tools; it is a ports.Tools.
type Set struct{ all []resolved }

type resolved struct {
	Tool
	schema *Schema
}

// New returns a set of tools. It panics when a schema is broken: specs are constants of a program.
func New(tools ...Tool) *Set {
	s := &Set{}
	for _, tool := range tools {
		schema, err := Compile(tool.Spec.Schema)
		if err != nil {
			panic(fmt.Sprintf("toolset: the schema of %s: %v", tool.Spec.Name, err))
		}
		s.all = append(s.all, resolved{tool, schema})
	}
	slices.SortFunc(s.all, func(a, b resolved) int { return strings.Compare(a.Spec.Name, b.Spec.Name) })
	return s
}

// Specs returns the specs, sorted by name.
func (s *Set) Specs() []ports.ToolSpec {
	specs := make([]ports.ToolSpec, 0, len(s.all))
	for _, tool := range s.all {
		specs = append(specs, tool.Spec)
	}
	return specs
}

// Execute runs one call; see ports.Tools.
func (s *Set) Execute(ctx context.Context, call ports.ToolInvocation) (ports.ToolOutput, error) {
	if ctx.Err() != nil {
		return ports.ToolOutput{}, context.Cause(ctx)
	}
	text, limit, err := s.execute(ctx, call)
	if err != nil && ctx.Err() != nil {
		return ports.ToolOutput{}, context.Cause(ctx)
	}
	out := ports.ToolOutput{IsError: err != nil}
	if err != nil {
		text = err.Error()
	}
	out.Content = []domain.Block{{Type: domain.TextBlock, Text: output.Cap(text, limit)}}
	return out, nil
}

var errTimeout = errors.New("the time of the call is over")

// execute runs a call and tells how many bytes of its output are kept.
func (s *Set) execute(ctx context.Context, call ports.ToolInvocation) (text string, limit int, err error) {
	i := slices.IndexFunc(s.all, func(tool resolved) bool { return tool.Spec.Name == call.Name })
	if i < 0 {
		return "", 0, fmt.Errorf("there is no tool named %q", call.Name)
	}
	tool := s.all[i]
	args, err := tool.schema.Parse(call.Name, call.Arguments)
	if err != nil {
		return "", 0, err
	}
	text, err = tool.within(ctx, Call{Ref: call.Ref, ID: call.ID, Args: args, Raw: call.Arguments})
	return text, tool.Limit, err
}

// within runs the tool within its time.
func (t Tool) within(ctx context.Context, call Call) (string, error) {
	if t.Timeout > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, t.Timeout, errTimeout)
		defer cancel()
		ctx = limited
	}
	text, err := t.Run(ctx, call)
	if err != nil && errors.Is(context.Cause(ctx), errTimeout) {
		return "", fmt.Errorf("%s did not end within %s and was stopped", t.Spec.Name, t.Timeout)
	}
	return text, err
}
