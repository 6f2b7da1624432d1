package service_test

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/app/service"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// generated is a ledger of turns whose events are made when they are read, so that all memory that stays in use is the
// reader's. A turn is an input, an answer with a call, another input, the result, an answer and the end of the run.
type generated struct {
	ports.Ledger
	ports.Sessions
	head domain.Seq
	size int // of each text
	most int // bytes in use when a page was read, unless it is negative

	short domain.Seq // from here on texts are of one byte, unless it is 0
}

const perTurn = 6

func (g *generated) event(seq domain.Seq) domain.Event {
	turn := (seq - 1) / perTurn
	text := strings.Repeat("x", g.size)
	if g.short > 0 && seq >= g.short {
		text = "x"
	}
	input := turn*perTurn + 1
	e := domain.Event{Seq: seq}
	raw := ""
	switch (seq - 1) % perTurn {
	case 0, 2:
		e.Kind, raw = domain.UserMessage, fmt.Sprintf(`{"text":"%s","requestId":"%d","delivery":"queue"}`, text, seq)
		if turn%5 == 4 && (seq-1)%perTurn == 2 {
			raw = fmt.Sprintf(`{"text":"%s","retryOf":%d}`, text, input)
		}
	case 1:
		e.Kind = domain.AssistantMessage
		raw = fmt.Sprintf(`{"content":[{"type":"text","text":"%s"},{"type":"toolCall","id":"c%d","name":"t","arguments":{"a":1.0}}],"inputSeqs":[%d],"stopReason":"tool_use","usage":{"input":3,"output":1}}`, text, turn, input)
		if turn%5 == 4 {
			raw = strings.Replace(raw, fmt.Sprintf("[%d]", input), "[]", 1)
		}
	case 3:
		e.Kind, raw = domain.ToolResult, fmt.Sprintf(`{"toolCallId":"c%d","content":[{"type":"text","text":"%s"}],"isError":false,"durationMs":7}`, turn, text)
	case 4:
		e.Kind = domain.AssistantMessage
		raw = fmt.Sprintf(`{"content":[{"type":"text","text":"%s"}],"inputSeqs":[%d,%d],"stopReason":"end_turn","usage":{"input":3,"output":1}}`, text, input, input+2)
		if turn%7 == 6 {
			raw = strings.Replace(raw, "end_turn", "error", 1)
		}
	case 5:
		e.Kind, raw = domain.RunFinished, `{"status":"done"}`
		if turn%11 == 10 {
			e.Kind, raw = domain.Compaction, fmt.Sprintf(`{"summary":"%s","firstKeptSeq":%d}`, text, seq-perTurn*5)
		}
	}
	e.Payload = domain.StoredPayload(raw)
	return e
}

func (g *generated) Get(_ context.Context, ref domain.SessionRef) (domain.Session, *domain.Run, error) {
	row := domain.Session{Ref: ref, HeadSeq: g.head}
	for seq := range g.head {
		if err := row.Fold.Apply(g.event(seq + 1)); err != nil {
			return row, nil, err
		}
	}
	return row, nil, nil
}

func (g *generated) Events(_ context.Context, _ domain.SessionRef, after domain.Seq, limit int) ([]domain.Event, error) {
	if g.most >= 0 {
		g.most = max(g.most, inUse())
	}
	var page []domain.Event
	for bytes := 0; after < g.head && len(page) < limit && bytes <= ports.PageBytes; {
		after++
		e := g.event(after)
		page, bytes = append(page, e), bytes+len(e.Payload.String())
	}
	return page, nil
}

func inUse() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func (g *generated) service() *service.Service {
	return service.New(service.Deps{Ledger: g, Sessions: g, Clock: clock{}, IDs: &ids{}})
}

// Whatever the ledger, all pages together are its transcript.
func TestMessagePagesAreTheTranscript(t *testing.T) {
	for _, c := range []struct {
		turns domain.Seq
		size  int
	}{{1, 3}, {10, 3}, {23, 3}, {20, 100 << 10}, {3, 900 << 10}} {
		g := &generated{head: c.turns*perTurn - 2, size: c.size, most: -1}
		want := domain.NewTranscript()
		for seq := range g.head {
			require.NoError(t, want.Apply(g.event(seq+1)))
		}
		for _, limit := range []int{0, 7} {
			checkPages(t, g.service(), ref, limit, want)
		}
	}
}

// checkPages wants all pages together to be the transcript want, in reverse when they begin with the newest.
func checkPages(t require.TestingT, s *service.Service, ref domain.SessionRef, limit int, want *domain.Transcript) {
	got, waits := allPages(t, s.Messages, ref, limit, want)
	checkEntries(t, want.Entries(), got, limit)
	require.Equal(t, len(want.Unanswered), len(waits))
	require.True(t, slices.Equal(want.Unanswered, waits))

	got, waits = allPages(t, s.NewestMessages, ref, limit, want)
	slices.Reverse(got)
	checkEntries(t, want.Entries(), got, limit)
	slices.Sort(waits)
	require.True(t, slices.Equal(want.Unanswered, waits))
}

// asking is one of the ways to read messages.
type asking func(context.Context, domain.SessionRef, string, int) ([]domain.Entry, []domain.Seq, string, error)

func allPages(t require.TestingT, ask asking, ref domain.SessionRef, limit int, want *domain.Transcript) (got []domain.Entry, waits []domain.Seq) {
	for cursor := ""; ; {
		entries, waiting, next, err := ask(context.Background(), ref, cursor, limit)
		require.NoError(t, err)
		require.True(t, slices.IsSorted(waiting))
		got, waits = append(got, entries...), append(waits, waiting...)
		if cursor = next; cursor == "" {
			return got, waits
		}
		require.NotEmpty(t, entries)
		require.LessOrEqual(t, len(got), len(want.Entries()), "the pages do not end")
	}
}

func checkEntries(t require.TestingT, want, got []domain.Entry, limit int) {
	require.Equal(t, len(want), len(got))
	for i, e := range want { // one by one: the difference of large ones is hard to print
		require.True(t, reflect.DeepEqual(e, got[i]), "entry %d of pages of %d", i, limit)
	}
}

// A ledger of large events is never in memory as a whole, whatever is asked about it.
func TestLargeLedgersAreReadPieceByPiece(t *testing.T) {
	const most = 24 << 20
	for name, ask := range map[string]func(s *service.Service) error{
		"session": func(s *service.Service) error {
			_, usage, err := s.GetSession(t.Context(), ref)
			require.Equal(t, domain.Totals{Usage: domain.Usage{Input: 60, Output: 20}}, usage)
			return err
		},
		"events": func(s *service.Service) error {
			events, more, err := s.Events(t.Context(), ref, 0, 1000)
			require.True(t, more)
			require.True(t, len(events) == 4)
			return err
		},
		"messages": func(s *service.Service) error {
			entries, _, next, err := s.Messages(t.Context(), ref, "", 500)
			require.NotEmpty(t, next)
			require.LessOrEqual(t, len(entries), 5)
			return err
		},
		"newest messages": func(s *service.Service) error {
			entries, _, next, err := s.NewestMessages(t.Context(), ref, "", 500)
			require.NotEmpty(t, next)
			require.LessOrEqual(t, len(entries), 5)
			require.Greater(t, len(entries), 2)
			return err
		},
	} {
		g := &generated{head: 10 * perTurn, size: 900 << 10}
		before := inUse()
		require.NoError(t, ask(g.service()), name)
		require.Less(t, g.most-before, most, name)
	}
}

// Pages of events end at their number, at their bytes or at the ledger's end, and say which.
func TestEventPagesAreExact(t *testing.T) {
	const most = 4 << 20
	for _, c := range []struct{ head, size, limit, page int }{
		{0, 3, 0, 200}, {200, 3, 0, 200}, {201, 3, 0, 200}, {2500, 3, 5000, 1000}, {7, 3, 7, 7}, {12, 1 << 20, 10, 10}, {100, 100 << 10, 1000, 1000},
	} {
		g := &generated{head: domain.Seq(c.head), size: c.size, most: -1}
		cursor := domain.Seq(0)
		for more := true; more; {
			events, again, err := g.service().Events(t.Context(), ref, cursor, c.limit)
			require.NoError(t, err)
			bytes := 0
			for _, e := range events {
				require.Equal(t, cursor+1, e.Seq)
				cursor, bytes = e.Seq, bytes+len(e.AppendJSON(nil))
			}
			more = again
			require.Equal(t, cursor < g.head, more)
			require.LessOrEqual(t, bytes, most)
			if more {
				next := len(g.event(cursor + 1).AppendJSON(nil))
				require.True(t, len(events) == c.page || bytes+next > most-10_000, "a page is as full as it may be")
			}
		}
	}
}
