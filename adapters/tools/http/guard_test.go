package http

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPublicAddresses(t *testing.T) {
	for text, want := range map[string]bool{
		"93.184.216.34": true, "8.8.8.8": true, "172.15.0.1": true, "172.32.0.1": true, "100.63.255.255": true, "192.0.1.1": true, "223.255.255.254": true,
		"2606:2800:220:1::1": true, "2a00:1450::1": true, "::ffff:8.8.8.8": true, "64:ff9b::808:808": true,

		"127.0.0.1": false, "127.255.255.254": false, "0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false, "172.16.0.1": false, "172.31.255.255": false,
		"192.168.1.1": false, "169.254.169.254": false, "169.254.170.2": false, "100.64.0.1": false, "100.100.100.200": false, "192.0.0.192": false,
		"192.0.2.1": false, "198.18.0.1": false, "198.51.100.1": false, "203.0.113.1": false, "224.0.0.1": false, "239.255.255.250": false, "240.0.0.1": false,
		"255.255.255.255": false, "192.88.99.1": false,
		"::1": false, "::": false, "::127.0.0.1": false, "::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "::ffff:10.0.0.1": false,
		"fe80::1": false, "fe80::1%eth0": false, "fc00::1": false, "fd00:ec2::254": false, "fec0::1": false, "ff02::1": false, "2001:db8::1": false,
		"2001::1": false, "2002:7f00:1::": false, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::1": false, "100::1": false, "3fff::1": false,
		"2606:2800:220:1::1%eth0": false, "4000::1": false,
	} {
		ip, err := netip.ParseAddr(text)
		require.NoError(t, err)
		require.Equal(t, want, public(ip), text)
	}
	for _, address := range []string{"", "localhost:80", "127.0.0.1", "/run/socket", "[::1]:80"} {
		require.ErrorIs(t, onlyPublic(t.Context(), "tcp", address, nil), errNotPublic, address)
	}
	require.NoError(t, onlyPublic(t.Context(), "tcp", "[2606:2800:220:1::1]:443", nil))
}

func TestPrivateAddressesAreRefused(t *testing.T) {
	var hits atomic.Int32
	hit := func(http.ResponseWriter, *http.Request) { hits.Add(1) }
	p := port(t, serve(t, "127.0.0.1", hit))
	to := netip.MustParseAddr("127.0.0.1") // what a resolver that reads old forms of addresses makes of them
	for _, host := range []string{
		"127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
		"0.0.0.0", "0", "[::]", "internal.example.com", "127.0.0.1.nip.example", "１２７.0.0.1",
	} {
		tools := declare(t, Config{resolver: answering(func() netip.Addr { return to })}, fmt.Sprintf(
			"tools: [{name: get, description: d, url: 'http://%s%s/'}]", host, p))
		text, isError := call(t, tools, "get", `{}`)
		require.True(t, isError, "%s: %s", host, text)
		require.Contains(t, text, "could not be reached", host)
	}
	require.Zero(t, hits.Load())

	tools := declare(t, Config{}, fmt.Sprintf("tools: [{name: get, description: d, url: 'http://127.0.0.1%s/', allowPrivate: true}]", p))
	_, isError := call(t, tools, "get", `{}`)
	require.False(t, isError, "the declaration allows it")
	require.EqualValues(t, 1, hits.Load())
}

// A connection that a trusted tool opened is no way around the guard.
func TestConnectionsAreNotShared(t *testing.T) {
	var hits atomic.Int32
	u := serve(t, "127.0.0.1", func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	tools := declare(t, Config{}, fmt.Sprintf(`tools:
  - {name: trusted, description: d, url: '%s/', allowPrivate: true}
  - {name: guarded, description: d, url: '%s/'}`, u, u))
	_, isError := call(t, tools, "trusted", `{}`)
	require.False(t, isError)
	text, isError := call(t, tools, "guarded", `{}`)
	require.True(t, isError)
	require.Contains(t, text, errNotPublic.Error())
	require.EqualValues(t, 1, hits.Load())
}

func TestRebindingGainsNothing(t *testing.T) {
	var outer, inner atomic.Int32
	u := serve(t, "127.0.1.1", func(w http.ResponseWriter, _ *http.Request) { outer.Add(1); w.Header().Set("Connection", "close") })
	p := port(t, u)
	internal, err := listenAt(t, "127.0.0.1"+p)
	require.NoError(t, err)
	s := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inner.Add(1) })}
	go func() { _ = s.Serve(internal) }()
	t.Cleanup(func() { _ = s.Close() })

	var rebound atomic.Bool
	tools := declare(t, Config{resolver: answering(func() netip.Addr {
		if rebound.Load() {
			return netip.MustParseAddr("127.0.0.1")
		}
		return netip.MustParseAddr("127.0.1.1")
	})}, fmt.Sprintf("tools: [{name: get, description: d, url: 'http://attacker.example%s/'}]", p))
	text, isError := call(t, tools, "get", `{}`)
	require.False(t, isError, text)
	rebound.Store(true)
	text, isError = call(t, tools, "get", `{}`)
	require.True(t, isError)
	require.Contains(t, text, errNotPublic.Error())
	require.EqualValues(t, 1, outer.Load())
	require.Zero(t, inner.Load())
}

func TestRedirects(t *testing.T) {
	seen := make(chan http.Header, 20)
	var hits atomic.Int32
	record := func(_ http.ResponseWriter, r *http.Request) { hits.Add(1); seen <- r.Header }
	other := serve(t, "127.0.1.2", record)
	inner := serve(t, "127.0.0.1", record)
	var here string
	here = serve(t, "127.0.1.1", func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		target, code := "", http.StatusFound
		switch r.URL.Path {
		case "/same":
			target = here + "/end"
		case "/307":
			target, code = here+"/end", http.StatusTemporaryRedirect
		case "/307other":
			target, code = other, http.StatusTemporaryRedirect
		case "/other":
			target = other
		case "/inner":
			target = inner
		case "/metadata":
			target = "http://169.254.169.254/latest/meta-data/"
		case "/loop":
			target = here + "/loop"
		case "/file":
			target = "file:///etc/passwd"
		case "/gopher":
			target = "gopher://127.0.0.1/"
		default:
			seen <- r.Header
			return
		}
		http.Redirect(w, r, target, code)
	})
	tools := declare(t, Config{Vault: vault{" key": "s3cret-of-the-tenant"}}, fmt.Sprintf(`tools:
  - name: get
    description: d
    url: '%s/{where}?key=${TOKEN}'
    headers: {Authorization: 'Bearer ${TOKEN}', X-Api-Key: '${TOKEN}', Cookie: 'c=${TOKEN}', Accept: 'text/${TOKEN}', X-Tenant: '${secret:key}'}
    arguments: {properties: {where: {type: string}}, required: [where]}
  - name: post
    description: d
    method: POST
    url: '%s/{where}'
    headers: {X-Api-Key: '${TOKEN}'}
    arguments: {properties: {where: {type: string}, what: {type: string}}, required: [where]}`, here, here))

	text, isError := call(t, tools, "get", `{"where":"same"}`)
	require.False(t, isError, text)
	h := <-seen
	require.Equal(t, "Bearer s3cret", h.Get("Authorization"), "the same origin is as trusted as before")
	require.Equal(t, "s3cret-of-the-tenant", h.Get("X-Tenant"))

	text, isError = call(t, tools, "get", `{"where":"other"}`)
	require.False(t, isError, text)
	h = <-seen
	require.Equal(t, "keel-test", h.Get("User-Agent"))
	require.NotContains(t, fmt.Sprint(h), "s3cret")
	require.Empty(t, h.Get("Referer"))

	text, isError = call(t, tools, "post", `{"where":"307","what":"x"}`)
	require.False(t, isError, text)
	require.Equal(t, "s3cret", (<-seen).Get("X-Api-Key"))

	for where, want := range map[string]string{
		"inner": "not public", "metadata": "not public", "loop": "redirects", "file": `"file"`, "gopher": `"gopher"`,
	} {
		text, isError = call(t, tools, "get", fmt.Sprintf(`{"where":%q}`, where))
		require.True(t, isError, where)
		require.Contains(t, text, want, where)
		require.NotContains(t, text, "s3cret")
	}
	text, isError = call(t, tools, "post", `{"where":"307other","what":"x"}`)
	require.True(t, isError)
	require.Contains(t, text, "to another host")
	require.Empty(t, seen)
	require.Less(t, hits.Load(), int32(40), "a loop ends")
}

func TestRedirectsToLessSecurity(t *testing.T) {
	request := func(u string) *http.Request {
		parsed, err := url.Parse(u)
		require.NoError(t, err)
		return &http.Request{Method: http.MethodGet, URL: parsed, Header: http.Header{"X-Api-Key": {"s3cret"}}}
	}
	redirect := redirects(http.Header{})
	first := request("https://api.example.com/a")
	require.ErrorContains(t, redirect(request("http://api.example.com/b"), []*http.Request{first}), "https to http")
	require.NoError(t, redirect(request("https://api.example.com/b"), []*http.Request{first}))
	for _, to := range []string{"https://example.com/", "https://x.api.example.com/", "https://api.example.com:8443/", "https://u:p@evil.example/"} {
		req := request(to)
		require.NoError(t, redirect(req, []*http.Request{first}))
		require.Empty(t, req.Header.Get("X-Api-Key"), to)
		require.Nil(t, req.URL.User, to)
	}
}

func TestNoProxyIsUsed(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:1")
		t.Setenv(strings.ToLower(name), "http://127.0.0.1:1")
	}
	require.Nil(t, newTransport(onlyPublic, nil).Proxy)
}
