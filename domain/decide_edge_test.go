package domain_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

func TestSubmitInputRefusals(t *testing.T) {
	type C = domain.SubmitInput
	closed := func(s *domain.Session) { s.State = domain.SessionClosed }
	checkRefusals(t, func() (domain.View, C) {
		return idle(), C{At: noon, RequestID: "r", Payload: domaintest.User("r", "hi"), NewRun: "R1"}
	}, []fault[C]{
		{"no key", domain.ErrInvalidKey, func(_ *domain.View, c *C) { c.RequestID = "" }},
		{"payload", domain.ErrInvalidPayload, func(_ *domain.View, c *C) { c.Payload = c.Payload.With("text", "7") }},
		{"another key in the payload", domain.ErrInvalidKey, func(_ *domain.View,
			c *C) {
			c.Payload = c.Payload.With("requestId", `"r2"`)
		}},
		{"no key in the payload", domain.ErrInvalidKey, func(_ *domain.View,
			c *C) {
			c.Payload = c.Payload.Without("requestId")
		}},
		{"poses as demoted", domain.ErrInvalidPayload, func(_ *domain.View, c *C) {
			c.Payload = c.Payload.With("requestedDelivery", `"guide"`)
		}},
		{"missing", domain.ErrNotFound, missing[C]},
		{"known key", domain.ErrIdempotencyConflict, func(v *domain.View, _ *C) {
			v.Event = &domain.Event{Seq: 2, Payload: domaintest.User("r", "bye")}
		}},
		{"closed", domain.ErrSessionClosed, onSession[C](closed)},
		{"closing", domain.ErrSessionClosed, onSession[C](func(s *domain.Session) { s.State = domain.SessionClosing })},
		{"external", domain.ErrExternalSession, onSession[C](func(s *domain.Session) { s.StateOwner = domain.External })},
		{"full", domain.ErrTooManyInputs, onSession[C](func(s *domain.Session) {
			s.Unanswered = seqs(1,
				domain.MaxUnanswered)
		})},
	})
}

func seqs(from, to domain.Seq) (all []domain.Seq) {
	for s := from; s <= to; s++ {
		all = append(all, s)
	}
	return all
}

func TestSubmitInputKeys(t *testing.T) {
	for name, key := range map[string]string{
		"empty": "", "4 kB": strings.Repeat("k", 4096), "201": strings.Repeat("é", 201), "NUL": "a\x00", "space": "a ",
		"control": "a\nb", "UTF-8": "a\xff",
	} {
		c := domain.SubmitInput{RequestID: key, Payload: domaintest.User(key, "hi")}
		_, err := decide(t, idle(), c)
		require.ErrorIs(t, err, domain.ErrInvalidKey, name)
		require.Empty(t, c.Needs().Key, "%s: a store is not asked for it", name)
	}
	key := strings.Repeat("é", 200)
	fx, err := decide(t, idle(), domain.SubmitInput{RequestID: key, Payload: domaintest.User(key, "hi"), NewRun: "R1"})
	require.NoError(t, err)
	require.Equal(t, "requestId:"+key, fx.Events[0].Key)
}

// A retry is recognised before anything about the session is judged, and a demoted guide by what the client sent.
func TestSubmitInputReplay(t *testing.T) {
	sent := domaintest.Payload(`{"requestId":"r","delivery":"guide","text":"hi","n":1.0}`)
	first, err := decide(t, idle(), domain.SubmitInput{At: noon, RequestID: "r", Payload: sent, NewRun: "R1"})
	require.NoError(t, err)
	require.Equal(t, `{"requestId":"r","delivery":"queue","text":"hi","n":1.0,"requestedDelivery":"guide"}`,
		first.Events[0].Payload.String())

	for name, spoil := range map[string]func(*domain.Session){
		"open": func(*domain.Session) {}, "closed": func(s *domain.Session) { s.State = domain.SessionClosed },
		"external": func(s *domain.Session) { s.StateOwner = domain.External },
		"full":     func(s *domain.Session) { s.Unanswered = seqs(1, domain.MaxUnanswered) },
	} {
		v := running()
		spoil(v.Session)
		v.Event = new(first.Events[0])
		again := domaintest.Payload(`{ "n":1e0, "text":"\u0068i", "delivery":"guide", "requestId":"r" }`)
		fx, err := decide(t, v, domain.SubmitInput{At: noon.Add(time.Hour), RequestID: "r", Payload: again, NewRun: "R7"})
		require.NoError(t, err, name)
		require.True(t, fx.Empty(), name)
		require.Zero(t, fx.Outcome.Wake, name)
		require.False(t, fx.Outcome.Created, name)
		require.Equal(t, first.Events[0], *fx.Outcome.Event, name)
		require.Equal(t, "R1", fx.Outcome.Run.ID, name)

		v.Run.ID = "R2" // the run that is active now is not the one of the input
		fx, err = decide(t, v, domain.SubmitInput{RequestID: "r", Payload: again})
		require.NoError(t, err, name)
		require.Nil(t, fx.Outcome.Run, name)

		for _, other := range []string{`"queue"`, ``} {
			p := again.With("delivery", other)
			if other == "" {
				p = again.Without("delivery")
			}
			_, err = decide(t, v, domain.SubmitInput{RequestID: "r", Payload: p})
			require.ErrorIs(t, err, domain.ErrIdempotencyConflict, "%s %s", name, other)
		}
	}
}

func TestDelivery(t *testing.T) {
	cancelled := running()
	cancelled.Run.CancelSeq = new(domain.Seq(4))
	parked := pending()
	parked.Run.Parked = true
	for name, c := range map[string]struct {
		view domain.View
		sent string
		want string
		kept bool
	}{
		"no run":         {idle(), `,"delivery":"guide"`, `,"delivery":"queue","requestedDelivery":"guide"`, false},
		"pending":        {pending(), `,"delivery":"guide"`, `,"delivery":"queue","requestedDelivery":"guide"`, false},
		"parked":         {parked, `,"delivery":"guide"`, `,"delivery":"queue","requestedDelivery":"guide"`, false},
		"cancelled":      {cancelled, `,"delivery":"guide"`, `,"delivery":"queue","requestedDelivery":"guide"`, false},
		"running":        {running(), `,"delivery":"guide"`, `,"delivery":"guide"`, true},
		"queue":          {running(), `,"delivery":"queue"`, `,"delivery":"queue"`, false},
		"absent":         {running(), ``, ``, false},
		"absent, no run": {idle(), ``, ``, false},
	} {
		p := domaintest.Payload(`{"requestId":"r","text":"hi"` + c.sent + `}`)
		fx, err := decide(t, c.view, domain.SubmitInput{At: noon, RequestID: "r", Payload: p, NewRun: "R2"})
		require.NoError(t, err, name)
		require.Equal(t, `{"requestId":"r","text":"hi"`+c.want+`}`, fx.Events[0].Payload.String(), name)
		require.Contains(t, fx.Session.Unanswered, domain.Seq(5), name)
		require.Equal(t, c.kept, len(fx.Session.Guides) == 1, name)
	}
}

// An event takes the next seq, a time that never falls, whole milliseconds and the hash of all before it.
func TestAppendedEvent(t *testing.T) {
	v := idle()
	v.Session.HeadHash = domain.Hash{1}
	for name, c := range map[string]struct{ at, want time.Time }{
		"later":   {noon.Add(1500 * time.Microsecond), noon.Add(time.Millisecond)},
		"earlier": {noon.Add(-time.Hour), noon},
		"zone":    {noon.Add(time.Second).In(time.FixedZone("", 3600)), noon.Add(time.Second)},
	} {
		fx, err := decide(t, v, domain.SubmitInput{At: c.at, RequestID: "r", Payload: domaintest.User("r", "hi"), NewRun: "R1"})
		require.NoError(t, err, name)
		e := fx.Events[0]
		require.Equal(t, domain.Event{
			Seq: 5, Kind: domain.UserMessage, Key: "requestId:r", Payload: domaintest.User("r", "hi"), CreatedAt: c.want,
			Hash: domain.NextHash(domain.Hash{1}, e), RunID: "R1",
		}, e, name)
		require.Equal(t, []any{e.Seq, e.CreatedAt, e.Hash}, []any{fx.Session.HeadSeq, fx.Session.HeadAt,
			fx.Session.HeadHash}, name)
		require.Equal(t, v.Session.Version+1, fx.Session.Version, name)
	}
}

func TestAppendExternalRefusals(t *testing.T) {
	type C = domain.AppendExternal
	checkRefusals(t, func() (domain.View, C) {
		v := idle()
		v.Session.StateOwner = domain.External
		return v, C{At: noon, RequestID: "r", Payload: domaintest.External("x").With("requestId", `"r"`)}
	}, []fault[C]{
		{"no key", domain.ErrInvalidKey, func(_ *domain.View, c *C) { c.RequestID = "" }},
		{"payload", domain.ErrInvalidPayload, func(_ *domain.View, c *C) { c.Payload = c.Payload.Without("backend") }},
		{"another key in the payload", domain.ErrInvalidKey, func(_ *domain.View,
			c *C) {
			c.Payload = c.Payload.With("requestId", `"r2"`)
		}},
		{"missing", domain.ErrNotFound, missing[C]},
		{"known key", domain.ErrIdempotencyConflict, func(v *domain.View, _ *C) {
			v.Event = &domain.Event{Seq: 2, Payload: domaintest.External("y")}
		}},
		{"closed", domain.ErrSessionClosed, onSession[C](func(s *domain.Session) { s.State = domain.SessionClosed })},
		{"native", domain.ErrNativeSession, onSession[C](func(s *domain.Session) { s.StateOwner = domain.Native })},
	})
}

func TestEnsureRunRefusals(t *testing.T) {
	type C = domain.EnsureRun
	for _, compact := range []bool{false, true} {
		checkRefusals(t, func() (domain.View, C) { return idle(), C{At: noon, Compact: compact, NewRun: "R1"} }, []fault[C]{
			{"missing", domain.ErrNotFound, missing[C]},
			{"closing", domain.ErrSessionClosed, onSession[C](func(s *domain.Session) { s.State = domain.SessionClosing })},
			{"closed", domain.ErrSessionClosed, onSession[C](func(s *domain.Session) { s.State = domain.SessionClosed })},
			{"external", domain.ErrExternalSession, onSession[C](func(s *domain.Session) { s.StateOwner = domain.External })},
		})
	}
}

// TestEnsureRunAgain: a command whose reply was lost finds the run that it made, also one that has ended.
func TestEnsureRunAgain(t *testing.T) {
	for _, state := range []domain.SessionState{domain.SessionOpen, domain.SessionClosed} {
		v := idle()
		v.Session.State = state
		v.Made = &domain.Run{ID: "R1", Ref: ref, Status: domain.StatusDone}
		fx, err := decide(t, v, domain.EnsureRun{At: noon, Compact: true, NewRun: "R1"})
		require.NoError(t, err)
		require.True(t, fx.Empty())
		require.Equal(t, v.Made, fx.Outcome.Run)
	}
}

func TestEnsureRunFindsWork(t *testing.T) {
	for name, c := range map[string]struct {
		fold    domain.Fold
		compact bool
		want    bool
	}{
		"nothing":    {domain.Fold{Owed: domain.OwedNone}, false, false},
		"compaction": {domain.Fold{Owed: domain.OwedNone}, true, true},
		"unanswered": {domain.Fold{Owed: domain.OwedNone, Unanswered: seqs(3, 3)}, false, true},
		"failure":    {domain.Fold{Owed: domain.OwedFailure}, false, true},
		"calls":      {domain.Fold{Owed: domain.OwedCalls}, false, true},
	} {
		v := idle()
		v.Session.Fold = c.fold
		require.Equal(t, c.want, v.Session.Work(c.compact), name)
		fx, err := decide(t, v, domain.EnsureRun{At: noon, Compact: c.compact, NewRun: "R1"})
		require.NoError(t, err, name)
		require.Equal(t, c.want, !fx.Empty(), name)
		if !c.want {
			require.Nil(t, fx.Outcome.Run, name)
			continue
		}
		require.Equal(t, []domain.RunChange{{Insert: true, Due: new(time.Duration(0)), Run: domain.Run{
			ID: "R1", Ref: ref, CreatedAt: noon, Status: domain.StatusPending, Compact: c.compact,
		}}}, fx.Runs, name)
		require.Equal(t, "R1", fx.Session.ActiveRun, name)
		require.Equal(t, domain.Wake{Queue: true}, fx.Wake, name)
	}
}

// Of a run that is being cancelled a successor is promised once, and every answer names it.
func TestPromisedSuccessor(t *testing.T) {
	v := running()
	v.Run.CancelSeq = new(domain.Seq(4))
	for _, c := range []domain.Command{
		domain.EnsureRun{At: noon, NewRun: "R2"},
		domain.SubmitInput{At: noon, RequestID: "r", Payload: domaintest.User("r", "hi"), NewRun: "R2"},
	} {
		fx, err := decide(t, v, c)
		require.NoError(t, err)
		require.Equal(t, "R2", fx.Runs[0].Run.NextRunID)
		require.Equal(t, "R2", fx.Outcome.Run.ID)
		require.Equal(t, domain.StatusPending, fx.Outcome.Run.Status)
		require.Equal(t, "R1", fx.Session.ActiveRun, "the successor comes with the settlement")

		promised := cloneView(v)
		promised.Run.NextRunID = "R9"
		fx, err = decide(t, promised, c)
		require.NoError(t, err)
		require.Equal(t, "R9", fx.Outcome.Run.ID)
		for _, e := range fx.Events {
			require.Equal(t, "R9", e.RunID)
		}
	}
}

// A run that EnsureRun made, and that was cancelled before its reply was lost and asked for again, is not its own
// successor: no settlement could make that one.
func TestEnsuredRunIsNotItsOwnSuccessor(t *testing.T) {
	v := running()
	v.Run.CancelSeq = new(domain.Seq(4))
	fx, err := decide(t, v, domain.EnsureRun{At: noon, NewRun: v.Run.ID})
	require.NoError(t, err)
	require.True(t, fx.Empty())
	require.Equal(t, v.Run.ID, fx.Outcome.Run.ID)
}

func TestMissingSession(t *testing.T) {
	for _, c := range []domain.Command{
		domain.RequestCancel{}, domain.Unpark{}, domain.CloseSession{}, domain.PatchSession{}, domain.Rescue{},
		domain.StartCalls{}, domain.ParkRun{}, domain.HandBack{}, domain.Settle{}, domain.AppendCompaction{},
	} {
		_, err := decide(t, domain.View{Ref: ref}, c)
		require.ErrorIs(t, err, domain.ErrNotFound, "%T", c)
	}
}

// A client names the run that it cancels, so that a late retry cannot hit a newer one.
func TestRequestCancel(t *testing.T) {
	for name, c := range map[string]struct {
		view domain.View
		run  string
		want bool
	}{
		"whichever":   {running(), "", true},
		"by name":     {running(), "R1", true},
		"another run": {running(), "R0", false},
		"no run":      {idle(), "", false},
	} {
		fx, err := decide(t, c.view, domain.RequestCancel{Run: c.run})
		require.NoError(t, err, name)
		require.Equal(t, c.want, !fx.Empty(), name)
		require.Empty(t, fx.Events, name)
		if c.want {
			require.Equal(t, c.view.Session.HeadSeq, *fx.Runs[0].Run.CancelSeq, name)
			require.Nil(t, fx.Runs[0].Due, name)
			require.Equal(t, domain.Wake{Queue: true, Owner: "P1"}, fx.Wake, name)

			v := cloneView(c.view)
			v.Run.CancelSeq = new(domain.Seq(1))
			again, err := decide(t, v, domain.RequestCancel{Run: c.run})
			require.NoError(t, err, name)
			require.True(t, again.Empty(), "the first request stands: %s", name)
		}
	}
	v := pending()
	v.Run.Parked, v.Run.Wait = true, "d1"
	fx, err := decide(t, v, domain.RequestCancel{})
	require.NoError(t, err)
	require.Equal(t, []any{false, "", time.Duration(0)}, []any{fx.Runs[0].Run.Parked, fx.Runs[0].Run.Wait, *fx.Runs[0].Due})
}

func TestCreateSession(t *testing.T) {
	c := domain.CreateSession{
		At: noon.Add(time.Microsecond), Request: domaintest.Payload(`{"id":"s","title":"T"}`),
		Info: domain.SessionInfo{Title: "T", Tools: []string{"sh"}}, Parent: &domain.Parent{Session: "p"},
	}
	fx, err := decide(t, domain.View{Ref: ref}, c)
	require.NoError(t, err)
	require.True(t, fx.Create)
	require.Equal(t, &domain.Session{
		Ref: ref, CreatedAt: noon, CreateRequest: c.Request, SessionInfo: c.Info, State: domain.SessionOpen,
		StateOwner: domain.Native, Parent: c.Parent, Version: 1, HeadAt: noon, Fold: domain.Fold{Owed: domain.OwedNone},
	}, fx.Session)

	v := domain.View{Ref: ref, Session: fx.Session}
	c.Request = domaintest.Payload(`{"title":"T", "id":"s"}`)
	again, err := decide(t, v, c)
	require.NoError(t, err)
	require.True(t, again.Empty())
	require.False(t, again.Outcome.Created)
	require.Equal(t, *fx.Session, again.Outcome.Session)
	c.Request = domaintest.Payload(`{"id":"s"}`)
	_, err = decide(t, v, c)
	require.ErrorIs(t, err, domain.ErrIdempotencyConflict)
}

func TestPatchSession(t *testing.T) {
	v := idle()
	v.Session.Title, v.Session.Model = "old", "m"
	fx, err := decide(t, v, domain.PatchSession{Title: new(""), Metadata: new(domaintest.Payload(`{"a":1}`))})
	require.NoError(t, err)
	require.True(t, fx.InfoChanged)
	require.Equal(t, []string{"", "m", `{"a":1}`}, []string{fx.Session.Title, fx.Session.Model, fx.Session.Metadata.String()})
	for state, want := range map[domain.SessionState]error{
		domain.SessionOpen: nil, domain.SessionClosing: nil, domain.SessionClosed: domain.ErrSessionClosed,
	} {
		v.Session.State = state
		_, err := decide(t, v, domain.PatchSession{Title: new("new")})
		require.ErrorIs(t, err, want, state)
	}
}

// A retry of what an earlier version accepted finds it.
func TestSentContentIsNotCheckedAgain(t *testing.T) {
	row := domain.Session{State: domain.SessionOpen, StateOwner: domain.Native}
	p := domaintest.Payload(`{"requestId":"r","content":[{"type":"chart"}]}`)
	cmd := domain.SubmitInput{RequestID: "r", Payload: p, NewRun: "n"}
	fx, err := domain.Decide(domain.View{Session: &row, Event: &domain.Event{Kind: domain.UserMessage, Key: "requestId:r", Payload: p}}, cmd)
	require.NoError(t, err)
	require.False(t, fx.Outcome.Created)
	_, err = domain.Decide(domain.View{Session: &row}, cmd)
	require.ErrorIs(t, err, domain.ErrInvalidPayload)
}

func TestSentContent(t *testing.T) {
	long := strings.Repeat("é", 100)
	for content, field := range map[string]string{
		`[]`: "", `[{"type":"text","text":" ","cite":[1]},{"type":"image","mimeType":"image/x","data":"AA\r\n=="}]`: "",
		`[{"type":"text","text":"x"},{"type":"chart","data":{}}]`:          "content/1",
		`[{"type":"text","text":"x"},{"type":"` + long + `"},{"type":""}]`: "content/1",
		`[{}]`: "content/0", `[{"type":"thinking","thinking":"t"}]`: "content/0", `[{"type":"toolCall","id":"c","name":"n"}]`: "content/0",
		`[{"type":"text","text":""}]`: "content/0", `[{"type":"image","data":"AA=="}]`: "content/0",
		`[{"type":"image","mimeType":"image/png","data":""}]`: "content/0", `[{"type":"image","mimeType":"image/png","data":"AA"}]`: "content/0",
	} {
		p := domaintest.Payload(`{"text":"t","requestId":"r","content":` + content + `}`)
		_, err := domain.Decide(domain.View{}, domain.SubmitInput{RequestID: "r", Payload: p, NewRun: "n"})
		require.NoError(t, domain.CheckShape(domain.UserMessage, p), "older ledgers hold it")
		if field == "" {
			require.ErrorIs(t, err, domain.ErrNotFound, content)
			continue
		}
		e, _ := errors.AsType[*domain.Error](err)
		require.ErrorIs(t, err, domain.ErrInvalidPayload, content)
		require.Equal(t, field, e.Field, content)
		require.Less(t, len(e.Detail), 150, content)
	}
}
