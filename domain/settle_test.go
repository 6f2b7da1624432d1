package domain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
)

func TestEndingRefusals(t *testing.T) {
	open := onSession[domain.Settle](func(s *domain.Session) { s.OpenCalls = 1 })
	for _, result := range []domain.Result{domain.Success, domain.Permanent} {
		checkRefusals(t, func() (domain.View, domain.Settle) {
			return running(), domain.Settle{At: noon, Run: "R1", Token: held, Result: result, NewRun: "R2"}
		}, []fault[domain.Settle]{
			{"missing", domain.ErrNotFound, missing[domain.Settle]},
			{"fenced", domain.ErrFenced, func(_ *domain.View, c *domain.Settle) { c.Token.Epoch = 2 }},
			{"open calls", domain.ErrOpenCalls, open},
		})
	}
	type C = domain.ParkRun
	checkRefusals(t, func() (domain.View, C) {
		return calling(), C{Run: "R1", Token: held, SeenSignals: 0, Wait: "d1", ReplaySafe: []string{"c2"}}
	}, []fault[C]{
		{"missing", domain.ErrNotFound, missing[C]},
		{"fenced", domain.ErrFenced, func(_ *domain.View, c *C) { c.Token.Epoch = 2 }},
		{"cancelled", domain.ErrCancelled, onRun[C](func(r *domain.Run) { r.CancelSeq = new(domain.Seq(4)) })},
		{"a call is running", domain.ErrOpenCalls, func(_ *domain.View, c *C) { c.ReplaySafe = nil }},
	})
	v := calling()
	v.Calls[0].StartedEpoch = new(int64(2))
	_, err := decide(t, v, C{Run: "R1", Token: held, SeenSignals: 5, ReplaySafe: []string{"c2"}})
	require.ErrorIs(t, err, domain.ErrOpenCalls, "open calls are looked at before signals")
	v.Calls[0].ResultSeq = 6
	fx, err := decide(t, v, C{Run: "R1", Token: held, SeenSignals: 5, ReplaySafe: []string{"c2"}})
	require.NoError(t, err)
	require.True(t, fx.Empty())
	require.True(t, fx.Outcome.Signalled)
}

// settlement is one row of the cross product of all that a settlement depends on.
type settlement struct {
	result     domain.Result
	owed       domain.Owed
	cancelled  bool
	spent      bool // attempts ≥ budget
	openCalls  int
	unanswered string // "", "claimed", "beyond"
	presented  bool   // the input beyond the claim was a guide that was injected
	compact    bool
	next       string
	closing    bool
}

// expected is the table of commands.md, written down a second time.
func (s settlement) expected() (finished string, status domain.RunStatus, reason string, successor string, refused bool) {
	failed := s.result != domain.Success || s.owed == domain.OwedFailure
	switch {
	case s.cancelled:
		finished, status, reason = "cancelled", domain.StatusFailed, domain.ReasonCancelled
	case failed && s.result == domain.Permanent:
		finished, status, reason = "failed", domain.StatusFailed, domain.ReasonPermanent
	case failed && s.spent:
		finished, status, reason = "failed", domain.StatusFailed, domain.ReasonExhausted
	case failed:
		finished, status, reason = "failed", domain.StatusPending, domain.ReasonFailed
	case s.unanswered != "" || s.compact:
		finished, status, reason = "done", domain.StatusPending, domain.ReasonMoreInput
	default:
		finished, status, reason = "done", domain.StatusDone, ""
	}
	refused = s.openCalls > 0 && (status != domain.StatusPending || finished == "done")
	if status == domain.StatusFailed && !s.closing {
		if s.next != "" {
			successor = s.next
		} else if !s.cancelled && s.unanswered == "beyond" && !s.presented {
			successor = "R2"
		}
	}
	return finished, status, reason, successor, refused
}

func allSettlements(visit func(settlement)) {
	bools := []bool{false, true}
	for _, result := range []domain.Result{domain.Success, domain.Failure, domain.Permanent} {
		for _, owed := range []domain.Owed{domain.OwedNone, domain.OwedCalls, domain.OwedFailure} {
			for _, unanswered := range []string{"", "claimed", "beyond"} {
				for bits := range 1 << 7 {
					at := func(i int) bool { return bools[bits>>i&1] }
					s := settlement{
						result: result, owed: owed, unanswered: unanswered, cancelled: at(0), spent: at(1),
						openCalls: bits >> 2 & 1,
						presented: at(3), compact: at(4), closing: at(6),
					}
					if at(5) {
						s.next = "R9"
					}
					if s.closing && !s.cancelled || s.next != "" && !s.cancelled || owed == domain.OwedFailure && s.openCalls > 0 {
						continue // cannot be
					}
					visit(s)
				}
			}
		}
	}
}

func (s settlement) view() domain.View {
	v := running()
	v.Session.HeadSeq, v.Session.Owed, v.Session.OpenCalls = 8, s.owed, s.openCalls
	v.Session.TurnInputs = seqs(2, 2)
	v.Session.Unanswered = map[string][]domain.Seq{"": nil, "claimed": {3}, "beyond": {3, 7}}[s.unanswered]
	v.Session.Parent = &domain.Parent{Session: "parent"}
	v.Run.Attempts, v.Run.Compact, v.Run.NextRunID, v.Run.ReadWatermark = 2, s.compact, s.next, 1
	v.Run.Reason, v.Run.Error = "before", "before"
	if s.cancelled {
		v.Run.CancelSeq = new(domain.Seq(5))
	}
	if s.closing {
		v.Session.State = domain.SessionClosing
	}
	return v
}

func TestSettleTable(t *testing.T) {
	allSettlements(func(s settlement) {
		name := fmt.Sprintf("%+v", s)
		v := s.view()
		c := domain.Settle{
			At: noon, Run: "R1", Token: held, Result: s.result,
			Error: "oops", Backoff: 7 * time.Second, Budget: 3, NewRun: "R2",
			Summary: domain.Summary{Turns: 1},
		}
		if s.spent {
			c.Budget = 2
		}
		if s.presented {
			c.Presented = []domain.Seq{7}
		}
		finished, status, reason, successor, refused := s.expected()
		fx, err := decide(t, v, c)
		if refused {
			require.ErrorIs(t, err, domain.ErrOpenCalls, name)
			return
		}
		require.NoError(t, err, name)
		require.Len(t, fx.Events, 1, name)
		require.Equal(t, domain.RunFinished, fx.Events[0].Kind, name)
		require.Equal(t, fmt.Sprintf(`{"status":%q,"turns":1,"durationMs":0}`, finished), fx.Events[0].Payload.String(), name)
		require.Equal(t, []any{"", "R1", int64(3)}, []any{fx.Events[0].Key, fx.Events[0].RunID, fx.Events[0].Epoch}, name)
		s.checkRun(t, name, v, fx, finished, status, reason)
		s.checkSession(t, name, fx, finished, status, successor)
	})
}

func (s settlement) checkRun(
	t *testing.T, name string, v domain.View, fx domain.Effects, finished string, status domain.RunStatus, reason string,
) {
	t.Helper()
	run := fx.Runs[0].Run
	want := *v.Run
	want.Status, want.Reason, want.Owner, want.ClaimSeq, want.Error = status, reason, "", nil, ""
	want.Ended = domain.Ended{Epoch: 3, Command: "settle", Status: status}
	if finished == "failed" {
		want.Error = "oops"
	}
	var due *time.Duration
	switch {
	case status != domain.StatusPending:
		want.SettledAt = noon
	case finished == "failed":
		due = new(7 * time.Second)
	default:
		want.Attempts, due = 0, new(time.Duration(0))
	}
	if finished == "done" { // a success answered all up to what still waits
		want.ReadWatermark = map[string]domain.Seq{"": 9, "claimed": 2, "beyond": 2}[s.unanswered]
	}
	require.Equal(t, want, run, name)
	require.Equal(t, due, fx.Runs[0].Due, name)
}

func (s settlement) checkSession(
	t *testing.T, name string, fx domain.Effects, finished string, status domain.RunStatus, successor string,
) {
	t.Helper()
	active, state := "", domain.SessionOpen
	if s.closing {
		state = domain.SessionClosed
	}
	wake := domain.Wake{Readers: true, Queue: successor != "" || status == domain.StatusPending}
	if status == domain.StatusPending {
		active = "R1"
	} else {
		wake.Parent = &domain.SessionRef{Tenant: "t", Session: "parent"}
	}
	if successor != "" {
		active = successor
		require.Equal(t, domain.RunChange{Insert: true, Due: new(time.Duration(0)), Run: domain.Run{
			ID: successor, Ref: ref, CreatedAt: noon, Status: domain.StatusPending, Compact: s.compact,
		}}, fx.Runs[1], name)
	}
	require.Len(t, fx.Runs, map[bool]int{false: 1, true: 2}[successor != ""], name)
	require.Equal(t, []any{active, state, "", int64(3)}, []any{fx.Session.ActiveRun, fx.Session.State, fx.Session.Owner,
		fx.Session.Epoch}, name)
	require.Equal(t, wake, fx.Wake, name)
	require.Equal(t, finished == "failed", len(fx.Session.TurnInputs) > 0, name)
}

// A summary that breaks its shape shrinks to its status; the settlement goes on.
func TestSettleWithABadSummary(t *testing.T) {
	for name, s := range map[string]domain.Summary{
		"negative":  {Turns: -1},
		"too large": {Error: strings.Repeat("x", domain.DefaultMaxPayload)},
		"tokens":    {Tokens: &domain.Usage{Input: -5}},
	} {
		v := running()
		v.Session.Unanswered = nil
		fx, err := decide(t, v, domain.Settle{At: noon, Run: "R1", Token: held, Result: domain.Success, Summary: s})
		require.NoError(t, err, name)
		require.Equal(t, `{"status":"done"}`, fx.Events[0].Payload.String(), name)
		require.Equal(t, domain.StatusDone, fx.Runs[0].Run.Status, name)
	}
}

// What stands in text columns beside the ledger is text that every store can keep.
func TestEndingTextIsStorable(t *testing.T) {
	fx, err := decide(t, running(), domain.Settle{At: noon, Run: "R1", Token: held, Result: domain.Failure,
		Error: "a\x00b\xff"})
	require.NoError(t, err)
	require.Equal(t, "a\ufffdb\ufffd", fx.Runs[0].Run.Error)
	fx, err = decide(t, running(), domain.ParkRun{Run: "R1", Token: held, Wait: "d\x00"})
	require.NoError(t, err)
	require.Equal(t, "d\ufffd", fx.Runs[0].Run.Wait)
}

// The same command of the same attempt is a retry, however the run went on; another command, or epoch, is fenced.
func TestEndedAttemptIsAnsweredAlike(t *testing.T) {
	cmds := map[string]domain.Command{
		"settle":   domain.Settle{At: noon, Run: "R1", Token: held, Result: domain.Success},
		"park":     domain.ParkRun{Run: "R1", Token: held, SeenSignals: 9},
		"handback": domain.HandBack{Run: "R1", Token: held},
	}
	for ended := range cmds {
		for _, later := range []func(*domain.View){
			func(*domain.View) {},
			func(v *domain.View) { v.Run.Status = domain.StatusDone },
			func(v *domain.View) { v.Session.State, v.Session.ActiveRun = domain.SessionClosed, "" },
			func(v *domain.View) { v.Session.Owner, v.Session.Epoch, v.Run.Status = "P2", 4, domain.StatusRunning },
			func(v *domain.View) { v.Run.CancelSeq = new(domain.Seq(4)) },
		} {
			for name, c := range cmds {
				v := pending()
				v.Session.Epoch, v.Session.OpenCalls = 3, 1
				v.Run.Ended = domain.Ended{Epoch: 3, Command: ended, Status: domain.StatusPending}
				later(&v)
				fx, err := decide(t, v, c)
				if name == ended {
					require.NoError(t, err, name)
					require.True(t, fx.Empty(), name)
					require.Equal(t, v.Run, fx.Outcome.Run, name)
				} else {
					require.ErrorIs(t, err, domain.ErrFenced, "%s after %s", name, ended)
				}
				v.Run.Ended.Epoch = 2
				_, err = decide(t, v, c)
				require.ErrorIs(t, err, domain.ErrFenced, name)
			}
		}
	}
}

// Parking and handing back continue the turn; what they do to the attempts differs.
func TestParkHandBackRescue(t *testing.T) {
	v := running()
	v.Run.Attempts, v.Run.PendingInput, v.Session.TurnInputs = 3, true, seqs(2, 2)
	for name, c := range map[string]struct {
		cmd      domain.Command
		attempts int
		due      *time.Duration
		parked   bool
		wake     domain.Wake
	}{
		"park":     {domain.ParkRun{Run: "R1", Token: held, Wait: "d1"}, 0, nil, true, domain.Wake{}},
		"handback": {domain.HandBack{Run: "R1", Token: held}, 2, new(time.Duration(0)), false, domain.Wake{Queue: true}},
		"rescue":   {domain.Rescue{Run: "R1", Jitter: 0.5}, 3, new(time.Duration(0)), false, domain.Wake{Queue: true}},
	} {
		fx, err := decide(t, v, c.cmd)
		require.NoError(t, err, name)
		run := fx.Runs[0].Run
		require.Equal(t, []any{domain.StatusPending, "", c.attempts, c.parked, domain.Seq(4), true, c.due},
			[]any{run.Status, run.Owner, run.Attempts, run.Parked, *run.ClaimSeq, run.PendingInput, fx.Runs[0].Due}, name)
		require.Equal(t, domain.Ended{Epoch: 3, Command: name, Status: domain.StatusPending}, run.Ended, name)
		require.Equal(t, []any{"", "R1", seqs(2, 2), seqs(4, 4)},
			[]any{fx.Session.Owner, fx.Session.ActiveRun, fx.Session.TurnInputs, fx.Session.Unanswered}, name)
		require.Empty(t, fx.Events, name)
		require.Equal(t, c.wake, fx.Wake, name)
	}
}

func TestRescue(t *testing.T) {
	for name, spoil := range map[string]func(*domain.View){
		"owner lives": func(v *domain.View) { v.OwnerLive = true },
		"pending":     func(v *domain.View) { v.Run.Status = domain.StatusPending },
		"another run": func(v *domain.View) { v.Run.ID = "R0" },
		"no run":      func(v *domain.View) { v.Run = nil },
	} {
		v := running()
		spoil(&v)
		fx, err := decide(t, v, domain.Rescue{Run: "R1"})
		require.NoError(t, err, name)
		require.True(t, fx.Empty(), name)
	}
	require.Equal(t, domain.Needs{Run: "R1", OwnerLive: true}, domain.Rescue{Run: "R1"}.Needs())
	for before, wait := range map[string]time.Duration{
		"": 0, "settle": 0, "park": 0, "handback": 0, "rescue": domain.MaxRescueWait / 2,
	} {
		v := running()
		v.Run.Attempts, v.Run.Ended = 3, domain.Ended{Epoch: 2, Command: before}
		fx, err := decide(t, v, domain.Rescue{Run: "R1", Jitter: 0.5})
		require.NoError(t, err, before)
		require.Equal(t, wait, *fx.Runs[0].Due, before)
	}
}
