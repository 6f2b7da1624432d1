package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
	"github.com/keel-agent/keel/ports/portstest"
)

var talked = domain.SessionRef{Tenant: "t", Session: "talked"}

func saying(text string) ports.Partial {
	return ports.Partial{Ref: talked, GenerationID: text, Epoch: 1, Delta: ports.Delta{Text: text}}
}

// way is the way of partials from one bus to another one.
func way(from, to *postgres.Bus) portstest.Across {
	return portstest.Across{From: from.Partials(), To: to.Partials(), Ready: func(t *testing.T, ref domain.SessionRef) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); !from.Wanted(ref); {
			if time.Now().After(deadline) {
				t.Fatal("the bus does not hear what the other one wants")
			}
			time.Sleep(time.Millisecond)
		}
	}}
}

func TestPartialsWithinTheProcess(t *testing.T) {
	portstest.TestPartials(t, func(t *testing.T) ports.Partials { return openBus(t).Partials() })
}

func TestPartialsAcrossProcesses(t *testing.T) {
	portstest.TestPartialsAcross(t, func(t *testing.T) portstest.Across { return way(openBus(t), openBus(t)) })
}

func TestPartialsOfFencedProcesses(t *testing.T) {
	reader := openBus(t)
	portstest.TestPartialsFenced(t, way(openBus(t), reader), way(openBus(t), reader))
}

// arrives publishes until the subscriber hears it.
func arrives(t *testing.T, from *postgres.Bus, frames <-chan ports.Partial) {
	t.Helper()
	for i := range 1000 {
		from.Partials().Publish(saying(fmt.Sprint(i)))
		select {
		case <-frames:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatal("no frame came")
}

// Whoever starts, or was not connected when others said what they want, asks them.
func TestPartialsReachLateAndBrokenProcesses(t *testing.T) {
	there := openBus(t)
	frames, cancel := there.Partials().Subscribe(talked)
	defer cancel()
	connected(t, there)
	here := openBus(t)
	arrives(t, here, frames)
	for range 2 {
		breakAll(t)
		way(here, there).Ready(t, talked)
		arrives(t, here, frames)
	}
	late := openBus(t)
	way(late, there).Ready(t, talked) // sooner than it is said again
}

// What a process wants is said again when the connection broke that should have said it.
func TestInterestOutlivesTheConnection(t *testing.T) {
	here, there := openBus(t), openBus(t)
	_, cancel := there.Partials().Subscribe(domain.SessionRef{Tenant: "t", Session: "first"})
	defer cancel()
	way(here, there).Ready(t, domain.SessionRef{Tenant: "t", Session: "first"})
	postgrestest.Exec(t, postgrestest.Server(t), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '"+busName+
		"' AND query LIKE 'SELECT pg_notify%'")
	_, cancel = there.Partials().Subscribe(talked)
	defer cancel()
	way(here, there).Ready(t, talked)
}

// sent returns how many notifications carried a frame, up to the next one that wakes somebody.
func sent(t *testing.T, conn *pgx.Conn) (n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		got, err := conn.WaitForNotification(ctx)
		if err != nil {
			t.Fatal(err)
		}
		switch got.Payload[len("12345678")] {
		case ':':
			return n
		case '>':
			n++
		}
	}
}

// Partials that only this process wants cost no notification; those that another one wants are sent together, so long
// as they wait.
func TestPartialsAreNotSentForNothing(t *testing.T) {
	u := postgrestest.Schema(t)
	open := func() *postgres.Bus {
		b, err := postgres.OpenBus(postgres.BusConfig{URL: u})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b
	}
	conn, err := pgx.Connect(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var channel string
	if err := conn.QueryRow(t.Context(), "SELECT "+postgres.ChannelName).Scan(&channel); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "LISTEN "+channel); err != nil {
		t.Fatal(err)
	}
	here := open()
	wake, cancelWake := here.Subscribe(ports.QueueTopic)
	defer cancelWake()
	awaits(t, wake)
	awaits(t, wake) // it listens
	frames, cancel := here.Partials().Subscribe(talked)
	defer cancel()
	publish := func() {
		for range 1_000 {
			here.Partials().Publish(ports.Partial{Ref: talked, GenerationID: "g", Epoch: 1, Delta: ports.Delta{Text: "word "}})
		}
	}
	publish()
	here.Committed(ports.Commit{Wake: domain.Wake{Owner: "p"}}) // heard of after the frames, or with them
	if n := sent(t, conn); n != 0 || len(frames) == 0 {
		t.Fatalf("%d notifications, %d frames here", n, len(frames))
	}
	there := open()
	remote, cancelRemote := there.Partials().Subscribe(talked)
	defer cancelRemote()
	way(here, there).Ready(t, talked)
	publish()
	for got := 0; got < 1_000*len("word "); {
		select {
		case f := <-remote:
			got += len(f.Delta.Text)
		case <-time.After(10 * time.Second):
			t.Fatalf("%d bytes came", got)
		}
	}
	here.Committed(ports.Commit{Wake: domain.Wake{Owner: "p"}})
	if n := sent(t, conn); n == 0 || n > 250 {
		t.Fatalf("%d notifications for 1,000 frames", n)
	}
}

// A flood of frames blocks nobody, and wake-ups get through beside it.
func TestWakeupsAmongPartials(t *testing.T) {
	here, there := openBus(t), openBus(t)
	wake, cancelWake := there.Subscribe(ports.Topic{Process: "p"})
	defer cancelWake()
	_, cancel := there.Partials().Subscribe(talked)
	defer cancel()
	way(here, there).Ready(t, talked)
	for i := range 10_000 {
		here.Partials().Publish(saying(fmt.Sprint(i)))
		if i%2_500 != 0 {
			continue
		}
		for quiet := time.After(20 * time.Millisecond); quiet != nil; {
			select {
			case <-wake:
			case <-quiet:
				quiet = nil
			}
		}
		for j := range 200 {
			here.Partials().Publish(saying(fmt.Sprint("before ", i, j)))
		}
		here.Committed(ports.Commit{Wake: domain.Wake{Owner: "p"}})
		awaits(t, wake)
	}
}
