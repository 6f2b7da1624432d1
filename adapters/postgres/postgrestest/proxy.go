package postgrestest

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy stands between a store and its server, and spoils what passes when it is told to. What it knows a message by is
// the text of a statement, which goes along with each execution only where the store's URL says default_query_exec_mode=exec.
type Proxy struct {
	t        testing.TB
	listener net.Listener
	server   string

	delay  atomic.Int64 // nanoseconds that each piece waits, either way
	rate   atomic.Int64 // bytes per second and direction; 0 is any
	frozen atomic.Bool
	pooler atomic.Bool

	mu    sync.Mutex
	links map[*link]struct{}
	gate  chan struct{} // new connections wait until it is closed
	trap  *Trap         // nil while not armed
	every *everySecond
}

// Trap is one reply that is going to be lost.
type Trap struct {
	Done    chan struct{} // closed when the server has replied
	Release chan struct{} // to be closed when the connection may break
	text    []byte
}

type everySecond struct {
	texts      [][]byte
	seen, lost int
}

// link is one connection on its way.
type link struct {
	client, server *net.TCPConn
	dead           atomic.Bool // bytes get lost, and neither side hears of the other's end
	caught         atomic.Pointer[Trap]
}

// NewProxy returns a proxy that lives as long as the test, and the URL u through it.
func NewProxy(t testing.TB, u string) (p *Proxy, through string) {
	t.Helper()
	parsed, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p = &Proxy{t: t, listener: l, server: parsed.Host, links: map[*link]struct{}{}, gate: make(chan struct{})}
	close(p.gate)
	go p.accept()
	t.Cleanup(func() {
		_ = l.Close()
		p.Heal()
		p.Cut()
	})
	parsed.Host = l.Addr().String()
	return p, parsed.String()
}

// Lose loses the reply to the next message with a text, and the connection as soon as the server has replied: the server
// has done the work, the store never hears of it. The test fails when there is no such message.
func (p *Proxy) Lose(text string) *Trap {
	tr := p.Hold(text)
	close(tr.Release)
	return tr
}

// Hold is Lose, but the connection breaks only when the test closes Release.
func (p *Proxy) Hold(text string) *Trap {
	tr := &Trap{Done: make(chan struct{}), Release: make(chan struct{}), text: []byte(text)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = tr
	p.t.Cleanup(func() {
		select {
		case <-tr.Done:
		default:
			p.t.Errorf("no statement with %q was sent", text)
		}
	})
	return tr
}

// LoseEverySecond does as Lose for every second message with one of the texts. lost tells how often it did.
func (p *Proxy) LoseEverySecond(texts ...string) (lost func() int) {
	every := &everySecond{}
	for _, text := range texts {
		every.texts = append(every.texts, []byte(text))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.every = every
	return func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return every.lost
	}
}

// Slow lets each piece wait, either way.
func (p *Proxy) Slow(d time.Duration) { p.delay.Store(int64(d)) }

// Narrow lets so many bytes pass in a second, either way.
func (p *Proxy) Narrow(rate int64) { p.rate.Store(rate) }

// Freeze passes nothing on to the store until it is called with false, and closes nothing.
func (p *Proxy) Freeze(frozen bool) { p.frozen.Store(frozen) }

// Pool makes up process ids, as a pooler does.
func (p *Proxy) Pool() { p.pooler.Store(true) }

// Cut resets all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		_ = l.client.SetLinger(0)
		_ = l.server.SetLinger(0)
		l.close()
	}
}

// Shut lets new connections wait until Heal.
func (p *Proxy) Shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate = make(chan struct{})
}

// Forget makes all present connections half open for ever, as a router that forgot them does.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.dead.Store(true)
	}
}

// Heal ends what Slow, Narrow, Freeze and Shut began.
func (p *Proxy) Heal() {
	p.Slow(0)
	p.Narrow(0)
	p.Freeze(false)
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.gate:
	default:
		close(p.gate)
	}
}

// Links is how many connections pass.
func (p *Proxy) Links() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		gate := p.gate
		p.mu.Unlock()
		go p.join(client.(*net.TCPConn), gate)
	}
}

func (p *Proxy) join(client *net.TCPConn, gate <-chan struct{}) {
	<-gate
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.server)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, server: server.(*net.TCPConn)}
	p.mu.Lock()
	p.links[l] = struct{}{}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pass(l, l.client, l.server, p.asked) })
	both.Go(func() { p.pass(l, l.server, l.client, p.replied) })
	both.Wait()
	l.close()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// pass moves bytes one way until one side ends, or look says so.
func (p *Proxy) pass(l *link, from, to net.Conn, look func(*link, []byte) bool) {
	b := make([]byte, 1<<20)
	for {
		n, err := from.Read(b)
		time.Sleep(time.Duration(p.delay.Load()))
		if rate := p.rate.Load(); rate > 0 {
			time.Sleep(time.Duration(n) * time.Second / time.Duration(rate))
		}
		if !look(l, b[:n]) {
			l.close()
			return
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

// asked looks at what the store sends.
func (p *Proxy) asked(l *link, b []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trap != nil && bytes.Contains(b, p.trap.text) {
		l.caught.Store(p.trap)
		p.trap = nil
	}
	if p.every != nil && p.every.catches(b) {
		tr := &Trap{Done: make(chan struct{}), Release: make(chan struct{})}
		close(tr.Release)
		l.caught.Store(tr)
	}
	return true
}

func (e *everySecond) catches(b []byte) bool {
	for _, text := range e.texts {
		if !bytes.Contains(b, text) {
			continue
		}
		if e.seen++; e.seen%2 == 0 {
			e.lost++
			return true
		}
	}
	return false
}

// replied looks at what the server sends; it returns false when that is lost.
func (p *Proxy) replied(l *link, b []byte) bool {
	for p.frozen.Load() {
		time.Sleep(time.Millisecond)
	}
	if tr := l.caught.Load(); tr != nil && len(b) > 0 {
		close(tr.Done)
		<-tr.Release
		return false
	}
	if key := bytes.Index(b, []byte("K\x00\x00\x00\x0c")); p.pooler.Load() && key >= 0 {
		b[key+8] ^= 1
	}
	return true
}
