package mcp

import (
	"context"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// The list, results and errors are encoded anew here, after which a value is not as the server wrote it.
func TestWhatIsEncodedHereDoesNotTellTheSecret(t *testing.T) {
	const value = `canary&<">\key`
	a := newAccounts(t)
	a.peer.AddTool(&mcp.Tool{Name: "described", InputSchema: map[string]any{"type": "object", "description": "for " + value}},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, nil })
	tools, logs := runWith(t, a.server(), &vault{keys: map[string]string{"one": value}})
	out := executeFor(t, "one", tools, "s__structured", `{}`)
	require.Equal(t, `{"you":"Bearer [redacted]"}`, out.Content[0].Text)
	specs := tools.Load(t.Context(), "one", []string{"s__described"})
	require.Equal(t, `{"description":"for [redacted]","properties":{},"type":"object"}`, specs[0].Schema)
	requireNothing(t, logs, "canary")
}

func TestACutDescriptionDoesNotTellTheSecret(t *testing.T) {
	const value = "canary-0123456789"
	for cut := 1; cut < len(value); cut++ {
		s := newServer("s", Server{}, "test", zap.NewNop(), nil)
		s.hidden = []string{value}
		listed := &mcp.Tool{Name: "x", Description: strings.Repeat("x", largestDescription-cut) + value + value}
		kept, _, _ := strings.Cut(s.offered([]*mcp.Tool{listed})[0].spec.Description, "\n")
		require.True(t, strings.HasPrefix("[redacted][redacted]", strings.TrimLeft(kept, "x")), "%d: %s", cut, kept)
	}
}
