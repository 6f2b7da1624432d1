package mcp

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/ports"
)

// once makes every connection lead to one server.
func once(s *mcp.Server) func() *mcp.Server { return func() *mcp.Server { return s } }

// play runs a test in fake time with a server that lives in this process.
func play(t *testing.T, d Server, test func(t *testing.T, s *mcp.Server, tools *Tools)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newPeer()
		addPeerTools(s)
		tools := inMemory(t, d, once(s), nil)
		synctest.Wait()
		test(t, s, tools)
	})
}

func TestSilenceEndsACall(t *testing.T) {
	play(t, Server{Timeout: 10 * time.Second}, func(t *testing.T, _ *mcp.Server, tools *Tools) {
		began := time.Now()
		require.Contains(t, failure(t, tools, "s__wait", `{}`), "no sign of progress for 10s")
		require.Equal(t, 10*time.Second, time.Since(began))
		require.Equal(t, `{"text":"x"}`, said(t, tools, "s__echo", `{"text":"x"}`), "the connection is as good as before")
	})
}

func TestProgressKeepsACallAlive(t *testing.T) {
	play(t, Server{Timeout: 10 * time.Second, MaxTimeout: time.Minute}, func(t *testing.T, _ *mcp.Server, tools *Tools) {
		began := time.Now()
		require.Equal(t, "arrived", said(t, tools, "s__progress", `{"steps":6,"ms":9000}`))
		require.Equal(t, 54*time.Second, time.Since(began))

		began = time.Now()
		require.Contains(t, failure(t, tools, "s__progress", `{"steps":60,"ms":9000}`), "did not end within 1m0s")
		require.Equal(t, time.Minute, time.Since(began))

		began = time.Now()
		require.Contains(t, failure(t, tools, "s__progress", `{"steps":2,"ms":11000}`), "no sign of progress")
		require.Equal(t, 10*time.Second, time.Since(began))
	})
}

func TestCancellationIsToldToTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPeer()
		told := make(chan error, 1)
		add(s, "wait", `{"type":"object"}`, func(ctx context.Context, _ *mcp.CallToolRequest, _ map[string]any) (*mcp.CallToolResult, error) {
			<-ctx.Done()
			told <- ctx.Err()
			return nil, ctx.Err()
		})
		add(s, "stubborn", `{"type":"object"}`, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, error) {
			time.Sleep(time.Hour)
			return textResult("late"), nil
		})
		tools := inMemory(t, Server{}, once(s), nil)
		synctest.Wait()
		cause := errors.New("cancelled")
		for _, name := range []string{"s__wait", "s__stubborn"} {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			began := time.Now()
			_, err := tools.Execute(ctx, ports.ToolInvocation{ID: "c1", Name: name, Arguments: `{}`})
			require.ErrorIs(t, err, cause)
			require.Equal(t, time.Second, time.Since(began), "the call returns at once, whatever the server does")
		}
		require.ErrorIs(t, <-told, context.Canceled)
		time.Sleep(time.Hour) // the stubborn handler ends
	})
}

func TestChangedToolsAreListedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPeer()
		add(s, "one", `{"type":"object"}`, nil)
		tools := inMemory(t, Server{}, once(s), nil)
		require.Empty(t, tools.Specs(), "nothing waits for the list")
		tools.Load(t.Context(), "", []string{"time", "s__one", "other__x"})
		require.Equal(t, []string{"s__one"}, names(tools))
		add(s, "two", `{"type":"object"}`, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, error) {
			return textResult("second"), nil
		})
		s.RemoveTools("one")
		time.Sleep(time.Second)
		require.Equal(t, []string{"s__two"}, names(tools))
		require.Equal(t, "second", said(t, tools, "s__two", `{}`))
		require.Contains(t, failure(t, tools, "s__one", `{}`), "no tool named")
	})
}

func TestOnlyAllowedToolsAreOffered(t *testing.T) {
	play(t, Server{Tools: []string{"echo", "pid", "missing"}, ReplaySafe: []string{"pid"}}, func(t *testing.T, _ *mcp.Server, tools *Tools) {
		require.Equal(t, []string{"s__echo", "s__pid"}, names(tools))
		require.False(t, tools.Specs()[0].ReplaySafe)
		require.True(t, tools.Specs()[1].ReplaySafe)
		require.Contains(t, failure(t, tools, "s__die", `{}`), "no tool named")
	})
}

func TestReadOnlyIsBelievedOnRequest(t *testing.T) {
	for _, trust := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newPeer()
			for name, hints := range map[string]*mcp.ToolAnnotations{
				"reads": {ReadOnlyHint: true}, "idempotent": {IdempotentHint: true}, "silent": nil,
			} {
				s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}, Annotations: hints}, nil)
			}
			tools := inMemory(t, Server{TrustReadOnly: trust}, once(s), nil)
			synctest.Wait()
			safe := map[string]bool{}
			for _, spec := range tools.Specs() {
				safe[spec.Name] = spec.ReplaySafe
			}
			require.Equal(t, map[string]bool{"s__reads": trust, "s__idempotent": false, "s__silent": false}, safe)
		})
	}
}

func TestAServerThatIsAwayIsTriedEverMoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door := &door{closed: true}
		s := newPeer()
		addPeerTools(s)
		tools := inMemory(t, Server{}, once(s), door.refuses)
		time.Sleep(10 * time.Minute)
		tries := door.set(true)
		require.Empty(t, tools.Specs())
		require.Greater(t, len(tries), 12)
		require.Less(t, len(tries), 30)
		for i := 1; i < len(tries); i++ {
			pause := tries[i].Sub(tries[i-1])
			require.GreaterOrEqual(t, pause, min(shortestPause<<(i-1), longestPause)/2)
			require.LessOrEqual(t, pause, longestPause)
		}
		door.set(false)
		time.Sleep(longestPause)
		require.Contains(t, names(tools), "s__echo")
	})
}

func TestACallIsReasonForAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door := new(door)
		s := newPeer()
		addPeerTools(s)
		tools := inMemory(t, Server{}, once(s), door.refuses)
		synctest.Wait()
		door.set(true)
		for session := range s.Sessions() {
			require.NoError(t, session.Close())
		}
		time.Sleep(10 * time.Minute) // attempts are rare by now
		door.set(true)
		began := time.Now()
		text := failure(t, tools, "s__echo", `{"text":"x"}`)
		require.Contains(t, text, "refused")
		require.Contains(t, text, "the call was not made")
		require.LessOrEqual(t, time.Since(began), shortestPause)
		require.Len(t, door.set(false), 1)
		require.Equal(t, `{"text":"x"}`, said(t, tools, "s__echo", `{"text":"x"}`))
		require.LessOrEqual(t, time.Since(began), 2*shortestPause)
	})
}

func TestALazyServerIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door := new(door)
		s := newPeer()
		addPeerTools(s)
		tools := inMemory(t, Server{Startup: lazy}, once(s), door.refuses)
		connected := func() bool {
			tools.servers["s"].mu.Lock()
			defer tools.servers["s"].mu.Unlock()
			return tools.servers["s"].conn != nil
		}
		synctest.Wait()
		require.True(t, connected(), "it is listed at start")
		time.Sleep(2 * lazyIdle)
		require.False(t, connected())
		require.Contains(t, names(tools), "s__echo")
		time.Sleep(time.Hour)
		require.Len(t, door.set(false), 1)
		require.Equal(t, `{"text":"x"}`, said(t, tools, "s__echo", `{"text":"x"}`))
		require.Len(t, door.set(false), 1)
		require.Equal(t, "arrived", said(t, tools, "s__progress", `{"steps":10,"ms":30000}`), "a long call is use")
		require.Empty(t, door.set(false))
		time.Sleep(2 * lazyIdle)
		require.False(t, connected())
	})
}

func TestRefusalsOfTheServerAreResults(t *testing.T) {
	play(t, Server{}, func(t *testing.T, s *mcp.Server, tools *Tools) {
		add(s, "refuses", `{"type":"object"}`, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, error) {
			return nil, errors.New("no such city")
		})
		s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				if r, ok := req.(*mcp.CallToolRequest); ok && r.Params.Name == "env" {
					return nil, fmt.Errorf("boom")
				}
				return next(ctx, method, req)
			}
		})
		time.Sleep(time.Second)
		require.Contains(t, failure(t, tools, "s__refuses", `{}`), "no such city")
		require.Contains(t, failure(t, tools, "s__env", `{}`), "boom")
		require.Equal(t, `{"text":"x"}`, said(t, tools, "s__echo", `{"text":"x"}`))
	})
}

func TestACallAfterTheEndFailsAtOnce(t *testing.T) {
	play(t, Server{}, func(t *testing.T, _ *mcp.Server, tools *Tools) {
		closeSoon(t, tools)
		require.Contains(t, failure(t, tools, "s__echo", `{"text":"x"}`), errClosed.Error())
	})
}

func TestSpecsAreWhatBackendsAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPeer()
		for _, tool := range []*mcp.Tool{
			{Name: "plain", InputSchema: map[string]any{"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}},
			{Name: "titled", Title: "A Title", InputSchema: map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "string"}}}},
			{Name: "remote", InputSchema: map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"$ref": "http://example.com/x"}}}},
		} {
			s.AddTool(tool, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return textResult("ok"), nil })
		}
		tools := inMemory(t, Server{}, once(s), nil)
		synctest.Wait()
		require.Equal(t, []ports.ToolSpec{
			{Name: "s__plain", Description: "plain", Schema: `{"properties":{},"type":"object"}`},
			{Name: "s__remote", Description: "remote", Schema: `{"properties":{"a":{"$ref":"http://example.com/x"}},"type":"object"}`},
			{Name: "s__titled", Description: "A Title", Schema: `{"properties":{"a":{"type":"string"}},"type":"object"}`},
		}, tools.Specs())
		require.Equal(t, "ok", said(t, tools, "s__remote", `{"a":1}`), "what cannot be judged here is judged by the server")
		require.Contains(t, failure(t, tools, "s__remote", `{"a":1,"a":2}`), "bad arguments")
	})
	for _, bad := range []any{"text", []any{}, map[string]any{"type": "array"}, map[string]any{"properties": 1}} {
		_, err := schemaText(bad, nil)
		require.Error(t, err, "%v", bad)
	}
	text, err := schemaText(nil, nil)
	require.NoError(t, err)
	require.Equal(t, `{"properties":{},"type":"object"}`, text)
}
