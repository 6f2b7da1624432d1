package e2e

import (
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// faulty passes connections on to a server, and spoils them when it is told to. The zero value of each fault is none.
type faulty struct {
	listener net.Listener
	server   string
	delay    atomic.Int64 // nanoseconds that each piece waits, either way
	rate     atomic.Int64 // bytes per second and direction

	mu    sync.Mutex
	links map[*link]struct{}
	gate  chan struct{} // new connections wait until it is closed
}

// link is one connection on its way.
type link struct {
	client, server *net.TCPConn
	dead           atomic.Bool // bytes get lost, and neither side hears of the other's end
}

// newFaulty returns a proxy that lives as long as the test, and the URL of the store through it.
func newFaulty(t *testing.T, store string) (f *faulty, through string) {
	t.Helper()
	u, err := url.Parse(store)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f = &faulty{listener: l, server: u.Host, links: map[*link]struct{}{}, gate: make(chan struct{})}
	close(f.gate)
	go f.accept()
	t.Cleanup(func() {
		_ = l.Close()
		f.heal()
		f.cut()
	})
	u.Host = l.Addr().String()
	return f, u.String()
}

// cut resets all connections.
func (f *faulty) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for l := range f.links {
		_ = l.client.SetLinger(0)
		_ = l.server.SetLinger(0)
		l.close()
	}
}

// hold lets new connections wait.
func (f *faulty) hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gate = make(chan struct{})
}

// lose makes all present connections half open for ever, as a router that forgot them does.
func (f *faulty) lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for l := range f.links {
		l.dead.Store(true)
	}
}

// heal ends all faults; connections that were lost stay so.
func (f *faulty) heal() {
	f.delay.Store(0)
	f.rate.Store(0)
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.gate:
	default:
		close(f.gate)
	}
}

func (f *faulty) accept() {
	for {
		client, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		gate := f.gate
		f.mu.Unlock()
		go f.join(client.(*net.TCPConn), gate)
	}
}

func (f *faulty) join(client *net.TCPConn, gate <-chan struct{}) {
	<-gate
	server, err := net.Dial("tcp", f.server)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, server: server.(*net.TCPConn)}
	f.mu.Lock()
	f.links[l] = struct{}{}
	f.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { f.pass(l, l.client, l.server) })
	both.Go(func() { f.pass(l, l.server, l.client) })
	both.Wait()
	l.close()
	f.mu.Lock()
	delete(f.links, l)
	f.mu.Unlock()
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// pass moves bytes one way until one side ends.
func (f *faulty) pass(l *link, from, to net.Conn) {
	b := make([]byte, 1<<15)
	for {
		n, err := from.Read(b)
		time.Sleep(time.Duration(f.delay.Load()))
		if rate := f.rate.Load(); rate > 0 {
			time.Sleep(time.Duration(n) * time.Second / time.Duration(rate))
		}
		if !l.dead.Load() {
			if _, werr := to.Write(b[:n]); err != nil || werr != nil {
				l.close()
			}
		}
		if err != nil {
			return
		}
	}
}
