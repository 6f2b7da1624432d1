package http

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/tools/declared"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// lookup is the environment of the tests.
func lookup(name string) (string, bool) {
	v, ok := map[string]string{"TOKEN": "s3cret", "CRLF": "a\r\nb"}[name]
	return v, ok
}

// vault holds the secrets of the tests, by tenant and name: "acme crm".
type vault map[string]string

func (v vault) Reveal(_ context.Context, tenant, name string) (ports.Confidential, error) {
	value, ok := v[tenant+" "+name]
	switch {
	case !ok:
		return ports.Confidential{}, domain.ErrNotFound
	case value == "away":
		return ports.Confidential{}, fmt.Errorf("%w: dial postgres://user:pass@db", ports.ErrUnavailable)
	case value == "broken":
		return ports.Confidential{}, errors.New("the secret was altered")
	}
	return ports.NewConfidential(value), nil
}

// outside stands for public addresses: loopback ones that a test's guard takes for public.
var outside = netip.MustParsePrefix("127.0.1.0/24")

// guard is the real guard, for which some loopback addresses are public.
func guard(ctx context.Context, network, address string, c syscall.RawConn) error {
	if to, err := netip.ParseAddrPort(address); err == nil && outside.Contains(to.Addr()) {
		return nil
	}
	return onlyPublic(ctx, network, address, c)
}

// declare makes tools of YAML.
func declare(t *testing.T, c Config, text string) *Tools {
	t.Helper()
	var file struct {
		Tools []Endpoint `yaml:"tools"`
	}
	require.NoError(t, declared.Decode([]byte(text), &file))
	c.Endpoints, c.Lookup, c.UserAgent = file.Tools, lookup, "keel-test"
	if c.control == nil {
		c.control = guard
	}
	tools, err := New(c)
	require.NoError(t, err)
	t.Cleanup(tools.Close)
	return tools
}

// serve starts a server at an address and returns its URL.
func serve(t *testing.T, ip string, h http.HandlerFunc) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", ip+":0")
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// call runs a tool and returns the text of its result.
func call(t *testing.T, tools ports.Tools, name, args string) (text string, isError bool) {
	t.Helper()
	return callOf(t, "", tools, name, args)
}

// callOf is call for a tenant.
func callOf(t *testing.T, tenant string, tools ports.Tools, name, args string) (text string, isError bool) {
	t.Helper()
	out, err := tools.Execute(t.Context(), ports.ToolInvocation{
		Ref: domain.SessionRef{Tenant: tenant, Session: "s"}, ID: "c1", Name: name, Arguments: args,
	})
	require.NoError(t, err)
	require.Len(t, out.Content, 1)
	return out.Content[0].Text, out.IsError
}

func port(t *testing.T, url string) string {
	t.Helper()
	return url[strings.LastIndexByte(url, ':'):]
}

// answering is a resolver for which every name has the address that answer returns at the time.
func answering(answer func() netip.Addr) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go dns(server, answer)
		return client, nil
	}}
}

// dns answers one query over a stream: the address to a question for one of its kind, nothing to others.
func dns(c net.Conn, answer func() netip.Addr) {
	defer func() { _ = c.Close() }()
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return
	}
	query := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c, query); err != nil {
		return
	}
	end := 12
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	question := query[12 : end+5]
	kind := binary.BigEndian.Uint16(query[end+1:])
	reply := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
	if kind == 1 {
		if ip := answer(); ip.Is4() {
			reply[7] = 1
			reply = append(append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4), ip.AsSlice()...)
		}
	}
	_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
}
