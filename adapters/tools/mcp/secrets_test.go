package mcp

import (
	"context"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
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

// A name is a handle that cannot be redacted: the tool is left out, also when the name becomes the secret only here.
func TestToolsWhoseNamesTellTheSecretAreLeftOut(t *testing.T) {
	const value = "canary_key"
	core, logs := observer.New(zap.DebugLevel)
	s := newServer("s", Server{}, "test", zap.New(core), nil)
	s.hidden = []string{value, "s__join", "123456"}
	object := map[string]any{"type": "object"}
	tools := s.offered([]*mcp.Tool{
		{Name: "get-" + value, InputSchema: object}, {Name: "get-canary key", InputSchema: object}, {Name: "join", InputSchema: object},
		{Name: value + "-of-no-object"}, {Name: "number", InputSchema: map[string]any{"type": "object", "maxProperties": 1234567}},
		{Name: "pattern", InputSchema: map[string]any{"type": "object", "properties": map[string]any{}, "pattern": "(" + value}},
	})
	require.Equal(t, []string{"s__pattern"}, namesOf(tools))
	require.Equal(t, 5, logs.FilterMessage("a tool is left out").Len())
	require.Equal(t, 1, logs.FilterMessage("the arguments of a tool are not validated here").Len())
	requireNothing(t, logs, "canary")
	requireNothing(t, logs, "s__join")
	requireNothing(t, logs, "123456")
}

func TestToolsWhoseNamesTellTheSecretAreNotLogged(t *testing.T) {
	a := newAccounts(t)
	add(a.peer, "get-canary_key", `{"type":"object"}`, nil)
	tools, logs := runWith(t, a.server(), &vault{keys: map[string]string{"one": "canary_key"}})
	require.Len(t, tools.Load(t.Context(), "one", []string{"s__who", "s__get-canary_key"}), 1)
	require.Equal(t, 1, logs.FilterMessage("connected").Len())
	requireNothing(t, logs, "canary")
}

func TestProgressDoesNotTellTheSecret(t *testing.T) {
	a := newAccounts(t)
	add(a.peer, "hint", `{"type":"object"}`, func(ctx context.Context, req *mcp.CallToolRequest, _ map[string]any) (*mcp.CallToolResult, error) {
		return textResult("x"), req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Extra.Header.Get("Authorization")})
	})
	tools, logs := runWith(t, a.server(), &vault{keys: map[string]string{"one": "canary-key"}})
	require.False(t, executeFor(t, "one", tools, "s__hint", `{}`).IsError)
	eventually(t, "progress is logged", func() bool { return logs.FilterMessage("progress").Len() > 0 })
	require.Equal(t, "Bearer [redacted]", logs.FilterMessage("progress").All()[0].ContextMap()["token"])
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
