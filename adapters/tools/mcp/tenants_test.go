package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// vault holds the secrets named key of the tests, by tenant.
type vault struct {
	mu   sync.Mutex
	keys map[string]string
}

func (v *vault) Reveal(_ context.Context, tenant, name string) (ports.Confidential, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	value, ok := v.keys[tenant]
	if !ok || name != "key" {
		return ports.Confidential{}, domain.ErrNotFound
	}
	return ports.NewConfidential(value), nil
}

func (v *vault) put(tenant, value string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keys[tenant] = value
}

// accounts is a remote server that knows its callers by their keys.
type accounts struct {
	t    *testing.T
	peer *mcp.Server
	url  string
	shut atomic.Bool

	mu   sync.Mutex
	keys map[string]string // by session
}

func newAccounts(t *testing.T) *accounts {
	a := &accounts{t: t, peer: newPeer(), keys: map[string]string{}}
	told := func(req *mcp.CallToolRequest) string { return req.Extra.Header.Get("Authorization") }
	add(a.peer, "who", `{"type":"object"}`, func(_ context.Context, req *mcp.CallToolRequest, _ map[string]any) (*mcp.CallToolResult, error) {
		return textResult(strings.ToUpper(told(req))), nil
	})
	add(a.peer, "echo", `{"type":"object"}`, func(_ context.Context, req *mcp.CallToolRequest, _ map[string]any) (*mcp.CallToolResult, error) {
		r := textResult("you are " + told(req))
		r.Content = append(r.Content, &mcp.ResourceLink{URI: "x:" + told(req), Name: told(req)},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "y:" + told(req), Text: told(req)}},
			&mcp.AudioContent{MIMEType: told(req), Data: []byte("x")})
		return r, nil
	})
	add(a.peer, "structured", `{"type":"object"}`, func(_ context.Context, req *mcp.CallToolRequest, _ map[string]any) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{StructuredContent: map[string]any{"you": told(req)}}, nil
	})
	add(a.peer, "fault", `{"type":"object"}`, func(_ context.Context, req *mcp.CallToolRequest, _ map[string]any) (*mcp.CallToolResult, error) {
		return nil, errors.New("not you, " + told(req))
	})
	a.url = serveRemote(t, a.peer, nil, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			key := r.Header.Get("Authorization")
			if a.shut.Load() {
				http.Error(w, "go away, "+key, http.StatusForbidden)
				return
			}
			a.seen(r.Header.Get("Mcp-Session-Id"), key)
			next.ServeHTTP(w, r)
		})
	})
	return a
}

// seen fails when a session had another key before.
func (a *accounts) seen(session, key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if had, ok := a.keys[session]; ok && session != "" && had != key {
		a.t.Errorf("the session of %s is used with %s", had, key)
	}
	a.keys[session] = key
}

func (a *accounts) server() Server {
	return Server{URL: a.url, Headers: map[string]string{"Authorization": "Bearer ${secret:key}"}, Timeout: deadline}
}

// open is how many sessions the server has. One that was never initialized is none: the server makes it for the question
// by which clients begin to speak the newest protocol, and ends it some time after it refused that.
func (a *accounts) open() (n int) {
	for session := range a.peer.Sessions() {
		if session.InitializeParams() != nil {
			n++
		}
	}
	return n
}

func requireNothing(t *testing.T, logs *observer.ObservedLogs, secret string) {
	t.Helper()
	for _, entry := range logs.All() {
		require.NotContains(t, fmt.Sprint(entry.Message, entry.ContextMap()), secret)
	}
}

func whoFor(t *testing.T, tenant string, tools *Tools) string {
	t.Helper()
	out := executeFor(t, tenant, tools, "s__who", `{}`)
	require.False(t, out.IsError, "%v", out.Content)
	return out.Content[0].Text
}

func TestEachTenantHasItsOwnConnection(t *testing.T) {
	a := newAccounts(t)
	v := &vault{keys: map[string]string{"one": "first-key", "two": "second-key"}}
	tools, logs := runWith(t, a.server(), v)
	require.Empty(t, tools.Specs(), "nobody's list is everybody's")
	require.True(t, tools.MayHave(t.Context(), "one", "s__who"))
	var all sync.WaitGroup
	for range 8 {
		for tenant, want := range map[string]string{"one": "BEARER FIRST-KEY", "two": "BEARER SECOND-KEY"} {
			all.Go(func() {
				specs := tools.Load(t.Context(), tenant, []string{"s__who", "s__none", "other__x", "time"})
				if len(specs) != 1 || specs[0].Name != "s__who" || specs[0].Description != "the tool who" {
					t.Errorf("%v", specs)
				}
				if got := whoFor(t, tenant, tools); got != want {
					t.Errorf("%s is %s", tenant, got)
				}
			})
		}
	}
	all.Wait()
	require.Equal(t, 2, a.open())
	require.Equal(t, []string{"s__echo", "s__fault", "s__structured", "s__who"}, tools.Known(t.Context(), "one"))
	require.False(t, tools.MayHave(t.Context(), "one", "s__whoo"))
	require.True(t, tools.MayHave(t.Context(), "three", "s__whoo"), "what others see says nothing of a tenant's own")
	require.Empty(t, tools.Known(t.Context(), "three"))
	v.put("one", "third-key")
	require.True(t, tools.MayHave(t.Context(), "one", "s__whoo"), "nor what was seen with another secret")
	v.put("one", "first-key")
	require.Equal(t, 2, logs.FilterMessage("connected").Len())
	require.Contains(t, executeFor(t, "one", tools, "s__none", `{}`).Content[0].Text, "no tool named")
	requireNothing(t, logs, "-key")
}

// A secret that was changed holds for the next call. What is under way ends with the old one, whose connection then ends.
func TestAChangedSecretReplacesTheConnection(t *testing.T) {
	a := newAccounts(t)
	under, goOn := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(release)
	add(a.peer, "slow", `{"type":"object"}`, func(_ context.Context, req *mcp.CallToolRequest, _ map[string]any) (*mcp.CallToolResult, error) {
		close(under)
		<-goOn
		return textResult(strings.ToUpper(req.Extra.Header.Get("Authorization"))), nil
	})
	v := &vault{keys: map[string]string{"one": "old-key"}}
	tools, _ := runWith(t, a.server(), v)
	require.Equal(t, "BEARER OLD-KEY", whoFor(t, "one", tools))
	slow := make(chan ports.ToolOutput, 1)
	go func() { slow <- executeFor(t, "one", tools, "s__slow", `{}`) }()
	<-under
	v.put("one", "new-key")
	require.Equal(t, "BEARER NEW-KEY", whoFor(t, "one", tools))
	require.Equal(t, 2, a.open())
	release()
	require.Equal(t, "BEARER OLD-KEY", (<-slow).Content[0].Text)
	eventually(t, "the old connection ends", func() bool { return a.open() == 1 })
	v.put("one", "newer-key")
	require.Equal(t, "BEARER NEWER-KEY", whoFor(t, "one", tools))
	eventually(t, "an unused connection ends at once", func() bool { return a.open() == 1 })
}

func TestATenantWithoutTheSecret(t *testing.T) {
	a := newAccounts(t)
	v := &vault{keys: map[string]string{"two": "second-key"}}
	tools, _ := runWith(t, a.server(), v)
	const why = `the tenant has no secret named "key", which this tool needs`
	specs := tools.Load(t.Context(), "one", []string{"s__who", "s__a b", "time"})
	require.Equal(t, []ports.ToolSpec{{
		Name: "s__who", Description: "Cannot be used for now: " + why, Schema: `{"type":"object","properties":{}}`,
	}}, specs)
	out := executeFor(t, "one", tools, "s__who", `{"q":1}`)
	require.True(t, out.IsError)
	require.Equal(t, why, out.Content[0].Text)
	require.Zero(t, a.open())
	v.put("one", "first-key")
	require.Equal(t, "the tool who", tools.Load(t.Context(), "one", []string{"s__who"})[0].Description)
	require.Equal(t, "BEARER FIRST-KEY", whoFor(t, "one", tools))
	v.put("one", "\n")
	require.Contains(t, executeFor(t, "one", tools, "s__who", `{}`).Content[0].Text, `the secret "key" of the tenant is blank`)
}

func TestServersDoNotTellTheSecret(t *testing.T) {
	a := newAccounts(t)
	a.peer.AddTool(&mcp.Tool{Name: "canary", Description: "for canary-key", InputSchema: map[string]any{"type": "object", "description": "canary-key"}},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, nil })
	tools, logs := runWith(t, a.server(), &vault{keys: map[string]string{"one": "canary-key"}})
	for _, name := range []string{"s__echo", "s__structured", "s__fault"} {
		out := executeFor(t, "one", tools, name, `{}`)
		require.Equal(t, name == "s__fault", out.IsError)
		require.Contains(t, fmt.Sprint(out.Content), "Bearer [redacted]")
		require.NotContains(t, fmt.Sprint(out.Content), "canary-key")
	}
	spec := tools.Load(t.Context(), "one", []string{"s__canary"})[0]
	require.Contains(t, spec.Schema, "[redacted]")
	require.NotContains(t, fmt.Sprint(spec), "canary-key")
	a.shut.Store(true)
	out := executeFor(t, "one", tools, "s__echo", `{}`)
	require.True(t, out.IsError)
	require.NotContains(t, out.Content[0].Text, "canary-key")
	eventually(t, "the connection is given up", func() bool { return logs.FilterMessage("not connected").Len() > 0 })
	requireNothing(t, logs, "canary-key")
}

// A transport may quote what a server said to it.
func TestFaultsOfConnectionsDoNotTellTheSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tools, logs := runWith(t, withKey, &vault{keys: map[string]string{"one": "canary-key"}})
		create := tools.tenants["s"].create
		tools.tenants["s"].create = func(h http.Header, tenant string) *server {
			s := create(h, tenant)
			s.open = func() (link, error) { return link{}, fmt.Errorf("refused: %v", h) }
			return s
		}
		require.Contains(t, executeFor(t, "one", tools, "s__who", `{}`).Content[0].Text, "the server s cannot be reached")
		synctest.Wait()
		require.Equal(t, "refused: map[X:[[redacted]]]", logs.FilterMessage("not connected").All()[0].ContextMap()["error"])
		requireNothing(t, logs, "canary-key")
	})
}

// withKey is a server that needs the tenant's key.
var withKey = Server{URL: "http://h", Headers: map[string]string{"X": "${secret:key}"}}

// inMemoryFor lets the tenants' servers s live in this process. Connections fail while refuse returns true.
func inMemoryFor(tools *Tools, refuse func() bool) *tenants {
	own := tools.tenants["s"]
	create := own.create
	own.create = func(h http.Header, tenant string) *server {
		s := create(h, tenant)
		s.open = func() (link, error) {
			if refuse() {
				return link{}, io.ErrUnexpectedEOF
			}
			peer := newPeer()
			addPeerTools(peer)
			return linkTo(peer)
		}
		return s
	}
	return own
}

func TestACallUnderWayOutlivesAChangedSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door, v := new(door), &vault{keys: map[string]string{"one": "old"}}
		tools, _ := runWith(t, withKey, v)
		inMemoryFor(tools, door.refuses)
		result := make(chan ports.ToolOutput, 1)
		go func() { result <- executeFor(t, "one", tools, "s__progress", `{"steps":10,"ms":30000}`) }()
		time.Sleep(time.Second)
		v.put("one", "new")
		require.False(t, executeFor(t, "one", tools, "s__echo", `{"text":"x"}`).IsError)
		require.Len(t, door.set(false), 2)
		require.Equal(t, "arrived", (<-result).Content[0].Text)
	})
}

// What nobody uses any more is let go, whether it was connected or not, and costs nothing.
func TestConnectionsOfTenantsAreLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door := new(door)
		tools, _ := runWith(t, withKey, &vault{keys: map[string]string{"one": "1", "two": "2"}})
		own := inMemoryFor(tools, door.refuses)
		owners := func() int {
			own.mu.Lock()
			defer own.mu.Unlock()
			return len(own.own)
		}
		for _, tenant := range []string{"one", "two"} {
			require.False(t, executeFor(t, tenant, tools, "s__echo", `{"text":"x"}`).IsError)
		}
		require.Equal(t, 2, owners())
		time.Sleep(lazyIdle / 2)
		require.Len(t, tools.Load(t.Context(), "two", []string{"s__echo"}), 1)
		time.Sleep(lazyIdle/2 + lazyIdle/4)
		require.Equal(t, 1, owners(), "who was asked for lately stays")
		time.Sleep(2 * lazyIdle)
		require.Zero(t, owners())
		require.Len(t, door.set(true), 2)

		require.True(t, executeFor(t, "one", tools, "s__echo", `{"text":"x"}`).IsError)
		time.Sleep(lazyIdle)
		require.NotEmpty(t, door.set(true), "a server that is away is tried again")
		time.Sleep(2 * longestPause)
		require.Zero(t, owners())
		door.set(true)
		time.Sleep(time.Hour)
		require.Empty(t, door.set(false))
		require.False(t, executeFor(t, "one", tools, "s__echo", `{"text":"x"}`).IsError)
	})
}

func TestSecretsOfTenantsInDeclarations(t *testing.T) {
	for text, want := range map[string]string{
		"{url: 'http://h', headers: {A: 'Bearer ${secret:key}'}}": "server s: headers: A: ${secret:key}: the server keeps no secrets of tenants",
		"{command: x, env: {A: '${secret:key}'}}":                 "server s: env: A: ${secret:key}: a secret of the tenant can be in headers alone",
		"{command: x, headers: {A: '${secret:key}'}}":             "headers: belong to a url",
	} {
		servers, err := load(t, "servers: {s: "+text+"}")
		require.NoError(t, err)
		_, err = New(Config{Servers: servers, Lookup: func(string) (string, bool) { return "", false }})
		require.ErrorContains(t, err, want)
	}
}
