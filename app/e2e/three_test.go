package e2e

import (
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// threeProcesses is a Postgres store with as many processes on it. What a client does next meets another one of them.
const threeProcesses = "three processes"

// crowded holds the --store values of such stores.
var crowded sync.Map

// serveThree starts three servers that share a store, and stands in for them: each request goes to the next one.
func serveThree(t *testing.T, store string, env []string, flags ...string) *process {
	t.Helper()
	first := serveOne(t, store, env, flags...)
	first.peers = []*process{serveOne(t, store, env, flags...), serveOne(t, store, env, flags...)}
	var targets []*url.URL
	for _, p := range append(first.peers, first) {
		target, err := url.Parse(p.url)
		require.NoError(t, err)
		targets = append(targets, target)
	}
	var turn atomic.Uint64
	front := httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(targets[turn.Add(1)%uint64(len(targets))])
		},
	})
	t.Cleanup(front.Close)
	first.url = strings.TrimSuffix(front.URL, "/")
	return first
}
