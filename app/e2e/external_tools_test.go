package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
)

// shellServer is an MCP server in shell. Its tool greet greets, and its tool die ends it.
const shellServer = `#!/bin/sh
echo $$ > "$PIDFILE"
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
  *'"name":"die"'*) exit 1;;
  *'"method":"tools/call"'*) result='{"content":[{"type":"text","text":"hello from a shell"}]}';;
  *'"method":"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}';;
  *'"method":"tools/list"'*) result='{"tools":[{"name":"greet","description":"Greets.","inputSchema":{"type":"object"}},{"name":"die","inputSchema":{"type":"object"}}]}';;
  *'"method":"notifications/'*) continue;;
  *) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}\n' "$id"; continue;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
`

// calling is an answer that calls one tool.
func calling(name, arguments string) openaitest.Response {
	return openaitest.Stream(openaitest.CallHead(0, "c1", name), openaitest.CallArguments(0, arguments), openaitest.Finish("tool_calls"))
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A server offers what MCP servers and declared endpoints can do. One that dies costs a call, not the run, and none
// outlives the server.
func TestToolsFromOutside(t *testing.T) {
	t.Parallel()
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s", r.URL, r.Header.Get("X-Key"))
	}))
	t.Cleanup(endpoint.Close)
	pidFile := filepath.Join(t.TempDir(), "pid")
	servers := write(t, "mcp.yaml", fmt.Sprintf(
		"servers: {shell: {command: sh, args: [%q], env: {PIDFILE: %q}}}", write(t, "server.sh", shellServer), pidFile))
	tools := write(t, "http.yaml", fmt.Sprintf(`tools:
  - {name: near, description: Near., url: '%[1]s/{a}', headers: {X-Key: '${NEAR_KEY}'}, allowPrivate: true, arguments: {properties: {a: {type: string}}, required: [a]}}
  - {name: far, description: Far., url: '%[1]s/x'}`, endpoint.URL))

	b := openaitest.Start(t)
	p := serve(t, newStore(t, "sqlite"), []string{"OPENAI_BASE_URL=" + b.URL(), "OPENAI_API_KEY=sk-test", "OPENAI_MODEL=m", "NEAR_KEY=s3cret"},
		"--provider", "openai", "--mcp", servers, "--http-tools", tools)
	b.Push(calling("shell__greet", `{}`), calling("shell__die", `{}`), calling("shell__greet", `{}`), calling("near", `{"a":"b c"}`),
		calling("near", `{"a":1}`), calling("far", `{}`), answered("enough"))
	p.create(`{"id":"s1","tools":["shell__greet","shell__die","near","far"]}`)
	p.input("s1", `{"text":"go","requestId":"r1"}`)
	tells(t, p.rested("s1"),
		"input go",
		"[1] tool_use: shell__greet{}", "result 1: hello from a shell",
		"[1] tool_use: shell__die{}", "result 2 error: the connection to the server shell failed during the call, whose outcome is unknown…",
		"[1] tool_use: shell__greet{}", "result 3: hello from a shell",
		`[1] tool_use: near{"a":"b c"}`, "result 4: HTTP 200 OK", "content-type: text/plain; charset=utf-8", "", "/b%20c s3cret",
		`[1] tool_use: near{"a":1}`, "result 5 error: bad arguments: validating /properties/a…",
		"[1] tool_use: far{}", "result 6 error: "+strings.TrimPrefix(endpoint.URL, "http://")+" could not be reached…",
		"[1] end_turn: enough", "done end_turn",
	)
	require.NotContains(t, p.logs.String(), "s3cret")
	text, err := os.ReadFile(pidFile)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	require.True(t, alive(pid))
	began := time.Now()
	p.stop()
	require.Less(t, time.Since(began), 10*time.Second)
	require.False(t, alive(pid), "an MCP server outlives the server")
}
