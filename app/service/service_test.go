package service_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/memory"
	"github.com/keel-agent/keel/app/service"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

var ref = domain.SessionRef{Tenant: "t", Session: "s"}

// counted counts the events that are read.
type counted struct {
	*memory.Store
	events int
}

func (c *counted) Events(ctx context.Context, ref domain.SessionRef, after domain.Seq, limit int) ([]domain.Event, error) {
	events, err := c.Store.Events(ctx, ref, after, limit)
	c.events += len(events)
	return events, err
}

// lost is run rows of a store that cannot be reached.
type lost struct{ memory.Runs }

func (lost) Get(context.Context, domain.SessionRef, string) (domain.Run, error) {
	return domain.Run{}, ports.ErrUnavailable
}

// settled is run rows that ended since the sessions were listed.
type settled struct{ memory.Runs }

func (settled) Active(context.Context, string, []string) ([]domain.Run, error) { return nil, nil }

// asked counts the reads of run rows.
type asked struct {
	memory.Runs
	n int
}

func (a *asked) Get(ctx context.Context, ref domain.SessionRef, id string) (domain.Run, error) {
	a.n++
	return a.Runs.Get(ctx, ref, id)
}

func (a *asked) Active(ctx context.Context, tenant string, sessions []string) ([]domain.Run, error) {
	a.n++
	return a.Runs.Active(ctx, tenant, sessions)
}

type clock struct{}

func (clock) Now() time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 678_901, time.FixedZone("x", 3600))
}

type ids struct{ n atomic.Int64 }

func (i *ids) New() string   { return fmt.Sprintf("id-%d", i.n.Add(1)) }
func (*ids) Jitter() float64 { return 0 }

func newService(t *testing.T, change func(*service.Deps)) (*service.Service, *counted) {
	t.Helper()
	store := &counted{Store: memory.New(memory.Config{})}
	d := service.Deps{Ledger: store, Sessions: store.Sessions(), Runs: store.Runs(), Clock: clock{}, IDs: &ids{}}
	if change != nil {
		change(&d)
	}
	s := service.New(d)
	_, _, err := s.CreateSession(t.Context(), "t", domain.StoredPayload(`{"id":"s"}`))
	require.NoError(t, err)
	return s, store
}

func answer(t *testing.T, s *service.Service, store *counted, n int) {
	t.Helper()
	ctx := t.Context()
	_, err := s.SubmitInput(ctx, ref, domain.StoredPayload(`{"text":"hi"}`))
	require.NoError(t, err)
	process := fmt.Sprint("p", n)
	require.NoError(t, store.Processes().Register(ctx, process, "", time.Hour))
	claims, err := store.Runs().Claim(ctx, ports.ClaimRequest{Process: process, Max: 1})
	require.NoError(t, err)
	require.Len(t, claims, 1)
	token := domain.Token{Process: process, Epoch: claims[0].Session.Epoch}
	m := domain.Assistant{
		InputSeqs: []domain.Seq{claims[0].Session.HeadSeq}, HasInputSeqs: true, StopReason: domain.StopEndTurn, Usage: &domain.Usage{Input: 5, Output: 2},
	}
	p, err := m.Payload(0)
	require.NoError(t, err)
	_, err = store.Do(ctx, ref, domain.AppendAssistant{Run: claims[0].Run.ID, Token: token, GenerationID: process, Payload: p})
	require.NoError(t, err)
	_, err = store.Do(ctx, ref, domain.Settle{Run: claims[0].Run.ID, Token: token, Result: domain.Success})
	require.NoError(t, err)
}

func TestUsageReadsEachEventOnce(t *testing.T) {
	s, store := newService(t, nil)
	for n := 1; n <= 3; n++ {
		answer(t, s, store, n)
		store.events = 0
		for range 2 {
			_, usage, err := s.GetSession(t.Context(), ref)
			require.NoError(t, err)
			require.Equal(t, domain.Usage{Input: int64(5 * n), Output: int64(2 * n)}, usage.Usage)
		}
		require.Equal(t, 3, store.events, "one turn's events")
	}
}

func TestReplayWhenTheRunCannotBeRead(t *testing.T) {
	s, store := newService(t, func(d *service.Deps) { d.Runs = lost{} })
	first, err := s.SubmitInput(t.Context(), ref, domain.StoredPayload(`{"text":"hi","requestId":"R"}`))
	require.NoError(t, err)
	require.Equal(t, domain.StatusPending, first.Run.Status)
	require.NoError(t, store.Processes().Register(t.Context(), "p", "", time.Hour))
	again, err := s.SubmitInput(t.Context(), ref, domain.StoredPayload(`{"text":"hi","requestId":"R"}`))
	require.NoError(t, err, "the active run came with the outcome")
	require.Equal(t, first.Run.ID, again.Run.ID)
	_, err = store.Do(t.Context(), ref, domain.RequestCancel{})
	require.NoError(t, err)
	_, err = s.SubmitInput(t.Context(), ref, domain.StoredPayload(`{"text":"hi","requestId":"after"}`))
	require.NoError(t, err)
	_, err = s.SubmitInput(t.Context(), ref, domain.StoredPayload(`{"text":"hi","requestId":"after"}`))
	require.ErrorIs(t, err, ports.ErrUnavailable)
}

func TestListedRunThatEndedMeanwhile(t *testing.T) {
	s, _ := newService(t, nil)
	_, err := s.SubmitInput(t.Context(), ref, domain.StoredPayload(`{"text":"hi"}`))
	require.NoError(t, err)
	_, active, _, err := s.ListSessions(t.Context(), ports.SessionQuery{Tenant: "t"}, "")
	require.NoError(t, err)
	require.Len(t, active, 1)

	s, _ = newService(t, func(d *service.Deps) { d.Runs = settled{d.Runs.(memory.Runs)} })
	_, err = s.SubmitInput(t.Context(), ref, domain.StoredPayload(`{"text":"hi"}`))
	require.NoError(t, err)
	items, active, _, err := s.ListSessions(t.Context(), ports.SessionQuery{Tenant: "t"}, "")
	require.NoError(t, err)
	require.Len(t, items, 1)
	require.Empty(t, active)
}

// However many sessions of a page have an active run, their rows are read at once.
func TestActiveRunsOfAPageAreReadAtOnce(t *testing.T) {
	var runs *asked
	s, _ := newService(t, func(d *service.Deps) {
		runs = &asked{Runs: d.Runs.(memory.Runs)}
		d.Runs = runs
	})
	list := func() (int, map[string]domain.Run) {
		runs.n = 0
		items, active, _, err := s.ListSessions(t.Context(), ports.SessionQuery{Tenant: "t"}, "")
		require.NoError(t, err)
		for _, row := range items {
			if run, ok := active[row.ActiveRun]; ok {
				require.Equal(t, row.Ref, run.Ref)
			}
		}
		return runs.n, active
	}
	n, active := list()
	require.Zero(t, n, "none is named")
	require.Empty(t, active)
	for i := range 20 {
		id := fmt.Sprint("n", i)
		_, _, err := s.CreateSession(t.Context(), "t", domain.StoredPayload(`{"id":"`+id+`"}`))
		require.NoError(t, err)
		_, err = s.SubmitInput(t.Context(), domain.SessionRef{Tenant: "t", Session: id}, domain.StoredPayload(`{"text":"hi"}`))
		require.NoError(t, err)
	}
	n, active = list()
	require.Equal(t, 1, n)
	require.Len(t, active, 20)
}

func TestTimesAreMilliseconds(t *testing.T) {
	s, _ := newService(t, nil)
	out, err := s.SubmitInput(t.Context(), ref, domain.StoredPayload(`{"text":"hi"}`))
	require.NoError(t, err)
	require.Equal(t, domain.Millis(clock{}.Now()), out.Event.CreatedAt)
	require.Equal(t, "requestId:id-1", out.Event.Key)
	require.Equal(t, "id-2", out.Run.ID)
}

func TestPayloadLimit(t *testing.T) {
	s, _ := newService(t, func(d *service.Deps) { d.MaxPayload = 41 })
	_, err := s.SubmitInput(t.Context(), ref, domain.StoredPayload(`{"text":"0123456789","requestId":"RRRRR"}`))
	require.NoError(t, err)
	_, err = s.SubmitInput(t.Context(), ref, domain.StoredPayload(`{"text":"0123456789","requestId":"RRRRRR"}`))
	require.ErrorIs(t, err, domain.ErrPayloadTooLarge)
	_, err = s.SubmitInput(t.Context(), ref, domain.StoredPayload(`{"text":"0123456789012345"}`))
	require.ErrorIs(t, err, domain.ErrPayloadTooLarge)
}

func TestCursorAhead(t *testing.T) {
	s, _ := newService(t, nil)
	_, err := s.SubmitInput(t.Context(), ref, domain.StoredPayload(`{"text":"hi"}`))
	require.NoError(t, err)
	require.NoError(t, s.CheckCursor(t.Context(), ref, 1))
	var ahead *service.CursorAheadError
	require.ErrorAs(t, s.CheckCursor(t.Context(), ref, 2), &ahead)
	require.Equal(t, domain.Seq(1), ahead.LedgerHead())
	require.ErrorIs(t, ahead, domain.ErrCursorAhead)
	require.ErrorIs(t, s.CheckCursor(t.Context(), domain.SessionRef{Tenant: "u", Session: "s"}, 2), domain.ErrNotFound)
}

func TestCapabilitiesAreTheCallersOwn(t *testing.T) {
	s, _ := newService(t, func(d *service.Deps) {
		d.Features, d.Hooks = map[string]bool{"partials": true}, []string{"turn.started"}
	})
	features, limits, hooks := s.Capabilities()
	require.Len(t, features, 11)
	require.True(t, features["partials"])
	features["hooks"], limits["sessionsPageMax"], hooks[0] = true, 0, "x"
	features, limits, hooks = s.Capabilities()
	require.False(t, features["hooks"])
	require.Equal(t, 200, limits["sessionsPageMax"])
	require.Equal(t, []string{"turn.started"}, hooks)
}

func TestReady(t *testing.T) {
	s, _ := newService(t, nil)
	require.NoError(t, s.Ready(t.Context()))
}

// TestCancelReachesChildren: the runs of sessions that a cancelled run made end with it, theirs too, at once.
func TestCancelReachesChildren(t *testing.T) {
	for name, end := range map[string]func(*service.Service) error{
		"cancel": func(s *service.Service) error {
			_, err := s.Cancel(t.Context(), ref, domain.StoredPayload(`{}`))
			return err
		},
		"close": func(s *service.Service) error {
			_, _, err := s.CloseSession(t.Context(), ref)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, store := newService(t, nil)
			ctx := t.Context()
			_, err := s.SubmitInput(ctx, ref, domain.StoredPayload(`{"text":"go"}`))
			require.NoError(t, err)
			var family []domain.SessionRef
			for i, parent := 0, ref; i < 3; i++ {
				_, maker, err := store.Sessions().Get(ctx, parent)
				require.NoError(t, err)
				child := domain.SessionRef{Tenant: ref.Tenant, Session: fmt.Sprint("child", i)}
				_, err = store.Do(ctx, child, domain.CreateSession{
					Request: domain.StoredPayload(`{}`), Parent: &domain.Parent{Session: parent.Session, Run: maker.ID},
				})
				require.NoError(t, err)
				_, err = s.SubmitInput(ctx, child, domain.StoredPayload(`{"text":"dig"}`))
				require.NoError(t, err)
				family, parent = append(family, child), child
			}
			require.NoError(t, end(s))
			for _, child := range family {
				_, run, err := store.Sessions().Get(ctx, child)
				require.NoError(t, err)
				require.NotNil(t, run.CancelSeq, child.Session)
			}
		})
	}
}
