package bus

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
	"github.com/keel-agent/keel/ports/portstest"
)

func TestHubForgetsCancelledTopics(t *testing.T) {
	var h Hub
	_, first := h.Subscribe(ports.QueueTopic)
	_, second := h.Subscribe(ports.QueueTopic)
	first()
	require.Len(t, h.subs, 1)
	second()
	first()
	require.Empty(t, h.subs)
}

func TestHubHasNoRemoteCommits(t *testing.T) {
	var h Hub
	ref := domain.SessionRef{Tenant: "t", Session: "s"}
	wake, cancel := h.Subscribe(ports.Topic{Session: ref, Remote: true})
	defer cancel()
	<-wake
	h.Committed(ports.Commit{Ref: ref, Wake: domain.Wake{Readers: true, Queue: true, Owner: "p"}})
	require.Empty(t, wake)
}

func TestPartials(t *testing.T) {
	portstest.TestPartials(t, func(*testing.T) ports.Partials { return &Partials{} })
}

// A client that comes late is not shown what a fenced worker still sends, and yet sessions without clients cost nothing
// for ever.
func TestPartialsRememberEpochsWithinBounds(t *testing.T) {
	var p Partials
	ref := func(i int) domain.SessionRef { return domain.SessionRef{Tenant: "t", Session: fmt.Sprint(i)} }
	p.Publish(ports.Partial{Ref: ref(0), Epoch: 5})
	frames, cancel := p.Subscribe(ref(0))
	p.Publish(ports.Partial{Ref: ref(0), Epoch: 4})
	require.Empty(t, frames)
	for i := range 3 * idleEpochs {
		p.Publish(ports.Partial{Ref: ref(i + 1), Epoch: 1})
		_, cancel := p.Subscribe(ref(-i - 1))
		cancel()
	}
	require.Len(t, p.sessions, idleEpochs+1)
	require.Equal(t, idleEpochs, p.idle.Len())
	p.Publish(ports.Partial{Ref: ref(0), Epoch: 4})
	require.Empty(t, frames, "a session with a subscriber is not forgotten")
	cancel()
	cancel()
	require.Len(t, p.sessions, idleEpochs)
	for i := range partialsBuffer + 10 {
		p.Publish(ports.Partial{Ref: ref(1), Epoch: int64(i)})
	}
	slow, cancel := p.Subscribe(ref(1))
	defer cancel()
	for i := range partialsBuffer + 10 {
		p.Publish(ports.Partial{Ref: ref(1), Epoch: int64(1000 + i)})
	}
	require.Len(t, slow, partialsBuffer)
}
