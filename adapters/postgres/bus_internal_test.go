package postgres

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keel-agent/keel/adapters/bus"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// K39: a payload never reaches the server's limit, whatever the ids and however many.
func TestPayloadsAreBounded(t *testing.T) {
	waiting := map[bus.Digest]struct{}{}
	for i := range bus.MaxWaiting {
		ref := domain.SessionRef{Tenant: strings.Repeat("t", 4_000), Session: fmt.Sprint(i)}
		id := bus.DigestOf(ports.Topic{Session: ref})
		if len(id) != bus.DigestLength {
			t.Fatalf("digest %q", id)
		}
		waiting[id] = struct{}{}
	}
	if len(waiting) != bus.MaxWaiting {
		t.Fatalf("%d topics have %d tokens", bus.MaxWaiting, len(waiting))
	}
	left := len(waiting)
	for _, p := range payloads(newSelf()+":", waiting) {
		if len(p) > maxPayload {
			t.Errorf("a payload of %d bytes", len(p))
		}
		_, tokens, _ := strings.Cut(p, ":")
		for ; tokens != ""; tokens = tokens[bus.DigestLength:] {
			if _, ok := waiting[bus.Digest(tokens[:bus.DigestLength])]; !ok {
				t.Fatalf("token %q was not waiting", tokens[:bus.DigestLength])
			}
			left--
		}
	}
	if left != 0 {
		t.Errorf("%d tokens were left out", left)
	}
	if p := payloads("self", nil); len(p) != 0 {
		t.Errorf("payloads of nothing: %q", p)
	}
}

func server(t *testing.T) string {
	t.Helper()
	u := os.Getenv("KEEL_TEST_POSTGRES_URL")
	if u == "" {
		t.Fatal("KEEL_TEST_POSTGRES_URL is not set: `make test` (or scripts/with-postgres.sh COMMAND) provides a server")
	}
	return u
}

// deafConn stops hearing the other side, without any error, once deaf is set.
type deafConn struct {
	net.Conn
	deaf *atomic.Bool
}

func (c deafConn) Read(b []byte) (int, error) {
	for {
		if n, err := c.Conn.Read(b); err != nil || !c.deaf.Load() {
			return n, err
		}
	}
}

// K39: a connection that went silent without an error is found out and replaced, and everybody looks again.
func TestSilentConnectionIsReplaced(t *testing.T) {
	u := server(t)
	b, err := newBus(BusConfig{URL: u})
	if err != nil {
		t.Fatal(err)
	}
	b.pingEvery, b.pingTimeout = 50*time.Millisecond, 200*time.Millisecond
	var deaf atomic.Pointer[atomic.Bool] // of the connections dialled now
	deaf.Store(new(atomic.Bool))
	dialled := make(chan struct{}, 100)
	b.conn.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		dialled <- struct{}{}
		return deafConn{c, deaf.Load()}, err
	}
	b.start()
	defer b.Close()
	other, err := OpenBus(BusConfig{URL: u})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	wake, cancel := b.Subscribe(ports.Topic{Process: "p"})
	defer cancel()
	hears := func() {
		t.Helper()
		<-wake // armed, or everybody was woken
		for range 1000 {
			other.Committed(ports.Commit{Wake: domain.Wake{Owner: "p"}})
			select {
			case <-wake:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
		t.Fatal("the bus does not hear of the others' commits")
	}
	<-dialled
	<-dialled
	hears()
	deaf.Swap(new(atomic.Bool)).Store(true)
	<-dialled // the listener has given its connection up
	hears()
}
