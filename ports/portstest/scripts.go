package portstest

import (
	"fmt"
	"time"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// script is a history that somebody wrote down. Ids and times are given, so that every store meets the same ones.
type script struct {
	name  string
	write func(*writer)
}

func (s script) steps() []domaintest.Step {
	w := &writer{ref: domain.SessionRef{Tenant: "t1", Session: "s1"}}
	s.write(w)
	return w.list
}

// writer writes steps about one session at a time. process, run and epoch are those of the attempt in course.
type writer struct {
	list    []domaintest.Step
	ref     domain.SessionRef
	process string
	run     string
	epoch   int64
}

func (w *writer) step(s domaintest.Step)  { w.list = append(w.list, s) }
func (w *writer) do(cmd domain.Command)   { w.step(domaintest.Do{Ref: w.ref, Cmd: cmd}) }
func (w *writer) token() domain.Token     { return domain.Token{Process: w.process, Epoch: w.epoch} }
func (w *writer) id(prefix string) string { return fmt.Sprintf("%s%d", prefix, len(w.list)+1) }
func (w *writer) at() time.Time {
	return domaintest.Epoch.Add(time.Duration(len(w.list)) * 1001 * time.Millisecond)
}

func (w *writer) create(owner domain.StateOwner) {
	w.do(domain.CreateSession{
		At: w.at(), Request: domaintest.Payload(`{"id":` + domaintest.Quote(w.ref.Session) + `}`), StateOwner: owner,
		Info: domain.SessionInfo{Title: "A title", System: "Be kind.", Tools: []string{"ls"}, Metadata: domaintest.Payload(`{"n":1.0}`)},
	})
}

func (w *writer) submit(p func(id, text string) domain.Payload, text string) {
	id := w.id("q")
	w.do(domain.SubmitInput{At: w.at(), RequestID: id, Payload: p(id, text), NewRun: w.id("r")})
}

// begin claims the run with the id of the step that made it.
func (w *writer) begin(process, run string) {
	w.step(domaintest.Claim{Process: process, Budget: 3})
	w.process, w.run = process, run
	w.epoch++
}

func (w *writer) append(p domain.Payload, start ...string) {
	w.do(domain.AppendAssistant{At: w.at(), Run: w.run, Token: w.token(), GenerationID: w.id("g"), Payload: p, Start: start})
}

func (w *writer) result(call string, p domain.Payload) {
	w.do(domain.AppendToolResult{At: w.at(), Run: w.run, Token: w.token(), Call: call, Payload: p})
}

func (w *writer) settle(r domain.Result) {
	w.do(domain.Settle{
		At: w.at(), Run: w.run, Token: w.token(), Result: r, Error: "why", Budget: 3, NewRun: w.id("r"),
		Summary: domain.Summary{Turns: 1, Provider: "fake", Model: "fake", StopReason: domain.StopEndTurn, DurationMS: 24},
	})
}

// again repeats the last step.
func (w *writer) again() { w.step(w.list[len(w.list)-1]) }

func seqs(s ...domain.Seq) []domain.Seq { return s }

var scripts = []script{
	{"one-input", func(w *writer) {
		w.create("")
		w.again()
		w.submit(domaintest.User, "hello keel") // 3
		w.again()
		w.step(domaintest.Register{Process: "p1"})
		w.begin("p1", "r3")
		w.append(domaintest.AssistantText(seqs(1), "hello"))
		w.again()
		w.settle(domain.Success)
		w.again()
		w.step(domaintest.Claim{Process: "p1", Budget: 3})
	}},
	{"tools-and-guides", func(w *writer) {
		w.create("")
		w.submit(domaintest.User, "build it") // 2, seq 1
		w.submit(domaintest.Guide, "quickly") // seq 2, demoted
		w.step(domaintest.Register{Process: "p1"})
		w.begin("p1", "r2")
		w.append(domaintest.AssistantCalls(seqs(1, 2), "", domaintest.Call{ID: "c1", Name: "ls"}, domaintest.Call{ID: "c2", Name: "ls"}), "c1") // 3
		w.submit(domaintest.Guide, "G1")                                                                                                        // 4
		w.submit(domaintest.Guide, "G2")                                                                                                        // 5
		w.submit(domaintest.Queued, "Q1")                                                                                                       // 6
		w.result("c2", domaintest.Result("c2", "d\x00i\x00r"))                                                                                  // 7
		w.append(domaintest.AssistantText(seqs(1, 2), "too early"))
		w.result("c1", domaintest.Result("c1", `\u0000`)) // 8
		w.again()
		w.append(domaintest.AssistantCalls(seqs(1, 2, 4), "", domaintest.Call{ID: "c1", Name: "ls"})) // used
		w.append(domaintest.AssistantText(seqs(1, 2, 4, 6), ""))                                      // Q1 waits for the next claim
		w.append(domaintest.AssistantCalls(seqs(1, 2, 4), "", domaintest.Call{ID: "c3", Name: "ls"})) // 9
		w.do(domain.StartCalls{Run: w.run, Token: w.token(), Calls: []string{"c3"}})
		w.result("c3", domaintest.StandIn("c3"))                 // 10
		w.append(domaintest.AssistantText(seqs(1, 2, 4, 5), "")) // 11
		w.settle(domain.Success)                                 // 12
		w.begin("p1", "r2")
		w.append(domaintest.AssistantText(seqs(6), "")) // 13
		w.settle(domain.Success)
	}},
	{"crashes", func(w *writer) {
		w.create("")
		w.submit(domaintest.User, "go") // 2
		for _, p := range []string{"p1", "p2", "p3"} {
			w.step(domaintest.Register{Process: p})
		}
		w.begin("p1", "r2")
		w.append(domaintest.AssistantCalls(seqs(1), "", domaintest.Call{ID: "c1", Name: "mail"}, domaintest.Call{ID: "c2", Name: "ls"}), "c1")
		w.submit(domaintest.User, "and then?")
		w.step(domaintest.Kill{Process: "p1"})
		w.step(domaintest.Claim{Process: "p1", Budget: 3})
		w.step(domaintest.Bury{})
		w.do(domain.Rescue{Run: "r2"})
		w.again()
		w.result("c1", domaintest.Result("c1", "late"))
		w.begin("p2", "r2")
		w.do(domain.StartCalls{Run: w.run, Token: w.token(), Calls: []string{"c1"}})
		w.result("c1", domaintest.StandIn("c1"))
		w.result("c2", domaintest.Result("c2", "a.txt"))
		w.do(domain.HandBack{Run: w.run, Token: w.token()})
		w.again()
		w.step(domaintest.Drain{Process: "p2"})
		w.step(domaintest.Claim{Process: "p2", Budget: 3})
		w.begin("p3", "r2")
		w.append(domaintest.AssistantFailed(seqs(1), domain.StopError, "half"))
		w.settle(domain.Success)
		w.begin("p3", "r2")
		w.append(domaintest.AssistantText(seqs(1, 3), "both"))
		w.settle(domain.Success)
		w.step(domaintest.Bury{})
	}},
	{"park-and-cancel", func(w *writer) {
		w.create("")
		w.submit(domaintest.User, "may I?") // 2
		w.step(domaintest.Register{Process: "p1"})
		w.begin("p1", "r2")
		w.append(domaintest.AssistantCalls(seqs(1), "", domaintest.Call{ID: "c1", Name: "ask"}))
		w.do(domain.Unpark{})
		w.do(domain.ParkRun{Run: w.run, Token: w.token(), SeenSignals: 0, Wait: `{"d":1}`})
		w.do(domain.ParkRun{Run: w.run, Token: w.token(), SeenSignals: 1, Wait: `{"d":1}`})
		w.again()
		w.step(domaintest.Claim{Process: "p1", Budget: 3})
		w.do(domain.Unpark{})
		w.begin("p1", "r2")
		w.do(domain.RequestCancel{Run: "r2"})
		w.again()
		w.submit(domaintest.Guide, "do this instead") // 15, demoted, the successor's
		w.do(domain.StartCalls{Run: w.run, Token: w.token(), Calls: []string{"c1"}})
		w.settle(domain.Failure)
		w.result("c1", domaintest.StandIn("c1"))
		w.settle(domain.Failure)
		w.again()
		w.begin("p1", "r15")
		w.do(domain.EnsureRun{At: w.at(), Compact: true, NewRun: w.id("r")})
		w.do(domain.AppendCompaction{At: w.at(), Run: w.run, Token: w.token(), Payload: domaintest.Compaction("so far", 1)})
		w.again()
		w.append(domaintest.AssistantText(seqs(1, 3), "the cancel ended the turn of 1"))
		w.append(domaintest.AssistantText(seqs(3), "done"))
		w.do(domain.CloseSession{})
		w.submit(domaintest.User, "too late")
		w.settle(domain.Success)
		w.again()
	}},
	{"external", func(w *writer) {
		w.create(domain.External)
		w.do(domain.AppendExternal{At: w.at(), RequestID: "x1", Payload: domaintest.External("1")})
		w.again()
		w.submit(domaintest.User, "hello")
		w.do(domain.EnsureRun{At: w.at(), NewRun: w.id("r")})
		w.do(domain.CloseSession{})
		w.do(domain.AppendExternal{At: w.at(), RequestID: "x1", Payload: domaintest.External("2")})
		w.do(domain.AppendExternal{At: w.at(), RequestID: "x2", Payload: domaintest.External("2")})
		w.ref.Tenant = "t2"
		w.do(domain.AppendExternal{At: w.at(), RequestID: "x2", Payload: domaintest.External("2")})
	}},
	{"payloads", func(w *writer) {
		w.create("")
		for _, text := range hostile {
			id := w.id("q")
			p := domaintest.Payload(text).With("requestId", domaintest.Quote(id))
			w.do(domain.SubmitInput{At: w.at(), RequestID: id, Payload: p, NewRun: w.id("r")})
			w.again()
		}
	}},
}
