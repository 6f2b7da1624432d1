package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/tools/output"
	"github.com/keel-agent/keel/adapters/tools/toolset"
	"github.com/keel-agent/keel/ports"
)

// tool is one tool of a server as it was last listed.
type tool struct {
	spec   ports.ToolSpec
	remote string          // the server's own name of it
	schema *toolset.Schema // nil when it cannot be used here; the server then judges alone
}

const (
	mostTools          = 512
	largestSchema      = 64 << 10
	largestDescription = 8 << 10
)

// list asks for the server's tools and returns those that are offered, sorted by their names.
func (s *server) list(ctx context.Context, session *mcp.ClientSession) ([]tool, error) {
	var listed []*mcp.Tool
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("listing the tools: %w", err)
		}
		if len(listed) == mostTools {
			s.log.Warn("the server has more tools than are taken", zap.Int("taken", mostTools))
			break
		}
		if t.Name != "" && (len(s.decl.Tools) == 0 || slices.Contains(s.decl.Tools, t.Name)) {
			listed = append(listed, t)
		}
	}
	slices.SortStableFunc(listed, func(a, b *mcp.Tool) int { return strings.Compare(a.Name, b.Name) })
	listed = slices.CompactFunc(listed, func(a, b *mcp.Tool) bool { return a.Name == b.Name })
	s.warnOfMissing(listed)
	return s.offered(listed), nil
}

func (s *server) warnOfMissing(listed []*mcp.Tool) {
	for _, name := range s.decl.Tools {
		if !slices.ContainsFunc(listed, func(t *mcp.Tool) bool { return t.Name == name }) {
			s.log.Warn("the server does not have a tool that its declaration names", zap.String("tool", name))
		}
	}
}

func (s *server) offered(listed []*mcp.Tool) []tool {
	listed = slices.DeleteFunc(listed, s.tellsByName)
	var remotes []string
	for _, t := range listed {
		remotes = append(remotes, t.Name)
	}
	names := offeredNames(s.name, remotes)
	var tools []tool
	for _, t := range listed {
		text, err := schemaText(t.InputSchema, s.hidden)
		if err != nil {
			s.log.Warn("a tool is left out", zap.String("tool", t.Name), zap.Error(s.hidden.Error(err)))
			continue
		}
		schema, err := toolset.Compile(text)
		if err != nil {
			s.log.Warn("the arguments of a tool are not validated here", zap.String("tool", t.Name), zap.Error(s.hidden.Error(err)))
		}
		tools = append(tools, tool{
			spec: ports.ToolSpec{
				Name: names[t.Name], Description: describe(t, s.hidden), Schema: text, ReplaySafe: s.replaySafe(t),
			},
			remote: t.Name, schema: schema,
		})
	}
	slices.SortStableFunc(tools, func(a, b tool) int { return strings.Compare(a.spec.Name, b.spec.Name) })
	return slices.CompactFunc(tools, func(a, b tool) bool { return a.spec.Name == b.spec.Name })
}

// tellsByName reports whether a tool's name, which cannot be redacted, shows what is hidden, or does once it is offered.
func (s *server) tellsByName(t *mcp.Tool) bool {
	names := t.Name + "\n" + plainName(s.name, t.Name)
	tells := s.hidden.In(names) != names
	if tells {
		s.log.Warn("a tool is left out", zap.Error(errors.New("its name holds a secret")))
	}
	return tells
}

// replaySafe believes the operator, and the server only when the operator does.
func (s *server) replaySafe(t *mcp.Tool) bool {
	trusted := s.decl.TrustReadOnly && t.Annotations != nil && t.Annotations.ReadOnlyHint
	return trusted || slices.Contains(s.decl.ReplaySafe, t.Name)
}

func describe(t *mcp.Tool, hidden output.Hidden) string {
	title := t.Title
	if title == "" && t.Annotations != nil {
		title = t.Annotations.Title
	}
	return output.Cap(hidden.In(cmp.Or(t.Description, title, t.Name)), largestDescription)
}

// schemaText returns an input schema as backends want it: an object with properties, even empty ones.
// It shows nothing that is hidden.
func schemaText(input any, hidden output.Hidden) (string, error) {
	schema, ok := input.(map[string]any)
	if !ok && input != nil {
		return "", fmt.Errorf("its input schema is no object")
	}
	full := map[string]any{"type": "object", "properties": map[string]any{}}
	for key, value := range schema {
		if key != "$schema" && value != nil {
			full[key] = value
		}
	}
	if _, ok := full["properties"].(map[string]any); !ok || full["type"] != "object" {
		return "", fmt.Errorf("its input schema describes no object")
	}
	text, err := json.Marshal(full)
	if err != nil {
		return "", err
	}
	if len(text) > largestSchema {
		return "", fmt.Errorf("its input schema has %d bytes, more than %d", len(text), largestSchema)
	}
	clean := hidden.In(string(text))
	if !json.Valid([]byte(clean)) {
		return "", errors.New("its input schema holds a secret outside its texts")
	}
	return clean, nil
}
