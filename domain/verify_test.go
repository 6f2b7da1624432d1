package domain_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// verified is the history that TestVerifier corrupts. R1 has two turns and is done, R2 failed for good, R3 was cancelled
// and left R4, which runs and has called a tool. Their epochs are 1 and 2, 3, 4, 5.
const verified = `
> create
> register p
> input k1 "one"
> claim p
> request p
> calls p "two" c1=tool c2=tool start=c1
> result p c1 "three"
> result p c2 "four"
> input k2 "five"
> request p
> answer p "six"
> settle p success
> claim p
> request p
> answer p "eight"
> advance 1s
> settle p success
> input k3 "ten"
> claim p
> request p
> fail p error
> settle p permanent
> advance 1s
> input k4 "thirteen"
> claim p
> cancel
> input k5 "fourteen"
> settle p failure
> advance 1s
> claim p
> request p
> calls p "sixteen" c3=tool start=c3
`

// row changes the row of a run.
func row(id string, change func(r *domain.Run)) func(l *domaintest.Ledger) {
	return func(l *domaintest.Ledger) {
		r := l.Runs[id]
		change(&r)
		l.Runs[id] = r
	}
}

// at changes an event.
func at(seq domain.Seq, change func(e *domain.Event)) func(l *domaintest.Ledger) {
	return func(l *domaintest.Ledger) { change(&l.Events[seq-1]) }
}

// rewritten changes an event, and all hashes so that they fit.
func rewritten(seq domain.Seq, change func(e *domain.Event)) func(l *domaintest.Ledger) {
	return func(l *domaintest.Ledger) {
		change(&l.Events[seq-1])
		var last domain.Hash
		for i := range l.Events {
			l.Events[i].Hash = domain.NextHash(last, l.Events[i])
			last = l.Events[i].Hash
		}
		l.Row.HeadHash = last
	}
}

func session(change func(s *domain.Session)) func(l *domaintest.Ledger) {
	return func(l *domaintest.Ledger) { change(&l.Row) }
}

func call(i int, change func(c *domain.ToolCall)) func(l *domaintest.Ledger) {
	return func(l *domaintest.Ledger) { change(&l.Calls[i]) }
}

// Whatever is changed is found, and named.
func TestVerifier(t *testing.T) {
	ledger := func() *domaintest.Ledger {
		s := newScript(t)
		s.play(verified)
		l := s.ledger()
		l.Events = slices.Clone(l.Events)
		return &l
	}
	sound := ledger()
	require.Empty(t, sound.Verify())
	require.EqualValues(t, 16, sound.Row.HeadSeq)
	require.Equal(t, domain.StatusRunning, sound.Runs["R4"].Status)
	for _, c := range []struct {
		field  string
		seq    domain.Seq
		change func(l *domaintest.Ledger)
	}{
		{"created_at", 1, session(func(s *domain.Session) { s.CreatedAt = s.CreatedAt.Add(time.Hour) })},
		{"state", 0, session(func(s *domain.Session) { s.State = "nonsense" })},
		{"state", 0, session(func(s *domain.Session) { s.State = domain.SessionClosing })},
		{"state", 0, session(func(s *domain.Session) { s.State = domain.SessionClosed })},
		{"state_owner", 0, session(func(s *domain.Session) { s.StateOwner = "nonsense" })},
		{"state_owner", 0, session(func(s *domain.Session) { s.StateOwner = domain.External })},
		{"forked_seq", 0, session(func(s *domain.Session) { s.ForkedFrom = &domain.Origin{Session: "o", Seq: 17} })},
		{"version", 0, session(func(s *domain.Session) { s.Version = 16 + 5 })},
		{"owner", 0, session(func(s *domain.Session) { s.Owner = "" })},
		{"owner", 0, session(func(s *domain.Session) { s.Owner = "q" })},
		{"epoch", 0, session(func(s *domain.Session) { s.Epoch++ })},
		{"epoch", 16, session(func(s *domain.Session) { s.Epoch-- })},
		{"head_seq", 0, session(func(s *domain.Session) { s.HeadSeq++ })},
		{"head_seq", 0, session(func(s *domain.Session) { s.HeadSeq-- })},
		{"head_at", 0, session(func(s *domain.Session) { s.HeadAt = s.HeadAt.Add(1) })},
		{"head_hash", 0, session(func(s *domain.Session) { s.HeadHash[0]++ })},
		{"unanswered", 0, session(func(s *domain.Session) { s.Unanswered = []domain.Seq{14} })},
		{"guides", 0, session(func(s *domain.Session) { s.Guides = []domain.Seq{14} })},
		{"turn_inputs", 0, session(func(s *domain.Session) { s.TurnInputs = nil })},
		{"owed", 0, session(func(s *domain.Session) { s.Owed = domain.OwedNone })},
		{"open_calls", 0, session(func(s *domain.Session) { s.OpenCalls++ })},
		{"kept_seq", 0, session(func(s *domain.Session) { s.KeptSeq = 1 })},
		{"legacy_watermark", 0, session(func(s *domain.Session) { s.LegacyWatermark = 1 })},
		{"active_run_id", 0, session(func(s *domain.Session) { s.ActiveRun = "" })},
		{"active_run_id", 0, session(func(s *domain.Session) { s.ActiveRun = "R1" })},
		{"active_run_id", 0, session(func(s *domain.Session) { s.ActiveRun = "R9" })},

		{"seq", 4, at(3, func(e *domain.Event) { e.Seq = 4 })},
		{"kind", 1, rewritten(1, func(e *domain.Event) { e.Kind = "nonsense" })},
		{"kind", 7, rewritten(7, func(e *domain.Event) { e.Kind = domain.RunStarted })},
		{"dedupe_key", 1, rewritten(1, func(e *domain.Event) { e.Key = "requestId:k9" })},
		{"dedupe_key", 1, rewritten(1, func(e *domain.Event) { e.Key = "toolCallId:k1" })},
		{"dedupe_key", 1, rewritten(1, func(e *domain.Event) { e.Key = "" })},
		{"dedupe_key", 2, rewritten(2, func(e *domain.Event) { e.Key = "generationId:" })},
		{"dedupe_key", 2, rewritten(2, func(e *domain.Event) { e.Payload = e.Payload.With("generationId", `"g9"`) })},
		{"dedupe_key", 3, rewritten(3, func(e *domain.Event) { e.Key = "toolCallId:c2" })},
		{"dedupe_key", 7, rewritten(7, func(e *domain.Event) { e.Key = "requestId:k9" })},
		{"payload", 1, rewritten(1, func(e *domain.Event) { e.Payload = domaintest.Payload(`{"text":1}`) })},
		{"created_at", 3, rewritten(3, func(e *domain.Event) { e.CreatedAt = e.CreatedAt.Add(-time.Hour) })},
		{"hash", 3, at(3, func(e *domain.Event) { e.Payload = domaintest.Payload(`{}`) })},
		{"run_id", 1, at(1, func(e *domain.Event) { e.RunID = "" })},
		{"run_id", 1, at(1, func(e *domain.Event) { e.RunID = "R9" })},
		{"run_id", 13, at(13, func(e *domain.Event) { e.RunID = "R1" })},
		{"run_id", 3, at(2, func(e *domain.Event) { e.RunID = "R2" })},
		{"run_id", 9, at(9, func(e *domain.Event) { e.RunID = "R2" })},
		{"runs.cancel_seq", 0, at(14, func(e *domain.Event) { e.RunID = "R3" })},
		{"epoch", 1, at(1, func(e *domain.Event) { e.Epoch = 1 })},
		{"epoch", 2, at(2, func(e *domain.Event) { e.Epoch = 0 })},
		{"epoch", 3, at(2, func(e *domain.Event) { e.Epoch = 2 })},
		{"epoch", 8, at(8, func(e *domain.Event) { e.Epoch = 1 })},
		{"epoch", 16, at(16, func(e *domain.Event) { e.Epoch = 6 })},
		{"epoch", 9, at(9, func(e *domain.Event) { e.Epoch = 3 })},

		{"run_id", 1, func(l *domaintest.Ledger) { delete(l.Runs, "R1") }},
		{"run_id", 14, func(l *domaintest.Ledger) { delete(l.Runs, "R4") }},
		{"runs.status", 0, row("R1", func(r *domain.Run) { r.Status = "nonsense" })},
		{"active_run_id", 0, row("R1", func(r *domain.Run) { r.Status = domain.StatusRunning })},
		{"active_run_id", 0, row("R1", func(r *domain.Run) { r.Status = domain.StatusPending })},
		{"runs.ended_outcome", 0, row("R1", func(r *domain.Run) { r.Status = domain.StatusFailed })},
		{"runs.ended_outcome", 0, row("R2", func(r *domain.Run) { r.Status = domain.StatusDone })},
		{"runs.reason", 0, row("R1", func(r *domain.Run) { r.Reason = "nonsense" })},
		{"runs.ended_outcome", 0, row("R1", func(r *domain.Run) { r.Reason = domain.ReasonNoWork })},
		{"runs.reason", 0, row("R2", func(r *domain.Run) { r.Reason = domain.ReasonCancelled })},
		{"runs.reason", 0, row("R3", func(r *domain.Run) { r.Reason = domain.ReasonPermanent })},
		{"runs.reason", 0, row("R4", func(r *domain.Run) { r.Reason = domain.ReasonRescued })},
		{"runs.error", 0, row("R1", func(r *domain.Run) { r.Error = "why" })},
		{"runs.owner", 0, row("R1", func(r *domain.Run) { r.Owner = "p" })},
		{"runs.owner", 0, row("R4", func(r *domain.Run) { r.Owner = "" })},
		{"runs.epoch", 0, row("R1", func(r *domain.Run) { r.Epoch = 3 })},
		{"epoch", 8, row("R1", func(r *domain.Run) { r.Epoch = 1 })},
		{"runs.epoch", 0, row("R4", func(r *domain.Run) { r.Epoch = 6 })},
		{"runs.attempts", 0, row("R1", func(r *domain.Run) { r.Attempts = 3 })},
		{"runs.attempts", 0, row("R4", func(r *domain.Run) { r.Attempts = 0 })},
		{"runs.parked", 0, row("R4", func(r *domain.Run) { r.Parked = true })},
		{"runs.wait", 0, row("R4", func(r *domain.Run) { r.Wait = "x" })},
		{"runs.signals", 0, row("R4", func(r *domain.Run) { r.Signals = -1 })},
		{"runs.compact", 0, row("R1", func(r *domain.Run) { r.Compact = true })},
		{"runs.claim_seq", 0, row("R1", func(r *domain.Run) { r.ClaimSeq = new(domain.Seq(1)) })},
		{"runs.claim_seq", 0, row("R4", func(r *domain.Run) { r.ClaimSeq = nil })},
		{"runs.claim_seq", 0, row("R4", func(r *domain.Run) { *r.ClaimSeq = 13 })},
		{"runs.claim_seq", 0, row("R4", func(r *domain.Run) { *r.ClaimSeq = 16 })},
		{"runs.cancel_seq", 0, row("R1", func(r *domain.Run) { r.CancelSeq = new(domain.Seq(5)) })},
		{"runs.cancel_seq", 0, row("R3", func(r *domain.Run) { r.CancelSeq = nil })},
		{"runs.cancel_seq", 0, row("R3", func(r *domain.Run) { *r.CancelSeq = 12 })},
		{"runs.cancel_seq", 0, row("R3", func(r *domain.Run) { *r.CancelSeq = 15 })},
		{"runs.cancel_seq", 0, row("R4", func(r *domain.Run) { r.CancelSeq = new(domain.Seq(17)) })},
		{"runs.next_run_id", 0, row("R1", func(r *domain.Run) { r.NextRunID = "R2" })},
		{"runs.next_run_id", 0, row("R3", func(r *domain.Run) { r.NextRunID = "R9" })},
		{"runs.next_run_id", 0, row("R3", func(r *domain.Run) { r.NextRunID = "R3" })},
		{"runs.read_watermark", 0, row("R1", func(r *domain.Run) { r.ReadWatermark-- })},
		{"runs.read_watermark", 0, row("R4", func(r *domain.Run) { r.ReadWatermark++ })},
		{"runs.ended_epoch", 0, row("R1", func(r *domain.Run) { r.Ended.Epoch-- })},
		{"runs.ended_epoch", 0, row("R4", func(r *domain.Run) { r.Ended.Epoch = 5 })},
		{"runs.ended_outcome", 0, row("R1", func(r *domain.Run) { r.Ended.Command = "park" })},
		{"runs.ended_outcome", 0, row("R1", func(r *domain.Run) { r.Ended.Command = "nonsense" })},
		{"runs.ended_outcome", 0, row("R1", func(r *domain.Run) { r.Ended.Status = domain.StatusFailed })},
		{"runs.ended_outcome", 0, row("R4", func(r *domain.Run) { r.Ended.Command = "rescue" })},
		{"runs.settled_at", 0, row("R1", func(r *domain.Run) { r.SettledAt = time.Time{} })},
		{"runs.settled_at", 0, row("R1", func(r *domain.Run) { r.SettledAt = r.SettledAt.Add(-time.Millisecond) })},
		{"runs.settled_at", 0, row("R2", func(r *domain.Run) { r.SettledAt = r.SettledAt.Add(time.Millisecond) })},
		{"runs.settled_at", 0, row("R4", func(r *domain.Run) { r.SettledAt = domaintest.Epoch })},

		{"tool_calls", 0, func(l *domaintest.Ledger) { l.Calls = l.Calls[1:] }},
		{"tool_calls", 0, call(0, func(c *domain.ToolCall) { c.ID = "c9" })},
		{`tool_calls "c1"`, 0, call(0, func(c *domain.ToolCall) { c.AssistantSeq = 3 })},
		{`tool_calls "c1"`, 0, call(0, func(c *domain.ToolCall) { c.Ordinal = 3 })},
		{`tool_calls "c1"`, 0, call(0, func(c *domain.ToolCall) { c.Name = "x" })},
		{`tool_calls "c1"`, 0, call(0, func(c *domain.ToolCall) { c.StartedEpoch = new(int64(2)) })},
		{`tool_calls "c1"`, 0, call(0, func(c *domain.ToolCall) { c.StartedEpoch = new(int64(0)) })},
		{`tool_calls "c3"`, 0, call(2, func(c *domain.ToolCall) { c.StartedEpoch = new(int64(6)) })},
		{`tool_calls "c1"`, 0, call(0, func(c *domain.ToolCall) { c.ResultSeq = 0 })},
		{`tool_calls "c3"`, 0, call(2, func(c *domain.ToolCall) { c.ResultSeq = 16 })},
	} {
		l := ledger()
		c.change(l)
		if !slices.ContainsFunc(l.Verify(), func(f domain.Fault) bool { return f.Field == c.field && f.Seq == c.seq }) {
			t.Errorf("no fault of event %d: %s in %v", c.seq, c.field, l.Verify())
		}
	}
}

func TestFaultOfACallIsReadable(t *testing.T) {
	s := newScript(t)
	s.play(verified)
	l := s.ledger()
	l.Calls = slices.Clone(l.Calls)
	was := l.Calls[0]
	l.Calls[0].Ordinal, l.Calls[0].ResultSeq = 3, 0
	want := fmt.Sprintf("the row says assistant_seq %d, ordinal 3, name %q, result_seq 0, the events give assistant_seq %d, ordinal %d, name %q, result_seq %d",
		was.AssistantSeq, was.Name, was.AssistantSeq, was.Ordinal, was.Name, was.ResultSeq)
	require.Contains(t, l.Verify(), domain.Fault{Field: `tool_calls "c1"`, Detail: want})
}

// A ledger that was copied carries the leases of another one; what it may not have is still found.
func TestVerifierOfAFork(t *testing.T) {
	s := newScript(t)
	s.play(verified)
	l := s.ledger()
	l.Row.ForkedFrom = &domain.Origin{Session: "o", Seq: 16}
	l.Row.CreatedAt = domaintest.Epoch.Add(time.Hour)
	l.Row.Epoch, l.Row.Version, l.Row.Owner, l.Row.ActiveRun, l.Runs = 0, 1, "", "", nil
	l.Calls = slices.Clone(l.Calls)
	l.Calls[2].StartedEpoch = new(int64(0))
	require.Empty(t, l.Verify())
	l.Row.Version = 0
	require.Equal(t, []domain.Fault{{Field: "version", Detail: "the row says 0, the events and claims give at least 1"}}, l.Verify())
}

// A run without work needs no run.finished, whether or not it was claimed before.
func TestVerifierOfRunsWithoutWork(t *testing.T) {
	s := newScript(t)
	s.play(`
> create
> register p
> input k1 "one"
> claim p
> request p
> answer p "two"
> handback p
> claim p
`)
	l := s.ledger()
	require.Equal(t, domain.ReasonNoWork, l.Runs["R1"].Reason)
	require.EqualValues(t, 1, l.Runs["R1"].Epoch)
	require.Empty(t, l.Verify())
	l.Runs = maps.Clone(l.Runs)
	row("R1", func(r *domain.Run) { r.Reason = "" })(&l)
	require.NotEmpty(t, l.Verify(), "one that is done otherwise does")
}
