package portstest

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// worker is one attempt, as the process that claimed it knows it.
type worker struct {
	*env
	ref   domain.SessionRef
	run   string
	token domain.Token
	mode  domain.ClaimMode
	claim domain.Run
}

// begin claims the session's due run for a process of this test, or for a given one.
func (e *env) begin(ref domain.SessionRef, process ...string) *worker {
	e.Helper()
	if len(process) == 0 {
		if e.proc == "" {
			e.proc = e.process()
		}
		process = []string{e.proc}
	}
	var w *worker
	for _, c := range e.claims(process[0], 1000) {
		require.Equal(e, process[0], c.Session.Owner)
		require.Equal(e, c.Session.Epoch, c.Run.Epoch)
		require.Equal(e, domain.StatusRunning, c.Run.Status)
		if c.Session.Ref == ref {
			token := domain.Token{Process: process[0], Epoch: c.Session.Epoch}
			w = &worker{env: e, ref: ref, run: c.Run.ID, token: token, mode: c.Mode, claim: c.Run}
		}
	}
	require.NotNil(e, w, "the run of %v was not claimed", ref)
	return w
}

// started is a session with one input and an attempt.
func (e *env) started() *worker {
	e.Helper()
	ref := e.session()
	e.submit(ref)
	return e.begin(ref)
}

func (w *worker) ok(cmd domain.Command) domain.Outcome {
	w.Helper()
	return w.do(w.ref, cmd)
}

func (w *worker) no(cmd domain.Command, want error) {
	w.Helper()
	w.refused(w.ref, cmd, want)
}

// answer is an AppendAssistant that lists inputs and makes no call.
func (w *worker) answer(inputs ...domain.Seq) domain.AppendAssistant {
	return w.append(domaintest.AssistantText(inputs, "answer"))
}

// calling is one that makes the calls ids.
func (w *worker) calling(inputs []domain.Seq, ids ...string) domain.AppendAssistant {
	var calls []domaintest.Call
	for _, id := range ids {
		calls = append(calls, domaintest.Call{ID: id, Name: "tool"})
	}
	return w.append(domaintest.AssistantCalls(inputs, "calling", calls...))
}

func (w *worker) failing(inputs ...domain.Seq) domain.AppendAssistant {
	return w.append(domaintest.AssistantFailed(inputs, domain.StopError, "half an ans"))
}

func (w *worker) append(p domain.Payload) domain.AppendAssistant {
	return domain.AppendAssistant{At: w.at(), Run: w.run, Token: w.token, GenerationID: w.id("g"), Payload: p}
}

func (w *worker) start(ids ...string) domain.StartCalls {
	return domain.StartCalls{Run: w.run, Token: w.token, Calls: ids}
}

func (w *worker) result(call string) domain.AppendToolResult {
	return domain.AppendToolResult{At: w.at(), Run: w.run, Token: w.token, Call: call, Payload: domaintest.Result(call, "out")}
}

func (w *worker) compaction(firstKept domain.Seq) domain.AppendCompaction {
	c := domain.AppendCompaction{At: w.at(), Run: w.run, Token: w.token}
	if firstKept > 0 {
		c.Payload = domaintest.Compaction("so far", firstKept)
	}
	return c
}

func (w *worker) park(seen int64, replaySafe ...string) domain.ParkRun {
	return domain.ParkRun{Run: w.run, Token: w.token, SeenSignals: seen, Wait: `{"decision":"d"}`, ReplaySafe: replaySafe}
}

func (w *worker) handBack() domain.HandBack { return domain.HandBack{Run: w.run, Token: w.token} }

func (w *worker) settle(r domain.Result) domain.Settle {
	return domain.Settle{At: w.at(), Run: w.run, Token: w.token, Result: r, Error: "why", Budget: budget, NewRun: w.id("r"),
		Summary: domain.Summary{Turns: 1, Provider: "fake", Model: "fake", StopReason: domain.StopEndTurn, DurationMS: 7}}
}

// cancel asks the run to end.
func (w *worker) cancel() {
	w.Helper()
	w.ok(domain.RequestCancel{Run: w.run})
}

// die ends the worker's process and has its runs rescued.
func (w *worker) die() {
	w.Helper()
	require.NoError(w, w.Processes.Deregister(w.ctx, w.token.Process))
	if w.proc == w.token.Process {
		w.proc = ""
	}
	w.rescueAll()
}

// rescueAll is what every process does each second.
func (e *env) rescueAll() {
	e.Helper()
	orphans, _, err := e.Processes.Bury(e.ctx)
	require.NoError(e, err)
	for _, o := range orphans {
		e.do(o.Ref, domain.Rescue{Run: o.Run})
	}
}

// commands are one of each that carry the worker's token.
func (w *worker) commands() []domain.Command {
	return []domain.Command{
		w.answer(), w.start(w.id("c")), w.result(w.id("c")), w.compaction(1), w.compaction(0), w.park(0), w.handBack(),
		w.settle(domain.Success), w.settle(domain.Failure),
	}
}

// fenced gives each worker command: all must be refused with ErrFenced.
func (w *worker) fenced(except ...domain.Command) {
	w.Helper()
	for _, cmd := range w.commands() {
		if !slices.ContainsFunc(except, func(x domain.Command) bool { return sameKind(x, cmd) }) {
			w.no(cmd, domain.ErrFenced)
		}
	}
}
