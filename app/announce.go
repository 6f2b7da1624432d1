package app

import (
	"fmt"
	"net"
	"os"
	"strings"
)

// announce tells people on standard output where the server is and how to begin.
func (c Config) announce(addr net.Addr) {
	url := "http://" + reachable(addr)
	auth := ""
	if c.Auth != authOff {
		auth = ` -H "Authorization: Bearer TOKEN"`
		if path, err := c.TokenPath(); err == nil && !strings.HasPrefix(c.Auth, authTokens) {
			auth = fmt.Sprintf(` -H "Authorization: Bearer $(cat '%s')"`, path)
		}
	}
	fmt.Fprintf(os.Stdout, `keel %[1]s is ready at %[2]s

Say something and watch the answer arrive in the ledger:

  curl -s%[3]s -H 'Content-Type: application/json' -d '{"id":"demo"}' %[2]s/v1/sessions
  curl -s%[3]s -H 'Content-Type: application/json' -d '{"text":"hello keel"}' %[2]s/v1/sessions/demo/input
  curl -sN%[3]s '%[2]s/v1/sessions/demo/events/stream?after=0&partials=1'

Stop with Ctrl-C: running attempts end or are handed back, and every stream says where to go on.
`, Version, url, auth)
}

// reachable returns the address to use on this machine: a listener on every interface is reached by the loopback one.
func reachable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr.String()
}
