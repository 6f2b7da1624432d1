package domain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
)

// longTurn has a turn of three requests with a failure, guides, a queued input and a parking, then the next turn.
const longTurn = `create
input a "build it"
claim P1
request P1
calls P1 "" c1=sh c2=ask
input g1 "G1" guide
result P1 c1 "one"
park P1 seen=0 "d1"
unpark
claim P1
input g2 "G2" guide
result P1 c2 "two"
request P1
calls P1 "on it" c3=sh start=c3
input q1 "Q1"
result P1 c3 "three"
request P1
fail P1 error
settle P1 failure backoff=1s
advance 1s
claim P1
request P1
answer P1 "done"
settle P1 success
input z "and this"
claim P1
request P1
answer P1 "this too"
settle P1 success`

func (s *script) run(lines ...string) {
	s.t.Helper()
	for _, line := range lines {
		for _, out := range s.command(line) {
			require.False(s.t, strings.HasPrefix(out, "refused") || strings.HasPrefix(out, "error"), "%s: %s", line, out)
		}
		require.NoError(s.t, s.w.Check(), line)
	}
}

func (s *script) activeRun() domain.Run {
	l := s.ledger()
	return l.Runs[l.Row.ActiveRun]
}

// finishCancelled plays what a worker does with a run that was asked to cancel.
func (s *script) finishCancelled() {
	if s.activeRun().Status == domain.StatusPending {
		s.run("claim P1")
	}
	for _, c := range s.ledger().Calls {
		if c.Open() {
			s.run("standin P1 " + c.ID)
		}
	}
	s.run("settle P1 failure")
}

// answerAll plays fault-free turns until no run is active.
func (s *script) answerAll() {
	for i := 0; s.activeRun().ID != ""; i++ {
		require.Less(s.t, i, 5, "it does not come to an end")
		s.run("claim P1")
		if s.activeRun().ID != "" {
			s.run("request P1", `answer P1 "ok"`, "settle P1 success")
		}
	}
}

// A cancel at any point ends that run as failed, for good. What arrives afterwards is answered by a run of its own,
// together with what the cancel left; whatever was accepted is answered in the end, and every call has one result.
func TestCancelAtEveryPoint(t *testing.T) {
	lines := strings.Split(longTurn, "\n")
	for n := 2; n <= len(lines); n++ {
		s := newScript(t)
		s.run(lines[:n]...)
		cancelled := s.activeRun()
		s.run("cancel")
		if cancelled.ID != "" {
			require.NotNil(t, s.activeRun().CancelSeq)
			s.run(`input late "after the cancel" guide`)
			promised := s.activeRun().NextRunID
			require.NotEmpty(t, promised, "after %q", lines[n-1])
			s.run(`input late2 "and this"`)
			s.finishCancelled()
			run := s.ledger().Runs[cancelled.ID]
			require.Equal(t, []any{domain.StatusFailed, domain.ReasonCancelled}, []any{run.Status, run.Reason},
				"after %q", lines[n-1])
			require.Equal(t, promised, s.activeRun().ID, "after %q", lines[n-1])
			l := s.ledger()
			require.Contains(t, l.Events[len(l.Events)-1].Payload.String(), `"status":"cancelled"`)
			for _, e := range l.Events {
				if strings.HasPrefix(e.Key, "requestId:late") {
					require.Contains(t, l.Row.Unanswered, e.Seq, "after %q it is swallowed", lines[n-1])
				}
			}
		}
		s.answerAll()
		l := s.ledger()
		require.Empty(t, l.Row.Unanswered, "after %q", lines[n-1])
		require.Zero(t, l.Row.OpenCalls)
		require.Equal(t, domain.OwedNone, l.Row.Owed)
		checkPrefixes(t, l.Events)
	}
}

// Without a later input a cancelled turn is not run again by itself, and nothing of it is lost.
func TestCancelWithoutSuccessor(t *testing.T) {
	lines := strings.Split(longTurn, "\n")
	for n := 2; n <= len(lines); n++ {
		s := newScript(t)
		s.run(lines[:n]...)
		if s.activeRun().ID == "" {
			continue
		}
		before := s.ledger().Row.Unanswered
		s.run("cancel")
		s.finishCancelled()
		require.Empty(t, s.ledger().Row.ActiveRun, "after %q", lines[n-1])
		require.Equal(t, before, s.ledger().Row.Unanswered, "after %q", lines[n-1])
		s.run(`input late "later"`)
		s.answerAll()
		require.Empty(t, s.ledger().Row.Unanswered, "after %q", lines[n-1])
	}
}

// A takeover at any point, by a kill or a hand-back, leaves the same ledger as no takeover: the same inputSeqs too.
func TestTakeoverAtEveryPoint(t *testing.T) {
	lines := strings.Split(longTurn, "\n")
	told := func(s *script) (all []string) {
		for _, e := range s.ledger().Events {
			all = append(all, fmt.Sprintf("%d %s %s %s", e.Seq, e.Kind, e.Key, e.Payload))
		}
		return all
	}
	whole := newScript(t)
	whole.run("register P1")
	whole.run(lines...)
	want := told(whole)
	points := 0
	for _, how := range []string{"kill", "handback"} {
		for n := 1; n < len(lines); n++ {
			s := newScript(t)
			s.run("register P1", "register P2")
			s.run(lines[:n]...)
			if s.activeRun().Status != domain.StatusRunning {
				continue
			}
			points++
			old := *s.workers["P1"]
			if how == "kill" {
				s.run("kill P1", "rescue "+s.activeRun().ID)
			} else {
				s.run("handback P1")
			}
			if s.run("claim P2"); s.activeRun().ID == "" {
				continue // all was answered, and the run is done without a summary
			}
			if strings.HasPrefix(lines[n], "answer") || strings.HasPrefix(lines[n],
				"calls") || strings.HasPrefix(lines[n], "fail") {
				s.run("request P2") // the answer of the old attempt is lost; the request is made anew
				require.Equal(t, old.presented, s.workers["P2"].presented, "before %q", lines[n])
			}
			for _, line := range lines[n:] {
				s.run(strings.ReplaceAll(line, " P1", " P2"))
			}
			require.Equal(t, want, told(s), "%s before %q", how, lines[n])
			require.Equal(t, whole.ledger().Row.Fold, s.ledger().Row.Fold)
		}
	}
	require.Greater(t, points, 30)
}

// A run that closes at any point closes the session with it, and answers nothing more.
func TestCloseAtEveryPoint(t *testing.T) {
	lines := strings.Split(longTurn, "\n")
	for n := 1; n <= len(lines); n++ {
		s := newScript(t)
		s.run(lines[:n]...)
		active := s.activeRun().ID != ""
		s.run("close")
		if active {
			require.Equal(t, domain.SessionClosing, s.ledger().Row.State)
			s.finishCancelled()
		}
		l := s.ledger()
		require.Equal(t, domain.SessionClosed, l.Row.State)
		require.Empty(t, l.Row.ActiveRun)
		require.Equal(t, []string{"refused session_closed"}, s.command(`input late "late"`))
		require.False(t, slices.ContainsFunc(l.Calls, domain.ToolCall.Open))
	}
}
