package portstest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// ToolsHarness lets TestTools call the tools of a set.
type ToolsHarness struct {
	New  func(t *testing.T) ports.Tools
	Good map[string]string     // for each tool, arguments with which it succeeds at once
	Bad  map[string][]string   // arguments that a tool must refuse: JSON objects that break its schema
	Slow *ports.ToolInvocation // a call that lasts until it is cancelled, nil when no tool can do that
}

// TestTools is the suite that every set of tools passes.
func TestTools(t *testing.T, h ToolsHarness) {
	t.Run("specs", func(t *testing.T) { testToolSpecs(t, h) })
	t.Run("good arguments", func(t *testing.T) {
		for name, args := range h.Good {
			out := executeTool(t, h.New(t), name, args)
			require.False(t, out.IsError, "%s: %v", name, out.Content)
		}
	})
	t.Run("bad arguments", func(t *testing.T) {
		for name, list := range h.Bad {
			for _, args := range append([]string{`[]`, `{"a":`, ``}, list...) {
				out := executeTool(t, h.New(t), name, args)
				require.True(t, out.IsError, "%s accepts %s", name, args)
				require.NotEmpty(t, out.Content, "the model must learn what was wrong")
			}
		}
	})
	t.Run("unknown tool", func(t *testing.T) {
		require.True(t, executeTool(t, h.New(t), "no_such_tool", `{}`).IsError)
	})
	t.Run("concurrent use", func(t *testing.T) {
		tools := h.New(t)
		var wg sync.WaitGroup
		for range 4 {
			for name, args := range h.Good {
				wg.Go(func() {
					_, err := tools.Execute(t.Context(), ports.ToolInvocation{ID: "c1", Name: name, Arguments: args})
					if err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
	})
	t.Run("cancellation", func(t *testing.T) { testToolCancellation(t, h) })
}

func testToolSpecs(t *testing.T, h ToolsHarness) {
	specs := h.New(t).Specs()
	require.NotEmpty(t, specs)
	var names []string
	for _, s := range specs {
		names = append(names, s.Name)
		require.NotEmpty(t, s.Name)
		require.NotEmpty(t, s.Description)
		var schema struct {
			Type       string                     `json:"type"`
			Properties map[string]json.RawMessage `json:"properties"`
		}
		require.NoError(t, json.Unmarshal([]byte(s.Schema), &schema), s.Name)
		require.Equal(t, "object", schema.Type, s.Name)
		require.NotNil(t, schema.Properties, "%s: backends want properties, even empty ones", s.Name)
		require.Contains(t, h.Good, s.Name, "the harness knows no good arguments")
	}
	require.True(t, slices.IsSorted(names), "%v", names)
	require.Equal(t, slices.Compact(slices.Clone(names)), names)
	require.Equal(t, specs, h.New(t).Specs(), "the specs change")
}

// executeTool runs a call that must end by itself, and holds what every result promises.
func executeTool(t *testing.T, tools ports.Tools, name, args string) ports.ToolOutput {
	t.Helper()
	out, err := tools.Execute(t.Context(), ports.ToolInvocation{
		Ref: domain.SessionRef{Tenant: "t", Session: "s"}, ID: "c1", Name: name, Arguments: args,
	})
	require.NoError(t, err, "a tool's failure is a result")
	for _, b := range out.Content {
		require.Contains(t, []domain.BlockType{domain.TextBlock, domain.ImageBlock}, b.Type)
		require.True(t, utf8.ValidString(b.Text))
	}
	return out
}

func testToolCancellation(t *testing.T, h ToolsHarness) {
	cause := errors.New("the test gave up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if h.Slow == nil {
		return
	}
	_, err := h.New(t).Execute(ctx, *h.Slow)
	require.ErrorIs(t, err, cause, "a call that was cancelled before it began")

	checkLeaks(t)
	best := time.Hour
	for try := 0; try < 3 && best > cancelLimit; try++ {
		ctx, cancel := context.WithCancelCause(t.Context())
		result := make(chan error, 1)
		tools := h.New(t)
		go func() {
			_, err := tools.Execute(ctx, *h.Slow)
			result <- err
		}()
		start := time.Now()
		cancel(cause)
		require.ErrorIs(t, <-result, cause)
		best = min(best, time.Since(start))
	}
	require.LessOrEqual(t, best, cancelLimit, "cancellation takes too long")
}
