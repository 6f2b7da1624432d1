package domain_test

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// commands builds the command of a line. In the lines, P is a process, K a key and C a tool call.
//
//	create [external] [child]      external K REF      patch [title=…] [model=…]      close
//	input K "text" [queue|guide] [retryOf=N]           raw K {payload}
//	ensure [compact]               cancel [RUN]        unpark
//	claim P [budget=N]             request P           (the snapshot of a request boundary)
//	answer P "text" [stop=…] [inputs=1,2]              calls P "text" C=TOOL … [start=C,…] [inputs=…]
//	fail P error|aborted           start P C …         result P C "text"               standin P C
//	compact P [kept=N] ["summary"] park P seen=N "wait" [safe=C,…]
//	settle P success|failure|permanent [backoff=2s] [budget=N]
//	handback P                     rescue RUN [jitter=0.5]
//	register P    kill P    advance D    again         (the last command once more)
var commands = map[string]func(*script, args) domain.Command{
	"create": (*script).create, "external": (*script).external, "patch": (*script).patch,
	"close":  func(_ *script, _ args) domain.Command { return domain.CloseSession{} },
	"unpark": func(*script, args) domain.Command { return domain.Unpark{} },
	"input":  (*script).input, "raw": (*script).raw,
	"ensure": func(s *script, a args) domain.Command {
		return domain.EnsureRun{At: s.w.Now, Compact: a.has("compact"), NewRun: s.newRun()}
	},
	"cancel": func(_ *script, a args) domain.Command { return domain.RequestCancel{Run: a.pos(0)} },
	"claim": func(s *script, a args) domain.Command {
		return domain.ClaimRun{At: s.w.Now, Run: s.ledger().Row.ActiveRun, Process: a.pos(0),
			Budget: cmp.Or(a.int("budget"), domain.DefaultBudget)}
	},
	"answer": (*script).answer, "calls": (*script).calls, "fail": (*script).failure, "start": (*script).start,
	"result": (*script).result, "standin": (*script).standIn, "compact": (*script).compaction,
	"park": (*script).park, "settle": (*script).settle,
	"handback": func(s *script, a args) domain.Command {
		w := s.worker(a)
		return domain.HandBack{Run: w.run, Token: w.token}
	},
	"rescue": func(_ *script, a args) domain.Command {
		jitter, _ := strconv.ParseFloat(a.named["jitter"], 64)
		return domain.Rescue{Run: a.pos(0), Jitter: jitter}
	},
}

func (s *script) worker(a args) *worker {
	w := s.workers[a.pos(0)]
	require.NotNil(s.t, w, "%s has claimed nothing", a.pos(0))
	return w
}

// newRun is the id that comes next: R1, R2, …
func (s *script) newRun() string {
	l := s.ledger()
	n := len(l.Runs) + 1
	if next := l.Runs[l.Row.ActiveRun].NextRunID; next != "" {
		n++
	}
	return "R" + strconv.Itoa(n)
}

func (s *script) create(a args) domain.Command {
	c := domain.CreateSession{At: s.w.Now, Request: domaintest.Payload(`{"id":"s"}`)}
	if a.has("external") {
		c.StateOwner = domain.External
	}
	if a.has("child") {
		c.Parent = &domain.Parent{Session: "parent", Run: "PR", Call: "pc"}
	}
	return c
}

func (s *script) external(a args) domain.Command {
	return domain.AppendExternal{At: s.w.Now, RequestID: a.pos(0), Payload: domaintest.External(a.pos(1))}
}

func (s *script) patch(a args) domain.Command {
	c := domain.PatchSession{}
	if v, ok := a.named["title"]; ok {
		c.Title = &v
	}
	if v, ok := a.named["model"]; ok {
		c.Model = &v
	}
	return c
}

func (s *script) input(a args) domain.Command {
	p := domaintest.User(a.pos(0), a.pos(1))
	switch {
	case a.has("queue"):
		p = domaintest.Queued(a.pos(0), a.pos(1))
	case a.has("guide"):
		p = domaintest.Guide(a.pos(0), a.pos(1))
	}
	if of := a.named["retryOf"]; of != "" {
		p = p.With("retryOf", of)
	}
	return domain.SubmitInput{At: s.w.Now, RequestID: a.pos(0), Payload: p, NewRun: s.newRun()}
}

func (s *script) raw(a args) domain.Command {
	return domain.SubmitInput{At: s.w.Now, RequestID: a.pos(0), Payload: domaintest.Payload(a.pos(1)), NewRun: s.newRun()}
}

// reply is the commit of an answer to the worker's last request.
func (s *script) reply(a args, stop domain.StopReason, content ...domain.Block) domain.Command {
	w := s.worker(a)
	seqs := w.presented.Seqs
	if list, ok := a.named["inputs"]; ok {
		seqs = nil
		for _, n := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
			seq, err := strconv.Atoi(n)
			require.NoError(s.t, err)
			seqs = append(seqs, domain.Seq(seq))
		}
	}
	if a.pos(1) != "" && a.verb != "fail" {
		content = append([]domain.Block{{Type: domain.TextBlock, Text: a.pos(1)}}, content...)
	}
	m := domain.Assistant{Content: content, InputSeqs: seqs, HasInputSeqs: true, StopReason: stop}
	if stop == domain.StopError {
		m.Error = "overloaded"
	}
	p, err := m.Payload(0)
	require.NoError(s.t, err)
	s.answers++
	return domain.AppendAssistant{
		At: s.w.Now, Run: w.run, Token: w.token, GenerationID: "g" + strconv.Itoa(s.answers), Payload: p,
		Start: a.list("start"),
	}
}

func (s *script) answer(a args) domain.Command {
	stop := domain.StopEndTurn
	if r := a.named["stop"]; r != "" {
		stop = domain.StopReason(r)
	}
	return s.reply(a, stop)
}

func (s *script) calls(a args) domain.Command {
	var blocks []domain.Block
	for i := 1; ; i++ {
		id := fmt.Sprintf("c%d", i)
		if tool, ok := a.named[id]; ok {
			blocks = append(blocks, domain.Block{Type: domain.CallBlock, ID: id, Name: tool, Arguments: "{}",
				ProviderID: "call_0"})
			continue
		}
		if i > 9 {
			return s.reply(a, domain.StopToolUse, blocks...)
		}
	}
}

func (s *script) failure(a args) domain.Command {
	return s.reply(a, domain.StopReason(a.pos(1)), domain.Block{Type: domain.TextBlock, Text: "half an ans"})
}

func (s *script) start(a args) domain.Command {
	w := s.worker(a)
	return domain.StartCalls{Run: w.run, Token: w.token, Calls: a.words[1:]}
}

func (s *script) result(a args) domain.Command {
	return s.output(a, domaintest.Result(a.pos(1), a.pos(2)))
}

func (s *script) standIn(a args) domain.Command { return s.output(a, domaintest.StandIn(a.pos(1))) }

func (s *script) output(a args, p domain.Payload) domain.Command {
	w := s.worker(a)
	return domain.AppendToolResult{At: s.w.Now, Run: w.run, Token: w.token, Call: a.pos(1), Payload: p}
}

func (s *script) compaction(a args) domain.Command {
	w := s.worker(a)
	c := domain.AppendCompaction{At: s.w.Now, Run: w.run, Token: w.token}
	if kept := a.int("kept"); kept != 0 {
		c.Payload = domaintest.Compaction(a.pos(1), domain.Seq(kept))
	}
	return c
}

func (s *script) park(a args) domain.Command {
	w := s.worker(a)
	return domain.ParkRun{
		Run: w.run, Token: w.token, SeenSignals: int64(a.int("seen")), Wait: a.pos(1), ReplaySafe: a.list("safe"),
	}
}

func (s *script) settle(a args) domain.Command {
	w := s.worker(a)
	c := domain.Settle{
		At: s.w.Now, Run: w.run, Token: w.token, Result: domain.Result(a.pos(1)), Presented: w.injected,
		Budget: cmp.Or(a.int("budget"), domain.DefaultBudget), NewRun: s.newRun(),
		Summary: domain.Summary{Turns: 1, Provider: "fake", Model: "fake", StopReason: domain.StopEndTurn, DurationMS: 24},
	}
	if c.Result != domain.Success {
		c.Summary.StopReason, c.Summary.Error, c.Error = domain.StopError, "overloaded", "overloaded"
	}
	if d := a.named["backoff"]; d != "" {
		var err error
		c.Backoff, err = time.ParseDuration(d)
		require.NoError(s.t, err)
	}
	return c
}
