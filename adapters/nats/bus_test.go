package nats_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keel-agent/keel/adapters/bus"
	"github.com/keel-agent/keel/adapters/nats"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
	"github.com/keel-agent/keel/ports/portstest"
)

// broker is a server that can be stopped and started again at the same address.
type broker struct {
	t    testing.TB
	opts *server.Options
	now  *server.Server
}

func newBroker(t testing.TB, change ...func(*server.Options)) *broker {
	t.Helper()
	b := &broker{t: t, opts: &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true}}
	for _, f := range change {
		f(b.opts)
	}
	b.start()
	t.Cleanup(b.stop)
	return b
}

func (b *broker) start() {
	b.t.Helper()
	s, err := server.NewServer(b.opts.Clone())
	if err != nil {
		b.t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		b.t.Fatal("the server does not start")
	}
	b.now, b.opts.Port = s, s.Addr().(*net.TCPAddr).Port
}

func (b *broker) stop() {
	b.now.Shutdown()
	b.now.WaitForShutdown()
}

func (b *broker) url() string { return fmt.Sprint("nats://127.0.0.1:", b.opts.Port) }

// subscriptions returns how many subscriptions the server has to a subject.
func (b *broker) subscriptions(subject string) (n int) {
	z, err := b.now.Subsz(&server.SubszOptions{Subscriptions: true, Limit: 10_000})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, s := range z.Subs {
		if s.Subject == subject {
			n++
		}
	}
	return n
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
		time.Sleep(time.Millisecond)
	}
}

// open returns a bus that is connected, has woken everybody for that, and lives as long as the test.
func (b *broker) open(scope string) *nats.Bus {
	b.t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	opened := open(b.t, nats.Config{URL: b.url(), Scope: scope, Logger: zap.New(core)})
	eventually(b.t, "the bus does not connect", func() bool { return logs.FilterMessage("connected").Len() > 0 })
	return opened
}

func open(t testing.TB, cfg nats.Config) *nats.Bus {
	t.Helper()
	b, err := nats.Open(cfg)
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

func TestWakeupsWithinTheProcess(t *testing.T) {
	broker := newBroker(t)
	portstest.TestWakeups(t, func(t *testing.T) portstest.Wakeups {
		b := broker.open(scope(t))
		return portstest.Wakeups{Wakeups: b, Notifier: b}
	})
}

func TestWakeupsAcrossProcesses(t *testing.T) {
	broker := newBroker(t)
	portstest.TestWakeups(t, func(t *testing.T) portstest.Wakeups {
		here, there := broker.open(scope(t)), broker.open(scope(t))
		return portstest.Wakeups{Wakeups: there, Notifier: here, Reconnect: func(*testing.T) {
			broker.stop()
			broker.start()
		}}
	})
}

// scope makes a subject token of the test's name.
func scope(t testing.TB) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(". *>/", r) {
			return '_'
		}
		return r
	}, t.Name())
}

// What was committed while the server was away is told when it is back.
func TestWakeupsOutliveTheServer(t *testing.T) {
	broker := newBroker(t)
	here, there := broker.open("s"), broker.open("s")
	broker.stop()
	here.Committed(ports.Commit{Wake: domain.Wake{Owner: "p"}})
	wake, cancel := there.Subscribe(ports.Topic{Process: "p"})
	defer cancel()
	awaits(t, wake)
	broker.start()
	awaits(t, wake) // everybody is, when the bus is back
	here.Committed(ports.Commit{Wake: domain.Wake{Owner: "p"}})
	awaits(t, wake)
}

// What is committed while this process's connection is broken is told when it is back; that of the others stands.
func TestWakeupsOutliveTheConnection(t *testing.T) {
	broker := newBroker(t)
	here, there := broker.open("s"), broker.open("s")
	wake, cancel := there.Subscribe(ports.Topic{Process: "p"})
	defer cancel()
	awaits(t, wake)
	id, err := here.ClientID()
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.now.DisconnectClientByID(id); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the connection stands", func() bool { return !here.Connected() })
	here.Committed(ports.Commit{Wake: domain.Wake{Owner: "p"}})
	awaits(t, wake)
}

func TestManyTopicsBecomeEveryone(t *testing.T) {
	broker := newBroker(t)
	here, there := broker.open("s"), broker.open("s")
	wake, cancel := there.Subscribe(ports.Topic{Process: "nobody in particular"})
	defer cancel()
	awaits(t, wake)
	broker.stop()
	for i := range 2 * bus.MaxWaiting {
		here.Committed(ports.Commit{Wake: domain.Wake{Owner: fmt.Sprint(i)}})
	}
	broker.start()
	awaits(t, wake)
	for quiet := time.After(50 * time.Millisecond); quiet != nil; {
		select {
		case <-wake:
		case <-quiet:
			quiet = nil
		}
	}
	for i := range 50 * bus.MaxWaiting {
		here.Committed(ports.Commit{Wake: domain.Wake{Owner: fmt.Sprint(i)}})
	}
	awaits(t, wake)
}

// The server is away when the bus starts; nobody waits for it, and it is found when it comes.
func TestStartsWithoutAServer(t *testing.T) {
	broker := newBroker(t)
	broker.stop()
	b := open(t, nats.Config{URL: broker.url(), Scope: "s"})
	wake, cancel := b.Subscribe(ports.QueueTopic)
	defer cancel()
	frames, cancelFrames := b.Partials().Subscribe(talked)
	defer cancelFrames()
	awaits(t, wake)
	b.Committed(ports.Commit{Wake: domain.Wake{Queue: true}})
	awaits(t, wake)
	b.Partials().Publish(saying("x"))
	<-frames
	broker.start()
	awaits(t, wake)
	there := broker.open("s")
	way(broker, "s", there, b).Ready(t, talked)
	there.Committed(ports.Commit{Wake: domain.Wake{Queue: true}})
	awaits(t, wake)
	there.Partials().Publish(saying("y"))
	if f := <-frames; f.Delta.Text != "y" {
		t.Fatalf("%+v", f)
	}
}

// Those who share a server and not a database do not hear each other, and a stranger harms nobody.
func TestScopesAreApart(t *testing.T) {
	broker := newBroker(t)
	here, there, other := broker.open("a"), broker.open("a"), broker.open("b")
	topic := ports.Topic{Process: "p"}
	wake, cancel := other.Subscribe(topic)
	defer cancel()
	awaits(t, wake)
	heard, cancelHeard := there.Subscribe(topic)
	defer cancelHeard()
	awaits(t, heard)
	frames, cancelFrames := other.Partials().Subscribe(talked)
	defer cancelFrames()
	here.Partials().Publish(saying("x"))
	here.Committed(ports.Commit{Wake: domain.Wake{Owner: "p"}})
	awaits(t, heard)
	select {
	case <-wake:
		t.Fatal("woken by another scope")
	case <-frames:
		t.Fatal("a frame of another scope")
	case <-time.After(50 * time.Millisecond):
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	for _, c := range []nats.Config{{URL: "nats://h:1"}, {URL: "nats://h:1", Scope: "a.b"}, {URL: "nats://h:1", Scope: ">"}, {URL: "nats://h:port", Scope: "s"}} {
		if b, err := nats.Open(c); err == nil {
			b.Close()
			t.Errorf("%+v is accepted", c)
		}
	}
}

// A server that wants a password gets the one in the URL. A refusal is not the end: the server may learn of the user.
func TestCredentials(t *testing.T) {
	broker := newBroker(t, func(o *server.Options) { o.Username, o.Password = "keel", "secret" })
	with := func(user string) *nats.Bus {
		return open(t, nats.Config{URL: strings.Replace(broker.url(), "//", "//"+user, 1), Scope: "s"})
	}
	with("keel:secret@")
	late := with("late:secret@")
	wake, cancel := late.Subscribe(ports.QueueTopic)
	defer cancel()
	awaits(t, wake)
	eventually(t, "not connected", func() bool { return broker.subscriptions("keel.s.wake.*") == 1 })
	eventually(t, "it is refused too seldom to give up", func() bool {
		v, err := broker.now.Varz(nil)
		return err == nil && v.TotalConnections >= 4
	})
	broker.stop()
	broker.opts.Username = "late"
	broker.start()
	awaits(t, wake)
}
