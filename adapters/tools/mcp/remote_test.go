package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/ports"
)

// remotePeer serves the tools of a peer over HTTP behind a handler that may interfere, and returns its URL.
func remotePeer(t *testing.T, o *mcp.StreamableHTTPOptions, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	s := newPeer()
	addPeerTools(s)
	return serveRemote(t, s, o, wrap)
}

func serveRemote(t *testing.T, s *mcp.Server, o *mcp.StreamableHTTPOptions, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	h := http.Handler(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, o))
	if wrap != nil {
		h = wrap(h)
	}
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		for session := range s.Sessions() {
			_ = session.Close()
		}
	})
	return server.URL
}

func TestRemoteServers(t *testing.T) {
	for name, o := range map[string]*mcp.StreamableHTTPOptions{
		"sessions": nil, "without sessions": {Stateless: true}, "plain JSON": {JSONResponse: true},
	} {
		t.Run(name, func(t *testing.T) {
			tools, _ := run(t, Server{URL: remotePeer(t, o, nil), Timeout: deadline})
			require.Equal(t, `{"text":"é"}`, said(t, tools, "s__echo", `{"text":"é"}`))
			ctx, cancel := context.WithCancel(t.Context())
			result := make(chan error, 1)
			go func() {
				_, err := tools.Execute(ctx, ports.ToolInvocation{ID: "c1", Name: "s__wait", Arguments: `{}`})
				result <- err
			}()
			cancel()
			require.ErrorIs(t, <-result, context.Canceled)
			require.Equal(t, `{"text":"y"}`, said(t, tools, "s__echo", `{"text":"y"}`))
		})
	}
}

func TestDeclaredHeadersAreSentToTheDeclaredServerAlone(t *testing.T) {
	t.Setenv("MCP_TOKEN", "s3cret")
	var strangers, without atomic.Int32
	stranger := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strangers.Add(1) }))
	t.Cleanup(stranger.Close)
	var away atomic.Bool
	url := remotePeer(t, nil, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer s3cret" {
				without.Add(1)
			}
			if away.Load() {
				http.Redirect(w, r, stranger.URL, http.StatusTemporaryRedirect)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	tools, logs := run(t, Server{URL: url, Headers: map[string]string{"authorization": "Bearer ${MCP_TOKEN}"}})
	require.Equal(t, `{"text":"x"}`, said(t, tools, "s__echo", `{"text":"x"}`))
	away.Store(true)
	require.Contains(t, failure(t, tools, "s__echo", `{"text":"x"}`), "the server redirects")
	require.Zero(t, strangers.Load())
	require.Zero(t, without.Load())
	for _, entry := range logs.All() {
		require.NotContains(t, fmt.Sprint(entry.Message, entry.ContextMap()), "s3cret")
	}
}

// Some servers answer a session that they forgot with 400 and an error of their own instead of 404. What they name as the
// request's id may be none.
func TestAForgottenSessionIsReplaced(t *testing.T) {
	for id, status := range map[string]int{"": http.StatusNotFound, "null": http.StatusBadRequest, `"server-error"`: http.StatusBadRequest} {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no such session"}}`, id)
		var forgotten atomic.Value
		forgotten.Store("")
		var session atomic.Value
		session.Store("")
		url := remotePeer(t, nil, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				id := r.Header.Get("Mcp-Session-Id")
				switch {
				case r.Method == http.MethodGet:
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				case strings.Contains(peek(r), "server/discover"):
					w.WriteHeader(http.StatusBadRequest)
					return
				case id != "" && id == forgotten.Load():
					w.WriteHeader(status)
					_, _ = io.WriteString(w, body)
					return
				case id != "":
					session.Store(id)
				}
				next.ServeHTTP(w, r)
			})
		})
		tools, _ := run(t, Server{URL: url})
		require.Equal(t, `{"text":"x"}`, said(t, tools, "s__echo", `{"text":"x"}`))
		forgotten.Store(session.Load())
		failure(t, tools, "s__echo", `{"text":"x"}`)
		eventually(t, "a new session", func() bool { return !execute(t, tools, "s__echo", `{"text":"x"}`).IsError })
	}
}

// peek returns the body of a request, which can be read again.
func peek(r *http.Request) string {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	return string(body)
}

func TestARemoteServerThatNeverAnswers(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		url := remotePeer(t, nil, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(peek(r), "server/discover") && method != http.MethodPost {
					w.WriteHeader(http.StatusBadRequest)
					return
				}
				if r.Method == method {
					<-r.Context().Done()
					return
				}
				next.ServeHTTP(w, r)
			})
		})
		tools, _ := run(t, Server{URL: url, Connect: 200 * time.Millisecond})
		require.Equal(t, method == http.MethodDelete, len(tools.Specs()) > 0, method)
		closeSoon(t, tools)
	}
}

func TestAnAnswerThatIsTooLong(t *testing.T) {
	var huge atomic.Bool
	url := remotePeer(t, &mcp.StreamableHTTPOptions{JSONResponse: true}, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var call struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
			}
			if json.Unmarshal([]byte(peek(r)), &call) == nil && call.Method == "tools/call" && huge.Load() {
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, call.ID)
				block := strings.Repeat("x", 1<<20)
				for range largestMessage>>20 + 1 {
					_, _ = io.WriteString(w, block)
				}
				_, _ = io.WriteString(w, `"}]}}`)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	tools, _ := run(t, Server{URL: url})
	huge.Store(true)
	require.Contains(t, failure(t, tools, "s__echo", `{"text":"x"}`), "failed")
	huge.Store(false)
	require.Equal(t, `{"text":"x"}`, said(t, tools, "s__echo", `{"text":"x"}`))
}

func TestAPassingFaultCostsOneCall(t *testing.T) {
	var faulty atomic.Bool
	url := remotePeer(t, nil, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(peek(r), "tools/call") && faulty.CompareAndSwap(true, false) {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	tools, logs := run(t, Server{URL: url})
	faulty.Store(true)
	require.Contains(t, failure(t, tools, "s__echo", `{"text":"x"}`), "Service Unavailable")
	require.Equal(t, `{"text":"x"}`, said(t, tools, "s__echo", `{"text":"x"}`))
	require.Equal(t, 1, logs.FilterMessage("connected").Len(), "the session is as good as before")
}
