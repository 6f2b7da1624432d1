package postgres_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// at is when all commands of the fixtures are given.
var at = domain.Millis(time.Date(2030, 1, 2, 3, 4, 5, 678e6, time.UTC))

// ledger drives one session through its commands.
type ledger struct {
	t     testing.TB
	store *postgres.Store
	ref   domain.SessionRef
	run   string
	token domain.Token
	turns int
}

// created returns a ledger whose session exists and is empty.
func created(t testing.TB, s *postgres.Store, ref domain.SessionRef) *ledger {
	t.Helper()
	l := &ledger{t: t, store: s, ref: ref}
	l.must(domain.CreateSession{At: at, Request: domaintest.Payload(`{}`)})
	return l
}

// claimed returns a ledger whose first input was claimed by a process of its own.
func claimed(t testing.TB, s *postgres.Store, ref domain.SessionRef) *ledger {
	t.Helper()
	l := created(t, s, ref)
	l.must(l.input("first"))
	l.claim("process-of-" + ref.Session)
	return l
}

func (l *ledger) must(cmd domain.Command) domain.Outcome {
	l.t.Helper()
	out, err := l.store.Do(l.t.Context(), l.ref, cmd)
	if err != nil {
		l.t.Fatalf("%T: %v", cmd, err)
	}
	return out
}

func (l *ledger) input(id string) domain.SubmitInput {
	return domain.SubmitInput{At: at, RequestID: id, Payload: domaintest.User(id, "text of "+id), NewRun: "run-" + l.ref.Session + "-" + id}
}

// claim registers the process and claims the session's run for it, which must be the only due one.
func (l *ledger) claim(process string) {
	l.t.Helper()
	if err := l.store.Processes().Register(l.t.Context(), process, "here", time.Minute); err != nil {
		l.t.Fatal(err)
	}
	claims, err := l.store.Runs().Claim(l.t.Context(), ports.ClaimRequest{Process: process, Max: 1})
	for range 50 {
		if !errors.Is(err, ports.ErrUnavailable) {
			break
		}
		claims, err = l.store.Runs().Claim(l.t.Context(), ports.ClaimRequest{Process: process, Max: 1})
	}
	if err != nil || len(claims) != 1 || claims[0].Session.Ref != l.ref {
		l.t.Fatalf("claims %v, error %v", claims, err)
	}
	l.run, l.token = claims[0].Run.ID, domain.Token{Process: process, Epoch: claims[0].Session.Epoch}
}

// answer is an answer to the inputs that makes the calls.
func (l *ledger) answer(inputs []domain.Seq, calls ...domaintest.Call) domain.AppendAssistant {
	l.turns++
	p := domaintest.AssistantText(inputs, "an answer")
	if len(calls) > 0 {
		p = domaintest.AssistantCalls(inputs, "an answer", calls...)
	}
	return domain.AppendAssistant{At: at, Run: l.run, Token: l.token, GenerationID: fmt.Sprint("g", l.turns), Payload: p}
}

func (l *ledger) result(call string) domain.AppendToolResult {
	return domain.AppendToolResult{At: at, Run: l.run, Token: l.token, Call: call, Payload: domaintest.Result(call, "done")}
}

func (l *ledger) compaction(kept domain.Seq) domain.AppendCompaction {
	return domain.AppendCompaction{At: at, Run: l.run, Token: l.token, Payload: domaintest.Compaction("a summary", kept)}
}

func (l *ledger) settle() domain.Settle {
	return domain.Settle{At: at, Run: l.run, Token: l.token, Result: domain.Success}
}

// events returns the whole ledger and fails unless it is complete and its hashes chain.
func (l *ledger) events() []domain.Event {
	l.t.Helper()
	events, err := l.store.Events(l.t.Context(), l.ref, 0, 100_000)
	if err != nil {
		l.t.Fatal(err)
	}
	checkChain(l.t, events)
	return events
}

func checkChain(t testing.TB, events []domain.Event) {
	t.Helper()
	var hash domain.Hash
	for i, e := range events {
		if e.Seq != domain.Seq(i+1) {
			t.Fatalf("seq %d at position %d", e.Seq, i)
		}
		if hash = domain.NextHash(hash, e); e.Hash != hash {
			t.Fatalf("the hash of seq %d does not chain", e.Seq)
		}
	}
}
