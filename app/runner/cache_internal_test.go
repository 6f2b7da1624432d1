package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// The cache counts what its transcripts hold, not what was summarised.
func TestCacheCountsWhatIsHeld(t *testing.T) {
	tr := domain.NewTranscript()
	apply := func(k domain.Kind, payload string) {
		require.NoError(t, tr.Apply(domain.Event{Seq: tr.Head() + 1, Kind: k, Payload: domain.StoredPayload(payload)}))
	}
	for range 9 {
		apply(domain.UserMessage, `{}`)
	}
	a, b := domain.SessionRef{Session: "a"}, domain.SessionRef{Session: "b"}
	var c cache
	c.put(a, tr)
	require.Equal(t, 9, c.events)
	require.Nil(t, c.take(b))
	require.Same(t, tr, c.take(a))
	require.Zero(t, c.events)
	apply(domain.AssistantMessage, `{"inputSeqs":[1,2,3,4,5,6,7,8,9],"stopReason":"end_turn"}`)
	apply(domain.Compaction, `{"summary":"s","firstKeptSeq":10}`)
	c.put(b, tr)
	require.Equal(t, 2, c.events, "the summary and the answer")
	c.put(b, tr)
	require.Equal(t, 2, c.events)
}

// What a process commits goes into the transcripts that are there, and begins that of a new session.
func TestCacheFollowsCommits(t *testing.T) {
	var c cache
	ref := domain.SessionRef{Tenant: "t", Session: "s"}
	commit := func(seqs ...domain.Seq) ports.Commit {
		commit := ports.Commit{Ref: ref, Wake: domain.Wake{Queue: true}}
		for _, seq := range seqs {
			commit.Events = append(commit.Events, domain.Event{Seq: seq, Kind: domain.UserMessage, Payload: domain.StoredPayload(`{}`)})
		}
		return commit
	}
	c.follow(commit(2))
	require.Zero(t, c.order.Len(), "an event in the middle begins nothing")
	c.follow(commit(1, 2))
	c.follow(commit(3))
	c.follow(commit(3))
	c.follow(commit(5))
	require.Equal(t, 3, c.events)
	require.EqualValues(t, 3, c.take(ref).Head())
	require.Zero(t, c.events)
}
