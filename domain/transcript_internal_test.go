package domain

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is kept of an input ends with its turn: the cost of one more event does not grow with the ledger.
func TestTranscriptForgets(t *testing.T) {
	tr := NewTranscript()
	for range 9 {
		head := tr.Head()
		answer := Assistant{InputSeqs: []Seq{head + 1}, HasInputSeqs: true, StopReason: StopEndTurn}
		p, err := answer.Payload(0)
		require.NoError(t, err)
		require.NoError(t, tr.Apply(Event{Seq: head + 1, Kind: UserMessage, Payload: StoredPayload(`{"selection":{}}`)}))
		require.NoError(t, tr.Apply(Event{Seq: head + 2, Kind: AssistantMessage, Payload: p}))
		require.Empty(t, tr.turn)
		require.Empty(t, tr.waiting)
		require.Empty(t, tr.calls)
	}
}
