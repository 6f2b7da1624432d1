package toolset_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/tools/toolset"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

const anyObject = `{"type":"object","properties":{}}`

func waiting(ctx context.Context, _ toolset.Call) (string, error) {
	<-ctx.Done()
	return "half", ctx.Err()
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := toolset.New(toolset.Tool{Spec: ports.ToolSpec{Name: "wait", Schema: anyObject}, Timeout: time.Minute, Run: waiting})
		began := time.Now()
		out, err := set.Execute(t.Context(), ports.ToolInvocation{Name: "wait", Arguments: `{}`})
		require.NoError(t, err, "a tool that takes too long has failed, and the run goes on")
		require.True(t, out.IsError)
		require.Equal(t, "wait did not end within 1m0s and was stopped", out.Content[0].Text)
		require.Equal(t, time.Minute, time.Since(began))

		cause := errors.New("the attempt must stop")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		_, err = set.Execute(ctx, ports.ToolInvocation{Name: "wait", Arguments: `{}`})
		require.ErrorIs(t, err, cause)
	})
}

func TestCall(t *testing.T) {
	ref := domain.SessionRef{Tenant: "t", Session: "s"}
	const raw = `{"n":9007199254740993,"f":1.5,"s":"x","y":true,"l":[1]}`
	var got toolset.Call
	set := toolset.New(
		toolset.Tool{Spec: ports.ToolSpec{Name: "b", Schema: anyObject}, Run: func(_ context.Context, c toolset.Call) (string, error) {
			got = c
			return "fine", nil
		}},
		toolset.Tool{Spec: ports.ToolSpec{Name: "a", Schema: anyObject}, Run: waiting},
	)
	out, err := set.Execute(t.Context(), ports.ToolInvocation{
		Ref: ref, ID: "c1", Name: "b", Arguments: raw,
	})
	require.NoError(t, err)
	require.False(t, out.IsError)
	require.Equal(t, []domain.Block{{Type: domain.TextBlock, Text: "fine"}}, out.Content)
	require.Equal(t, toolset.Call{Ref: ref, ID: "c1", Raw: raw, Args: toolset.Arguments{
		"n": int64(9007199254740993), "f": 1.5, "s": "x", "y": true, "l": []any{int64(1)},
	}}, got)
	require.Equal(t, "x", got.Args.Text("s"))
	require.True(t, got.Args.Flag("y"))
	require.Equal(t, int64(9007199254740993), got.Args.Integer("n"))
	require.Zero(t, got.Args.Integer("none"))
	require.Equal(t, int64(1000), toolset.Arguments{"n": 1e3}.Integer("n"), "a whole number, spelled otherwise")
	require.Equal(t, "a", set.Specs()[0].Name, "sorted by name")
}

func TestLimit(t *testing.T) {
	long := func(context.Context, toolset.Call) (string, error) { return "0123456789", nil }
	set := toolset.New(toolset.Tool{Spec: ports.ToolSpec{Name: "a", Schema: anyObject}, Limit: 4, Run: long})
	out, err := set.Execute(t.Context(), ports.ToolInvocation{ID: "c1", Name: "a", Arguments: `{}`})
	require.NoError(t, err)
	require.Equal(t, "0123\n[cut: the first 4 of 10 bytes]", out.Content[0].Text)
}

func TestSchema(t *testing.T) {
	_, err := toolset.Compile(`{"properties":{"a":{"$ref":"http://example.com/x"}}}`)
	require.Error(t, err, "no other document is read")
	schema, err := toolset.Compile(`{"type":"object","required":["a"]}`)
	require.NoError(t, err)
	args, err := schema.Parse("t", `{"a":1}`)
	require.NoError(t, err)
	require.Equal(t, toolset.Arguments{"a": int64(1)}, args)
	_, err = schema.Parse("t", `{}`)
	require.ErrorContains(t, err, `bad arguments: required: missing properties: ["a"]. The arguments of t must fit this JSON Schema: {`)
}

func TestBrokenSchema(t *testing.T) {
	require.PanicsWithValue(t, "toolset: the schema of a: unexpected end of JSON input", func() {
		toolset.New(toolset.Tool{Spec: ports.ToolSpec{Name: "a", Schema: `{`}})
	})
}

// What is no call of a tool of the set, or comes too late, runs nothing.
func TestWhatRunsNothing(t *testing.T) {
	set := toolset.New(toolset.Tool{Spec: ports.ToolSpec{Name: "a", Schema: anyObject}, Run: func(context.Context, toolset.Call) (string, error) {
		t.Error("it ran")
		return "", nil
	}})
	for _, c := range []struct{ name, arguments, says string }{
		{"b", `{}`, `there is no tool named "b"`},
		{"a", `[1]`, "bad arguments: "},
		{"a", `{"n":1,"n":2}`, "bad arguments: "},
		{"a", `{"n":1} {}`, "bad arguments: "},
		{"a", `{"n":{"l":[1e400]}}`, "the number 1e400 is out of range"},
	} {
		out, err := set.Execute(t.Context(), ports.ToolInvocation{Name: c.name, Arguments: c.arguments})
		require.NoError(t, err)
		require.True(t, out.IsError)
		require.Contains(t, out.Content[0].Text, c.says)
	}
	ended, end := context.WithCancelCause(t.Context())
	cause := errors.New("the attempt must stop")
	end(cause)
	_, err := set.Execute(ended, ports.ToolInvocation{Name: "a", Arguments: `{}`})
	require.ErrorIs(t, err, cause)
}

// A tool that is done when its time is over has not failed.
func TestDoneAtTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := toolset.New(toolset.Tool{Spec: ports.ToolSpec{Name: "a", Schema: anyObject}, Timeout: time.Minute, Run: func(context.Context, toolset.Call) (string, error) {
			time.Sleep(2 * time.Minute)
			return "done", nil
		}})
		out, err := set.Execute(t.Context(), ports.ToolInvocation{Name: "a", Arguments: `{}`})
		require.NoError(t, err)
		require.False(t, out.IsError)
		require.Equal(t, "done", out.Content[0].Text)
	})
}
