package http

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// errNotPublic refuses a connection.
var errNotPublic = errors.New("the address is not public, and the tool is declared without allowPrivate")

// special are the blocks that are global unicast by their form, yet lead to no public host.
var special = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

var (
	globalV6 = netip.MustParsePrefix("2000::/3")
	nat64    = netip.MustParsePrefix("64:ff9b::/96") // an IPv4 address in its last four bytes
)

func prefixes(list ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, p := range list {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

// public reports whether an address leads to a host of the public network: not to this machine, its neighbours, a
// cloud's metadata service, nor through a tunnel that hides one of them.
func public(ip netip.Addr) bool {
	ip = ip.Unmap()
	if nat64.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.Zone() != "" {
		return false
	}
	for _, p := range special {
		if p.Contains(ip) {
			return false
		}
	}
	return ip.Is4() || globalV6.Contains(ip)
}

// onlyPublic refuses to connect to an address that is not public. It sees the address that is dialled, after every
// resolution, so a name that answers differently the second time gains nothing.
func onlyPublic(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !public(to.Addr()) {
		return fmt.Errorf("connecting to %s: %w", address, errNotPublic)
	}
	return nil
}

type dialControl = func(ctx context.Context, network, address string, c syscall.RawConn) error

// newTransport returns a transport that uses no proxy, since a proxy would dial in its place.
func newTransport(control dialControl, resolver *net.Resolver) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, ControlContext: control, Resolver: resolver}
	return &http.Transport{
		Proxy: nil, DialContext: dialer.DialContext, ForceAttemptHTTP2: true, MaxIdleConns: 16, MaxIdleConnsPerHost: 4,
		IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10,
	}
}

const maxRedirects = 5

// redirects judges redirects. Another origin gets the common headers alone, none of those that are declared, and no
// address that this one was reached by; a request that may have effects never follows there.
func redirects(common http.Header) func(req *http.Request, via []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		first := via[0]
		sameOrigin := req.URL.Scheme == first.URL.Scheme && req.URL.Host == first.URL.Host
		switch {
		case len(via) > maxRedirects:
			return fmt.Errorf("more than %d redirects", maxRedirects)
		case req.URL.Scheme != "http" && req.URL.Scheme != "https":
			return fmt.Errorf("a redirect to the scheme %q", req.URL.Scheme)
		case via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme == "http":
			return errors.New("a redirect from https to http")
		case !sameOrigin && !safe(first.Method):
			return fmt.Errorf("a redirect of a %s to another host", first.Method)
		}
		req.Header.Del("Referer")
		if !sameOrigin {
			req.Header = common.Clone()
			req.URL.User = nil
		}
		return nil
	}
}
