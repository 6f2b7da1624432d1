package domain_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
)

var (
	noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	ref  = domain.SessionRef{Tenant: "t", Session: "s"}
	held = domain.Token{Process: "P1", Epoch: 3}
)

// idle is an open native session without a run; its last event is seq 4.
func idle() domain.View {
	return domain.View{Ref: ref, Session: &domain.Session{
		Ref: ref, State: domain.SessionOpen, StateOwner: domain.Native, Version: 7, Epoch: 2, HeadSeq: 4, HeadAt: noon,
		SessionInfo: domain.SessionInfo{Tools: []string{"sh"}}, Fold: domain.Fold{Owed: domain.OwedNone},
	}}
}

// running is a session whose run R1 is executed by P1 with epoch 3. It claimed up to seq 4 and has not begun.
func running() domain.View {
	v := idle()
	v.Session.Owner, v.Session.Epoch, v.Session.ActiveRun = "P1", 3, "R1"
	v.Session.Unanswered = []domain.Seq{4}
	v.Run = &domain.Run{
		ID: "R1", Ref: ref, Status: domain.StatusRunning, Owner: "P1", Epoch: 3, Attempts: 1, ClaimSeq: new(domain.Seq(4)),
	}
	return v
}

// pending is running, before the claim.
func pending() domain.View {
	v := running()
	v.Session.Owner, v.Session.Epoch = "", 2
	v.Run.Status, v.Run.Owner, v.Run.Epoch, v.Run.Attempts, v.Run.ClaimSeq = domain.StatusPending, "", 0, 0, nil
	return v
}

// calling is running with the calls c1 and c2 open, committed as seq 5; c2 was started by this attempt.
func calling() domain.View {
	v := running()
	v.Session.Fold = domain.Fold{TurnInputs: []domain.Seq{4}, Owed: domain.OwedCalls, OpenCalls: 2}
	v.Session.HeadSeq = 5
	v.Calls = []domain.ToolCall{
		{ID: "c1", AssistantSeq: 5, Name: "sh"}, {ID: "c2", AssistantSeq: 5, Ordinal: 1, Name: "sh",
			StartedEpoch: new(int64(3))},
	}
	return v
}

// fault is one thing that may be wrong with a command or the session that it meets.
type fault[C domain.Command] struct {
	name  string
	want  error
	plant func(*domain.View, *C)
}

// checkRefusals plants each fault alone, then each pair. Faults are listed in the documented order: of two, the first
// one is reported. Without a fault the command is carried out.
func checkRefusals[C domain.Command](t *testing.T, base func() (domain.View, C), faults []fault[C]) {
	t.Helper()
	v, c := base()
	_, err := decide(t, v, c)
	require.NoError(t, err, "without a fault")
	for i, first := range faults {
		v, c := base()
		first.plant(&v, &c)
		fx, err := decide(t, v, c)
		require.ErrorIs(t, err, first.want, first.name)
		require.Equal(t, domain.Effects{}, fx, first.name)
		for _, second := range faults[i+1:] {
			v, c := base()
			second.plant(&v, &c)
			first.plant(&v, &c)
			_, err := decide(t, v, c)
			require.ErrorIs(t, err, first.want, "%s and %s", first.name, second.name)
		}
	}
}

func missing[C domain.Command](v *domain.View, _ *C) { v.Session, v.Run = nil, nil }

// onSession is a fault of the session row, where there is one.
func onSession[C domain.Command](change func(*domain.Session)) func(*domain.View, *C) {
	return func(v *domain.View, _ *C) {
		if v.Session != nil {
			change(v.Session)
		}
	}
}

// onRun is a fault of the run row, where there is one.
func onRun[C domain.Command](change func(*domain.Run)) func(*domain.View, *C) {
	return func(v *domain.View, _ *C) {
		if v.Run != nil {
			change(v.Run)
		}
	}
}

// decide is domain.Decide, which must neither change its view nor share memory with what it returns.
func decide(t *testing.T, v domain.View, c domain.Command) (domain.Effects, error) {
	t.Helper()
	before := cloneView(v)
	fx, err := domain.Decide(v, c)
	require.Equal(t, before, v, "Decide changed its view")
	again, err2 := domain.Decide(v, c)
	require.Equal(t, err, err2)
	require.True(t, reflect.DeepEqual(fx, again), "Decide is not a function")
	scribble(again)
	require.Equal(t, before, v, "the effects share memory with the view")
	return fx, err
}

func cloneView(v domain.View) domain.View {
	c := v
	if v.Session != nil {
		s := *v.Session
		s.Fold = v.Session.Fold.Clone()
		c.Session = &s
	}
	if v.Run != nil {
		r := *v.Run
		if r.ClaimSeq != nil {
			r.ClaimSeq = new(*r.ClaimSeq)
		}
		if r.CancelSeq != nil {
			r.CancelSeq = new(*r.CancelSeq)
		}
		c.Run = &r
	}
	if v.Event != nil {
		c.Event = new(*v.Event)
	}
	c.Calls = nil
	for _, call := range v.Calls {
		if call.StartedEpoch != nil {
			call.StartedEpoch = new(*call.StartedEpoch)
		}
		c.Calls = append(c.Calls, call)
	}
	return c
}

// scribble overwrites what a store may change in effects.
func scribble(fx domain.Effects) {
	sessions := []*domain.Session{&fx.Outcome.Session}
	if fx.Session != nil {
		sessions = append(sessions, fx.Session)
	}
	for _, s := range sessions {
		for _, seqs := range [][]domain.Seq{s.Unanswered, s.Guides, s.TurnInputs} {
			clear(seqs[:cap(seqs)])
		}
	}
	runs := []*domain.Run{}
	if fx.Outcome.Run != nil {
		runs = append(runs, fx.Outcome.Run)
	}
	for i := range fx.Runs {
		runs = append(runs, &fx.Runs[i].Run)
	}
	for _, r := range runs {
		for _, seq := range []*domain.Seq{r.ClaimSeq, r.CancelSeq} {
			if seq != nil {
				*seq = -1
			}
		}
		*r = domain.Run{}
	}
	if fx.Outcome.Event != nil {
		*fx.Outcome.Event = domain.Event{}
	}
	for i := range fx.Calls {
		if fx.Calls[i].StartedEpoch != nil {
			*fx.Calls[i].StartedEpoch = -1
		}
	}
}
