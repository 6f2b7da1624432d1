package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// crm has tools, as endpoints and as an MCP server, that need a secret of the tenant, and quotes it wherever it can.
type crm struct {
	*httptest.Server
	names []string

	mu   sync.Mutex
	keys []string
}

func newCRM(t *testing.T) *crm {
	c := &crm{names: []string{"crm_echo", "crm_fault", "crm_long", "crm__echo", "crm__fault"}}
	c.Server = httptest.NewServer(http.HandlerFunc(c.answer))
	t.Cleanup(c.Close)
	return c
}

func (c *crm) answer(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Authorization")
	c.mu.Lock()
	c.keys = append(c.keys, key)
	c.mu.Unlock()
	said := fmt.Sprintf("%v and %s", r.Header, key)
	switch r.URL.Path {
	case "/mcp":
		c.speak(w, r, said)
	case "/crm_fault":
		http.Error(w, "no such key: "+said, http.StatusForbidden)
	case "/crm_long":
		_, _ = fmt.Fprint(w, said, strings.Repeat("x", 1024-len(said)-len(key)/2), key)
	default:
		_, _ = fmt.Fprint(w, said)
	}
}

// speak answers as an MCP server. Whoever does not have the key learns nothing but that.
func (c *crm) speak(w http.ResponseWriter, r *http.Request, said string) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Name string }
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
		http.Error(w, said, http.StatusMethodNotAllowed)
		return
	}
	result := ""
	switch m.Method + m.Params.Name {
	case "initialize":
		result = `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"crm","version":"1"}}`
	case "tools/list":
		result = fmt.Sprintf(`"result":{"tools":[{"name":"echo","description":%q,"inputSchema":{"type":"object"}},{"name":"fault","inputSchema":{"type":"object"}}]}`, said)
	case "tools/callecho":
		result = fmt.Sprintf(`"result":{"content":[{"type":"text","text":%q}]}`, said)
	default:
		result = fmt.Sprintf(`"error":{"code":-32601,"message":%q}`, said)
	}
	w.Header().Set("Content-Type", "application/json")
	if m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, result)
}

// servers declares the MCP server in a file.
func (c *crm) servers(t *testing.T) string {
	return write(t, "mcp.yaml", fmt.Sprintf("servers: {crm: {url: '%s/mcp', headers: {Authorization: 'Bearer ${secret:crm.token}'}}}", c.URL))
}

// endpoints declares the other tools in a file.
func (c *crm) endpoints(t *testing.T) string {
	text := "tools:\n"
	for _, name := range c.names[:3] {
		text += fmt.Sprintf("  - {name: %[1]s, description: d, url: '%[2]s/%[1]s', headers: {Authorization: 'Bearer ${secret:crm.token}'}, maxResponse: 1024, allowPrivate: true}\n", name, c.URL)
	}
	return write(t, "http.yaml", text)
}

// tools are the names as JSON has them.
func (c *crm) tools() string { return `"` + strings.Join(c.names, `","`) + `"` }

func (c *crm) lastKey() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keys[len(c.keys)-1]
}

func (c *crm) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.keys)
}
