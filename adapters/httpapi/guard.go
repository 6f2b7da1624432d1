package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/keel-agent/keel/domain"
)

// Paths that anyone may ask without a token; the two probes also under any host name.
const (
	indexPath  = "/"
	healthPath = "/healthz"
	readyPath  = "/readyz"
)

// crossOrigin tells writes from pages of another origin.
var crossOrigin = http.NewCrossOriginProtection()

// guard refuses what a web page of another site can make a browser send: requests under a foreign host name (DNS
// rebinding) and cross-origin writes. A query that cannot be parsed is refused too, lest a cursor in it be ignored. It
// reports whether r may go on; if not, it has answered.
func (a *api) guard(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != healthPath && r.URL.Path != readyPath && !a.hostAllowed(r.Host) {
		writeProblem(w, problem{Code: codeHostNotAllowed, Detail: "this server does not answer to the host name of the request; the operator can allow it with --allowed-hosts"})
		return false
	}
	if crossOrigin.Check(r) != nil {
		writeProblem(w, problem{Code: codeCrossOrigin, Detail: "writes from pages of another origin are refused"})
		return false
	}
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
		writeProblem(w, problem{Code: domain.ErrInvalidRequest.Code, Detail: "the query string is malformed"})
		return false
	}
	return true
}

func (a *api) hostAllowed(host string) bool {
	if slices.Contains(a.AllowedHosts, "*") {
		return true
	}
	name := hostname(host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	if addr, err := netip.ParseAddr(name); err == nil && addr.IsLoopback() {
		return true
	}
	return slices.ContainsFunc(a.AllowedHosts, func(allowed string) bool { return name != "" && hostname(allowed) == name })
}

// hostname returns a Host header without port, brackets, final dot and case.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
