package mcp

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// remote is the way to a server at a URL: one HTTP client per connection, whose sockets can be cut. It is a transport of
// the SDK, and keeps the connection that the SDK has of it: only that ends the SDK's attempts to take up a stream again.
type remote struct {
	url  string
	http *http.Client
	base *http.Transport

	alive context.Context // ends with cut
	end   context.CancelFunc

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	inner mcp.Connection // nil before Connect
}

func newRemote(url string, header http.Header) *remote {
	r := &remote{url: url, conns: map[net.Conn]struct{}{}}
	r.alive, r.end = context.WithCancel(context.Background())
	r.base = http.DefaultTransport.(*http.Transport).Clone()
	r.base.DialContext = r.dial
	r.base.MaxResponseHeaderBytes = 64 << 10
	r.http = &http.Client{Transport: withHeaders{r.base, header}, CheckRedirect: refuseRedirect}
	return r
}

// Connect begins to speak streamable HTTP. A stream that breaks is taken up again a few times before the session is
// lost.
func (r *remote) Connect(ctx context.Context) (mcp.Connection, error) {
	t := &mcp.StreamableClientTransport{Endpoint: r.url, HTTPClient: r.http, MaxRetries: 3, MaxEventSize: largestMessage}
	inner, err := t.Connect(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inner = inner
	return inner, err
}

const dialTimeout = 10 * time.Second

var errCut = errors.New("the connection was given up")

func (r *remote) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	defer context.AfterFunc(r.alive, cancel)()
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.alive.Err() != nil {
		_ = c.Close()
		return nil, errCut
	}
	tracked := &trackedConn{Conn: c, of: r}
	r.conns[tracked] = struct{}{}
	return tracked, nil
}

// cut ends every request of the connection at once, whatever the server does.
func (r *remote) cut() {
	r.end()
	r.mu.Lock()
	conns := r.conns
	r.conns = map[net.Conn]struct{}{}
	inner := r.inner
	r.mu.Unlock()
	for c := range conns {
		_ = c.Close()
	}
	r.base.CloseIdleConnections()
	if inner != nil {
		_ = inner.Close()
	}
}

type trackedConn struct {
	net.Conn

	of *remote
}

func (c *trackedConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// refuseRedirect keeps the declared headers with the declared server.
func refuseRedirect(*http.Request, []*http.Request) error {
	return errors.New("the server redirects; declare the URL where it is")
}

// withHeaders adds the declared headers, and bounds answers that are one message.
type withHeaders struct {
	base   http.RoundTripper
	header http.Header
}

func (w withHeaders) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	maps.Copy(req.Header, w.header)
	if host := w.header.Get("Host"); host != "" {
		req.Host = host
	}
	res, err := w.base.RoundTrip(req)
	if err == nil && !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		res.Body = &bounded{ReadCloser: res.Body, left: largestMessage}
	}
	return res, err
}

// bounded fails a body that is longer than a message may be.
type bounded struct {
	io.ReadCloser

	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errors.New("the message is too long")
	}
	return n, err
}
