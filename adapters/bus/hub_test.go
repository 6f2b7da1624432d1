package bus_test

import (
	"sync"
	"testing"

	"github.com/keel-agent/keel/adapters/bus"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
	"github.com/keel-agent/keel/ports/portstest"
)

func woken(wake <-chan struct{}) bool {
	select {
	case <-wake:
		return true
	default:
		return false
	}
}

func TestHub(t *testing.T) {
	h := new(bus.Hub)
	ref, parent := domain.SessionRef{Tenant: "t", Session: "s"}, domain.SessionRef{Tenant: "t", Session: "parent"}
	topics := []ports.Topic{{Session: ref}, {Session: parent}, {Process: "p"}, ports.QueueTopic, {Process: "q"}}
	var wakes []<-chan struct{}
	var cancels []func()
	for _, topic := range topics {
		wake, cancel := h.Subscribe(topic)
		wakes, cancels = append(wakes, wake), append(cancels, cancel)
	}
	expect := func(what string, want ...bool) {
		t.Helper()
		for i, wake := range wakes {
			if got := woken(wake); got != want[i] {
				t.Errorf("%s: topic %d woken: %t", what, i, got)
			}
			if woken(wake) {
				t.Errorf("%s: topic %d is woken twice", what, i)
			}
		}
	}
	expect("armed", true, true, true, true, true)
	h.Committed(ports.Commit{Ref: ref})
	expect("nobody", false, false, false, false, false)
	full := domain.Wake{Readers: true, Queue: true, Owner: "p", Parent: &parent}
	h.Committed(ports.Commit{Ref: ref, Wake: full})
	h.Committed(ports.Commit{Ref: ref, Wake: full})
	expect("all of a commit", true, true, true, true, false)
	h.WakeAll()
	expect("everybody", true, true, true, true, true)
	cancels[0]()
	cancels[0]()
	h.WakeAll()
	expect("all but the cancelled", false, true, true, true, true)
}

func TestHubUsedByMany(*testing.T) {
	h := new(bus.Hub)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				wake, cancel := h.Subscribe(ports.QueueTopic)
				h.Committed(ports.Commit{Wake: domain.Wake{Queue: true}})
				<-wake
				cancel()
			}
		})
	}
	group.Wait()
}

func TestHubConformance(t *testing.T) {
	portstest.TestWakeups(t, func(*testing.T) portstest.Wakeups {
		h := new(bus.Hub)
		return portstest.Wakeups{Wakeups: h, Notifier: h}
	})
}
