package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// crm has tools that need a secret of the tenant, and quotes it wherever it can.
type crm struct {
	*httptest.Server
	names []string

	mu   sync.Mutex
	keys []string
}

func newCRM(t *testing.T) *crm {
	c := &crm{names: []string{"crm_echo", "crm_fault", "crm_long"}}
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
	case "/crm_fault":
		http.Error(w, "no such key: "+said, http.StatusForbidden)
	case "/crm_long":
		_, _ = fmt.Fprint(w, said, strings.Repeat("x", 1024-len(said)-len(key)/2), key)
	default:
		_, _ = fmt.Fprint(w, said)
	}
}

// endpoints declares the tools in a file.
func (c *crm) endpoints(t *testing.T) string {
	text := "tools:\n"
	for _, name := range c.names {
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
