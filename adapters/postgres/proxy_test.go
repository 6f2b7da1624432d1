package postgres_test

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
)

// proxy stands between a store and the server. When armed, it carries the next message that contains a text on to the
// server and loses the reply: the server has done the work, the store never hears of it. The store's connections must
// send statements as text (default_query_exec_mode=exec).
type proxy struct {
	t        testing.TB
	listener net.Listener
	server   string
	pooler   bool        // makes up process ids, as a pooler does
	frozen   atomic.Bool // passes nothing on to the store, and closes nothing

	mu     sync.Mutex
	needle []byte // nil while not armed
	trap   *trap
}

// trap is one reply to be lost.
type trap struct {
	done    chan struct{} // closed when the server has replied
	release chan struct{} // closed when the connection may break
}

// newProxy returns a proxy that lives as long as the test, and the URL that leads through it.
func newProxy(t testing.TB, u string) (p *proxy, through string) {
	t.Helper()
	parsed, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p = &proxy{t: t, listener: l, server: parsed.Host}
	t.Cleanup(func() { _ = l.Close() })
	go p.accept()
	parsed.Host = l.Addr().String()
	return p, postgrestest.With(t, parsed.String(), "default_query_exec_mode", "exec")
}

// lose arms the proxy; the connection breaks as soon as the server has replied.
func (p *proxy) lose(text string) *trap {
	tr := p.hold(text)
	close(tr.release)
	return tr
}

// hold arms the proxy; the connection breaks when the test closes release.
func (p *proxy) hold(text string) *trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	tr := &trap{done: make(chan struct{}), release: make(chan struct{})}
	p.needle, p.trap = []byte(text), tr
	p.t.Cleanup(func() {
		select {
		case <-tr.done:
		default:
			p.t.Errorf("no statement with %q was sent", text)
		}
	})
	return tr
}

// sprung returns the trap if it is armed and b is its message, and disarms it.
func (p *proxy) sprung(b []byte) *trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.needle == nil || !bytes.Contains(b, p.needle) {
		return nil
	}
	p.needle = nil
	return p.trap
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			return
		}
		go p.carry(client, server)
	}
}

// carry moves bytes both ways until one side ends.
func (p *proxy) carry(client, server net.Conn) {
	var mu sync.Mutex
	var caught *trap
	go func() {
		defer func() { _ = server.Close() }()
		b := make([]byte, 1<<20)
		for {
			n, err := client.Read(b)
			if tr := p.sprung(b[:n]); tr != nil {
				mu.Lock()
				caught = tr
				mu.Unlock()
			}
			if _, werr := server.Write(b[:n]); err != nil || werr != nil {
				return
			}
		}
	}()
	defer func() { _ = client.Close() }()
	b := make([]byte, 1<<16)
	for {
		n, err := server.Read(b)
		for p.frozen.Load() {
			time.Sleep(time.Millisecond)
		}
		mu.Lock()
		tr := caught
		mu.Unlock()
		if tr != nil && n > 0 {
			close(tr.done)
			<-tr.release
			return
		}
		if key := bytes.Index(b[:n], []byte("K\x00\x00\x00\x0c")); p.pooler && key >= 0 {
			b[key+8] ^= 1
		}
		if _, werr := client.Write(b[:n]); err != nil || werr != nil {
			return
		}
	}
}
