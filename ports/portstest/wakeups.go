package portstest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Wakeups is a transport of wake-ups under test: what is committed to Notifier reaches Wakeups, at once or soon.
type Wakeups struct {
	Wakeups  ports.Wakeups
	Notifier ports.Notifier

	// Reconnect breaks the transport and lets it come back. nil skips what is said of that.
	Reconnect func(t *testing.T)
}

// soon is how long a wake-up may take; never is how long one that must not come is waited for.
const (
	soon  = 5 * time.Second
	never = 50 * time.Millisecond
)

// TestWakeups checks ports.Wakeups.
func TestWakeups(t *testing.T, open func(t *testing.T) Wakeups) {
	ref := domain.SessionRef{Tenant: "t1", Session: "s"}
	commit := func(w domain.Wake) ports.Commit { return ports.Commit{Ref: ref, Wake: w} }
	everybody := commit(domain.Wake{Readers: true, Queue: true, Owner: "p"})
	parent := domain.SessionRef{Tenant: "t1", Session: "parent"}
	topics := map[string]ports.Topic{
		"session": {Session: ref}, "process": {Process: "p"}, "queue": ports.QueueTopic,
		"parent": {Session: parent},
	}

	t.Run("fires once when armed", func(t *testing.T) {
		w := open(t)
		for _, topic := range topics {
			wake := subscribe(t, w, topic)
			awake(t, wake)
			asleep(t, wake)
		}
	})
	t.Run("each topic has its own", func(t *testing.T) {
		for name, c := range map[string]ports.Commit{
			"session": commit(domain.Wake{Readers: true}),
			"process": commit(domain.Wake{Owner: "p"}),
			"queue":   commit(domain.Wake{Queue: true}),
			"parent":  commit(domain.Wake{Parent: &parent}),
		} {
			w := open(t)
			waiting := map[string]<-chan struct{}{
				"foreign": armed(t, w, ports.Topic{Session: domain.SessionRef{Tenant: "t2", Session: "s"}}),
				"other":   armed(t, w, ports.Topic{Process: "p2"}),
			}
			for n, topic := range topics {
				waiting[n] = armed(t, w, topic)
			}
			w.Notifier.Committed(c)
			awake(t, waiting[name])
			delete(waiting, name)
			for _, wake := range waiting {
				asleep(t, wake)
			}
		}
	})
	t.Run("every waiter of a topic", func(t *testing.T) {
		w := open(t)
		a, b := armed(t, w, topics["session"]), armed(t, w, topics["session"])
		w.Notifier.Committed(everybody)
		awake(t, a)
		awake(t, b)
	})
	t.Run("coalesces and never blocks", func(t *testing.T) {
		w := open(t)
		wake := armed(t, w, topics["session"])
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 1000 {
				w.Notifier.Committed(everybody)
			}
		}()
		select {
		case <-done:
		case <-time.After(soon):
			require.FailNow(t, "a waiter that does not look blocks the notifier")
		}
		awake(t, wake)
		n := 0
		for quiet := false; !quiet; {
			select {
			case <-wake:
				n++
			case <-time.After(never):
				quiet = true
			}
		}
		require.Less(t, n, 500, "wake-ups are merged")
		w.Notifier.Committed(everybody)
		awake(t, wake)
	})
	t.Run("cancel", func(t *testing.T) {
		w := open(t)
		stays := armed(t, w, topics["session"])
		wake, cancel := w.Wakeups.Subscribe(topics["session"])
		awake(t, wake)
		cancel()
		cancel()
		w.Notifier.Committed(everybody)
		awake(t, stays)
		select {
		case _, ok := <-wake:
			require.True(t, ok, "the channel is never closed")
			require.FailNow(t, "a cancelled waiter was woken")
		case <-time.After(never):
		}
	})
	t.Run("reconnect", func(t *testing.T) {
		w := open(t)
		if w.Reconnect == nil {
			t.Skip("the transport cannot break")
		}
		wake := armed(t, w, topics["session"])
		w.Reconnect(t)
		awake(t, wake)
		w.Notifier.Committed(everybody)
		awake(t, wake)
	})
}

func subscribe(t *testing.T, w Wakeups, topic ports.Topic) <-chan struct{} {
	t.Helper()
	wake, cancel := w.Wakeups.Subscribe(topic)
	t.Cleanup(cancel)
	return wake
}

// armed subscribes and takes the first wake-up.
func armed(t *testing.T, w Wakeups, topic ports.Topic) <-chan struct{} {
	t.Helper()
	wake := subscribe(t, w, topic)
	awake(t, wake)
	return wake
}

func awake(t *testing.T, wake <-chan struct{}) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(soon):
		require.FailNow(t, "nobody was woken")
	}
}

func asleep(t *testing.T, wake <-chan struct{}) {
	t.Helper()
	select {
	case <-wake:
		require.FailNow(t, "woken for nothing")
	case <-time.After(never):
	}
}
