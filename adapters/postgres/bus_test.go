package postgres_test

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
	"github.com/keel-agent/keel/ports/portstest"
)

// busName marks the connections of the buses under test.
var busName = "bus-" + rand.Text()

// openBus opens a bus that lives as long as the test.
func openBus(t testing.TB) *postgres.Bus {
	t.Helper()
	b, err := postgres.OpenBus(postgres.BusConfig{URL: postgrestest.With(t, postgrestest.Server(t), "application_name", busName)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func awaits(t testing.TB, wake <-chan struct{}) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(10 * time.Second):
		t.Fatal("nobody was woken")
	}
}

// connected waits until the bus listens: it wakes everybody then, beside the wake-up of a new subscription.
func connected(t testing.TB, b *postgres.Bus) {
	t.Helper()
	topic := ports.Topic{Process: "probe"}
	wake, cancel := b.Subscribe(topic)
	defer cancel()
	awaits(t, wake)
	other := openBus(t)
	for range 1000 {
		other.Committed(ports.Commit{Wake: domain.Wake{Owner: "probe"}})
		select {
		case <-wake:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatal("the bus does not listen")
}

func TestBusWithinTheProcess(t *testing.T) {
	portstest.TestWakeups(t, func(t *testing.T) portstest.Wakeups {
		b := openBus(t)
		connected(t, b)
		return portstest.Wakeups{Wakeups: b, Notifier: b}
	})
}

func TestBusAcrossProcesses(t *testing.T) {
	portstest.TestWakeups(t, func(t *testing.T) portstest.Wakeups {
		here, there := openBus(t), openBus(t)
		connected(t, there)
		return portstest.Wakeups{Wakeups: there, Notifier: here, Reconnect: func(t *testing.T) { breakAll(t) }}
	})
}

// breakAll ends the connections of every bus.
func breakAll(t *testing.T) {
	postgrestest.Exec(t, postgrestest.Server(t), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '"+busName+"'")
}

func TestBusCarriesManyTopics(t *testing.T) {
	here, there := openBus(t), openBus(t)
	connected(t, there)
	var wakes []<-chan struct{}
	for i := range 2_000 {
		wake, cancel := there.Subscribe(ports.Topic{Process: fmt.Sprint("p", i)})
		defer cancel()
		awaits(t, wake)
		wakes = append(wakes, wake)
	}
	for i := range 10_000 { // more than the outbox holds
		here.Committed(ports.Commit{Wake: domain.Wake{Owner: fmt.Sprint("p", i)}})
	}
	for _, wake := range wakes {
		awaits(t, wake)
	}
}

// K39: what was to be sent while the connections were broken is sent when they are back.
func TestBusReconnects(t *testing.T) {
	here, there := openBus(t), openBus(t)
	connected(t, there)
	wake, cancel := there.Subscribe(ports.Topic{Process: "p"})
	defer cancel()
	awaits(t, wake)
	for range 3 {
		breakAll(t)
		awaits(t, wake) // everybody is woken when the bus listens again
		here.Committed(ports.Commit{Wake: domain.Wake{Owner: "p"}})
		awaits(t, wake)
	}
}

// The server is away when the bus starts; nobody waits for it.
func TestBusStartsWithoutAServer(t *testing.T) {
	parsed, err := url.Parse(postgrestest.Server(t))
	if err != nil {
		t.Fatal(err)
	}
	parsed.Host = "127.0.0.1:1"
	b, err := postgres.OpenBus(postgres.BusConfig{URL: parsed.String()})
	if err != nil {
		t.Fatal(err)
	}
	wake, cancel := b.Subscribe(ports.QueueTopic)
	awaits(t, wake)
	b.Committed(ports.Commit{Wake: domain.Wake{Queue: true}})
	awaits(t, wake)
	cancel()
	cancel()
	b.Close()
}
