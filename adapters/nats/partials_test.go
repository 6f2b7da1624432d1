package nats_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/keel-agent/keel/adapters/bus"
	"github.com/keel-agent/keel/adapters/nats"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
	"github.com/keel-agent/keel/ports/portstest"
)

var talked = domain.SessionRef{Tenant: "t", Session: "talked"}

func saying(text string) ports.Partial {
	return ports.Partial{Ref: talked, GenerationID: text, Epoch: 1, Delta: ports.Delta{Text: text}}
}

// way is the way of partials from one bus to another one of a scope.
func way(b *broker, scope string, from, to *nats.Bus) portstest.Across {
	return portstest.Across{From: from.Partials(), To: to.Partials(), Ready: func(t *testing.T, ref domain.SessionRef) {
		t.Helper()
		subject := "keel." + scope + ".partial." + string(bus.DigestOf(ports.Topic{Session: ref}))
		eventually(t, "the server does not know who listens", func() bool { return b.subscriptions(subject) > 0 })
	}}
}

func TestPartialsWithinTheProcess(t *testing.T) {
	broker := newBroker(t)
	portstest.TestPartials(t, func(t *testing.T) ports.Partials { return broker.open(scope(t)).Partials() })
}

func TestPartialsAcrossProcesses(t *testing.T) {
	broker := newBroker(t)
	portstest.TestPartialsAcross(t, func(t *testing.T) portstest.Across {
		return way(broker, scope(t), broker.open(scope(t)), broker.open(scope(t)))
	})
}

func TestPartialsOfFencedProcesses(t *testing.T) {
	broker := newBroker(t)
	reader := broker.open("s")
	portstest.TestPartialsFenced(t, way(broker, "s", broker.open("s"), reader), way(broker, "s", broker.open("s"), reader))
}

// The server passes frames on to nobody who has no subscribers, and forgets those who left.
func TestFramesGoWhereTheyAreWanted(t *testing.T) {
	broker := newBroker(t)
	here, there := broker.open("s"), broker.open("s")
	wake, cancelWake := there.Subscribe(ports.Topic{Process: "p"})
	defer cancelWake()
	delivered := func() int64 {
		for range 100 {
			here.Partials().Publish(saying("x"))
		}
		before := broker.now.NumSubscriptions()
		for quiet := time.After(20 * time.Millisecond); quiet != nil; {
			select {
			case <-wake:
			case <-quiet:
				quiet = nil
			}
		}
		here.Committed(ports.Commit{Wake: domain.Wake{Owner: "p"}})
		awaits(t, wake)
		if broker.now.NumSubscriptions() != before {
			t.Fatal("subscriptions come and go")
		}
		v, err := broker.now.Varz(nil)
		if err != nil {
			t.Fatal(err)
		}
		return v.OutBytes
	}
	first := delivered()
	if grown := delivered() - first; grown > 200 {
		t.Fatalf("the server passed on %d bytes that nobody wants", grown)
	}
	frames, cancel := there.Partials().Subscribe(talked)
	way(broker, "s", here, there).Ready(t, talked)
	here.Partials().Publish(saying("y"))
	if f := <-frames; f.Delta.Text != "y" {
		t.Fatalf("%+v", f)
	}
	cancel()
	subject := "keel.s.partial." + string(bus.DigestOf(ports.Topic{Session: talked}))
	eventually(t, "the server still passes frames on", func() bool { return broker.subscriptions(subject) == 0 })
}

// A flood of frames blocks nobody, and wake-ups get through beside it.
func TestWakeupsAmongPartials(t *testing.T) {
	broker := newBroker(t)
	here, there := broker.open("s"), broker.open("s")
	_, cancel := there.Partials().Subscribe(talked)
	defer cancel()
	way(broker, "s", here, there).Ready(t, talked)
	wake, cancelWake := there.Subscribe(ports.Topic{Process: "p"})
	defer cancelWake()
	awaits(t, wake)
	for i := range 10_000 {
		here.Partials().Publish(saying(fmt.Sprint(i)))
	}
	here.Committed(ports.Commit{Wake: domain.Wake{Owner: "p"}})
	awaits(t, wake)
}
