package service_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/app/service"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// world is a domaintest.World as a store.
type world struct {
	ports.Ledger
	ports.Sessions
	is *domaintest.World
}

func (w world) Get(_ context.Context, ref domain.SessionRef) (domain.Session, *domain.Run, error) {
	row := w.is.Ledgers[ref].Row
	row.Fold = row.Fold.Clone()
	return row, nil, nil
}

func (w world) Events(_ context.Context, ref domain.SessionRef, after domain.Seq, limit int) ([]domain.Event, error) {
	events := w.is.Ledgers[ref].Events[after:]
	return slices.Clone(events[:min(limit, len(events))]), nil
}

func transcriptOf(t *testing.T, events []domain.Event) *domain.Transcript {
	t.Helper()
	tr := domain.NewTranscript()
	for _, e := range events {
		require.NoError(t, tr.Apply(e))
	}
	return tr
}

// Whatever happened in a session, its pages are its transcript; and they stay that of the ledger as it stood when the
// first one was read, whatever happens meanwhile.
func TestMessagePagesOfAnyHistory(t *testing.T) {
	summaries := 0
	for seed := range uint64(40) {
		g := domaintest.NewGenerator(domaintest.Seeded(seed), domaintest.Options{Sessions: 1, Budget: 3})
		s := service.New(service.Deps{Ledger: world{is: g.World}, Sessions: world{is: g.World}, Clock: clock{}, IDs: &ids{}})
		var begun []domain.Entry
		var cursor string
		var old *domain.Transcript
		for range 12 {
			for range 20 {
				require.NoError(t, g.Step())
			}
			for ref, l := range g.World.Ledgers {
				want := transcriptOf(t, l.Events)
				for _, limit := range []int{1, 2, 3, 0} {
					checkPages(t, s, ref, limit, want)
				}
				if l.Row.KeptSeq > 0 {
					summaries++
				}
				if cursor != "" {
					rest, _, next, err := s.Messages(t.Context(), ref, cursor, 500)
					require.NoError(t, err)
					require.Empty(t, next)
					require.Equal(t, old.Entries(), append(begun, rest...))
				}
				var err error
				begun, _, cursor, err = s.Messages(t.Context(), ref, "", 1+int(seed)%4)
				require.NoError(t, err)
				old = want
			}
		}
	}
	require.Greater(t, summaries, 20)
}

// However long the ledger, a page reads the events that it shows and few more.
func TestMessagePagesReadWhatTheyShow(t *testing.T) {
	g := &generated{head: 2000 * perTurn, size: 3, most: -1}
	row, _, err := g.Get(t.Context(), ref)
	require.NoError(t, err)
	row.KeptSeq, row.Unanswered = 0, nil
	read := &readings{generated: g, row: row}
	s := service.New(service.Deps{Ledger: read, Sessions: read, Clock: clock{}, IDs: &ids{}})
	for _, ask := range []asking{s.Messages, s.NewestMessages} {
		cursor := ""
		for range 40 {
			read.events = 0
			entries, _, next, err := ask(t.Context(), ref, cursor, 20)
			require.NoError(t, err)
			require.Len(t, entries, 20)
			require.Less(t, read.events, 120)
			cursor = next
		}
	}
}

// Large events behind many small ones are not read by the hundred to show a few.
func TestNewestMessagesReadFewLargeEvents(t *testing.T) {
	g := &generated{head: 400 * perTurn, size: 512 << 10, most: -1, short: 300 * perTurn}
	read := &readings{generated: g, row: domain.Session{Ref: ref, HeadSeq: g.head}}
	s := service.New(service.Deps{Ledger: read, Sessions: read, Clock: clock{}, IDs: &ids{}})
	entries, _, next, err := s.NewestMessages(t.Context(), ref, "", 500)
	require.NoError(t, err)
	require.Greater(t, len(entries), 300)
	require.Less(t, read.bytes, 32<<20)
	read.bytes = 0
	_, _, _, err = s.NewestMessages(t.Context(), ref, next, 500)
	require.NoError(t, err)
	require.Less(t, read.bytes, 32<<20)
}

// readings counts the events of a ledger that are read, and their bytes. Its summaries are left out.
type readings struct {
	*generated
	row    domain.Session
	events int
	bytes  int
}

func (r *readings) Get(context.Context, domain.SessionRef) (domain.Session, *domain.Run, error) {
	return r.row, nil, nil
}

func (r *readings) Events(ctx context.Context, ref domain.SessionRef, after domain.Seq, limit int) ([]domain.Event, error) {
	events, err := r.generated.Events(ctx, ref, after, limit)
	r.events += len(events)
	for _, e := range events {
		r.bytes += len(e.Payload.String())
	}
	return events, err
}

// told is a session whose events the test tells one by one.
type told struct {
	world
	t   *testing.T
	row *domaintest.Ledger
}

func newTold(t *testing.T) told {
	w := told{world{is: domaintest.NewWorld()}, t, &domaintest.Ledger{Row: domain.Session{Ref: ref}}}
	w.is.Ledgers[ref] = w.row
	return w
}

func (w told) commit(k domain.Kind, p domain.Payload) {
	w.t.Helper()
	e := domain.Event{Seq: w.row.Row.HeadSeq + 1, Kind: k, Payload: p}
	w.row.Events, w.row.Row.HeadSeq = append(w.row.Events, e), e.Seq
	require.NoError(w.t, w.row.Row.Fold.Apply(e))
}

func (w told) service() *service.Service {
	return service.New(service.Deps{Ledger: w, Sessions: w, Clock: clock{}, IDs: &ids{}})
}

// A summary that ends in the middle of a turn: what the turn's answers before it listed is not shown again behind it,
// however far back they are.
func TestMessagePagesBehindASummaryWithinATurn(t *testing.T) {
	for _, failures := range []domain.Seq{1, 63, 64, 200} {
		w := newTold(t)
		inputs := []domain.Seq{1}
		w.commit(domain.UserMessage, domaintest.User("k", "one"))
		w.commit(domain.AssistantMessage, domaintest.AssistantCalls(inputs, "two", domaintest.Call{ID: "c", Name: "t"}))
		w.commit(domain.ToolResult, domaintest.Result("c", "three"))
		for range failures {
			w.commit(domain.AssistantMessage, domaintest.AssistantFailed(inputs, domain.StopError, "half"))
			w.commit(domain.RunFinished, domaintest.Payload(`{"status":"failed"}`))
		}
		kept := w.row.Row.HeadSeq - 1
		w.commit(domain.AssistantMessage, domaintest.AssistantText(inputs, "answer"))
		w.commit(domain.Compaction, domaintest.Compaction("so far", kept))
		want := transcriptOf(t, w.row.Events)
		require.Len(t, want.Entries(), 3)
		checkPages(t, w.service(), ref, 2, want)
	}
}

// Failed answers that no page holds together stand between an answer and what tells which inputs are new to it.
func TestMessagePagesAroundLargeFailures(t *testing.T) {
	w := newTold(t)
	inputs := []domain.Seq{1}
	w.commit(domain.UserMessage, domaintest.User("k", "one"))
	w.commit(domain.AssistantMessage, domaintest.AssistantCalls(inputs, "two", domaintest.Call{ID: "c", Name: "t"}))
	w.commit(domain.ToolResult, domaintest.Result("c", "three"))
	for range 80 {
		w.commit(domain.AssistantMessage, domaintest.AssistantFailed(inputs, domain.StopError, strings.Repeat("x", 100<<10)))
		w.commit(domain.RunFinished, domaintest.Payload(`{"status":"failed"}`))
	}
	w.commit(domain.AssistantMessage, domaintest.AssistantText(inputs, "answer"))
	checkPages(t, w.service(), ref, 0, transcriptOf(t, w.row.Events))
}
