package runner_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// compact summarises all before kept, as a process that then is gone.
func (w *world) compact(kept domain.Seq) {
	w.t.Helper()
	ctx, process := context.Background(), w.ids.New()
	require.NoError(w.t, w.store.Processes().Register(ctx, process, "", time.Minute))
	w.do(domain.EnsureRun{At: time.Now(), Compact: true, NewRun: w.ids.New()})
	claims, err := w.store.Runs().Claim(ctx, ports.ClaimRequest{Process: process, Max: 1})
	require.NoError(w.t, err)
	require.Len(w.t, claims, 1)
	run, token := claims[0].Run.ID, domain.Token{Process: process, Epoch: claims[0].Run.Epoch}
	w.do(domain.AppendCompaction{
		At: time.Now(), Run: run, Token: token, Payload: payload(w.t, fmt.Sprintf(`{"summary":"before %d","firstKeptSeq":%d}`, kept, kept)),
	})
	w.do(domain.Settle{At: time.Now(), Run: run, Token: token, Result: domain.Success})
	require.NoError(w.t, w.store.Processes().Deregister(ctx, process))
}

// saySeveral has n turns of three events each.
func (w *world) saySeveral(n int) {
	w.t.Helper()
	for range n {
		w.say(w.ids.New())
		w.settled()
	}
}

// whole is the context that the next request presents after the ledger as it is, built from its first event.
func (w *world) whole() []domain.Message {
	w.t.Helper()
	tr := domain.NewTranscript()
	for _, e := range w.ledger() {
		require.NoError(w.t, tr.Apply(e))
	}
	return tr.Context(tr.Present(tr.Head(), nil))
}

// lately is the messages of the latest request.
func (s *scripted) lately() []domain.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[len(s.requests)-1].Messages
}

// expectColdRun lets a node that start brings back play the run of one more input: what it presents is what the whole
// ledger says, and it reads no more than what was kept, and one late input.
func (w *world) expectColdRun(kept domain.Seq, read int, start func() *node) {
	w.t.Helper()
	w.say(w.ids.New())
	want, most := w.whole(), len(w.ledger())-int(kept)+2
	n := start()
	w.settled()
	require.Equal(w.t, want, w.provider.lately())
	require.LessOrEqual(w.t, n.line.eventsRead()-read, most)
	n.drain(time.Second)
}

// A process that does not hold the transcript of a compacted session reads what the compaction kept, and the one input
// that waited at the cut. So does a process that holds one from long before the cut.
func TestColdStartReadsWhatWasKept(t *testing.T) {
	play(t, func(w *world) {
		w.script(text("yes"))
		early := w.start()
		w.saySeveral(2)
		early.line.setCut(true)
		writer := w.start()
		w.saySeveral(200)
		w.script(slowly(10*time.Second, calls("count")), text("a"), text("b"))
		w.provider.requests = nil
		first := w.say("first").Event.Seq
		synctest.Wait()
		w.say("second") // it waits for its turn; the cut comes in between
		w.settled()
		writer.drain(time.Second)
		kept := first + 4 // the last answer to the first
		w.compact(kept)
		require.Contains(t, fmt.Sprint(w.whole()), "second")

		w.expectColdRun(kept, 0, func() *node { return w.start() })
		w.expectColdRun(kept, early.line.eventsRead(), func() *node {
			early.line.setCut(false)
			return early
		})
	})
}

// What is remembered of a session goes on after a compaction by somebody else.
func TestCompactionElsewhere(t *testing.T) {
	play(t, func(w *world) {
		w.script(text("yes"))
		n := w.start()
		w.saySeveral(3)
		n.line.setCut(true)
		w.compact(8)
		w.say("more")
		want, read := w.whole(), n.line.eventsRead()
		n.line.setCut(false)
		w.settled()
		require.Equal(t, want, w.provider.lately())
		require.LessOrEqual(t, n.line.eventsRead()-read, 4, "the end of the turn before, the compaction and its end, the input")
		n.drain(time.Second)
	})
}
