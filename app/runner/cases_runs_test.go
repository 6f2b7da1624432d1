package runner_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// printer is a tool that prints what its call's selection told it to; it keeps what it was told.
type printer struct {
	mu     sync.Mutex
	prints string
	told   []ports.ToolInvocation
}

func (*printer) Specs() []ports.ToolSpec { return []ports.ToolSpec{{Name: "print"}} }

func (p *printer) Execute(_ context.Context, c ports.ToolInvocation) (ports.ToolOutput, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, c)
	return ports.ToolOutput{Content: []domain.Block{{Type: domain.TextBlock, Text: p.prints}}}, nil
}

// withPrinter starts a process that has only the printer.
func (w *world) withPrinter(p *printer) *node {
	w.t.Helper()
	providers, err := runner.NewProviders(w.provider)
	require.NoError(w.t, err)
	l := &line{store: w.store}
	n := &node{w: w, line: l, Runner: runner.New(runner.Deps{
		Ledger: l, Runs: lineRuns{l, w.store.Runs()}, Processes: lineProcesses{l, w.store.Processes()},
		Wakeups: w.hub, Partials: w.partials, Providers: providers, Tools: []ports.Tools{p},
		Clock: clock{}, IDs: w.ids, Log: zap.NewNop(),
	}, runner.Config{Workers: 4})}
	require.NoError(w.t, n.Start(context.Background()))
	w.nodes = append(w.nodes, n)
	synctest.Wait()
	return n
}

const printing = `"selection":{"tools":["print"]}`

// K09, 3, K26 and K27, A: whatever a tool prints is stored, and what was stored is what the model is shown.
func TestK26WhatToolsPrint(t *testing.T) {
	for name, c := range map[string]struct{ prints, stored, shown string }{
		"nothing":       {"", "", "(no output)"},
		"white space":   {" \n\t", " \n\t", "(no output)"},
		"A real NULs":   {"d\x00i\x00r\x00", "d\x00i\x00r\x00", "d\x00i\x00r\x00"},
		"B spelled":     {`if s == "\u0000"`, `if s == "\u0000"`, `if s == "\u0000"`},
		"E controls":    {"\x01\x1f\x7f\ufffe\u2028", "\x01\x1f\x7f\ufffe\u2028", "\x01\x1f\x7f\ufffe\u2028"},
		"family":        {"👩‍👩‍👧 é", "👩‍👩‍👧 é", "👩‍👩‍👧 é"},
		"no text":       {"\xc3(\xff\xfe", "\ufffd(\ufffd\ufffd", "\ufffd(\ufffd\ufffd"},
		"half an emoji": {"ok \xf0\x9f\x8e", "ok \ufffd\ufffd\ufffd", "ok \ufffd\ufffd\ufffd"}, // one for each byte
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.script(calls("print"), text("ok"))
				n := w.withPrinter(&printer{prints: c.prints})
				w.say("go", printing)
				events := w.settled()
				require.Len(t, events, 5)
				out, err := domain.ParseToolOutput(events[2].Payload)
				require.NoError(t, err)
				require.False(t, out.IsError)
				require.Equal(t, c.stored, out.Content[0].Text)
				messages := w.provider.requests[1].Messages
				last := messages[len(messages)-1]
				require.Equal(t, domain.RoleTool, last.Role, "a result is never left out")
				require.Equal(t, c.shown, last.Content[0].Text)
				n.drain(time.Second)
			})
		})
	}
}

// K16, H and K26, D: arguments reach the tool and later requests character for character, signatures too.
func TestK16ArgumentsArriveAsTheyWere(t *testing.T) {
	const args = `{"id":8123456789012345677,"f":1.0,"m":1e400,"nul":"\u0000","spelled":"\\u0000"}`
	play(t, func(w *world) {
		w.script(func(context.Context, ports.ModelRequest, func(ports.Delta)) (ports.Reply, error) {
			return ports.Reply{StopReason: domain.StopToolUse, Content: []domain.Block{
				{Type: domain.ThinkingBlock, Thinking: "h\x00m", Signature: "s\x00g"},
				{Type: domain.TextBlock, Text: "t\x00"},
				{Type: domain.CallBlock, Name: "print", Arguments: args, ProviderID: "call\x000"},
			}}, nil
		}, text("ok"))
		tool := &printer{prints: "x"}
		n := w.withPrinter(tool)
		w.say("go", printing)
		events := w.settled()
		require.Len(t, events, 5)
		require.Len(t, tool.told, 1)
		require.Equal(t, args, tool.told[0].Arguments)
		stored, err := domain.ParseAssistant(events[1].Payload)
		require.NoError(t, err)
		for _, content := range [][]domain.Block{stored.Content, w.provider.requests[1].Messages[1].Content} {
			require.Equal(t, []string{"h\x00m", "s\x00g", "t\x00", args},
				[]string{content[0].Thinking, content[0].Signature, content[1].Text, content[2].Arguments})
		}
		n.drain(time.Second)
	})
}

// K25: a tool is told which call of which session it executes, by the id that stands in the ledger: whoever runs it again
// tells it the same, and calls that are otherwise alike are told apart.
func TestK25ToolsAreToldTheirCall(t *testing.T) {
	play(t, func(w *world) {
		w.script(calls(`print{"a":1}`, `print{"a":1}`), text("ok"))
		tool := &printer{prints: "x"}
		n := w.withPrinter(tool)
		w.say("go", printing)
		stored, err := domain.ParseAssistant(w.settled()[1].Payload)
		require.NoError(t, err)
		var want []ports.ToolInvocation
		for _, id := range stored.CallIDs() {
			want = append(want, ports.ToolInvocation{Ref: w.ref, ID: id, Name: "print", Arguments: `{"a":1}`})
		}
		require.Len(t, want, 2)
		require.NotEqual(t, want[0].ID, want[1].ID)
		require.ElementsMatch(t, want, tool.told)
		n.drain(time.Second)
	})
}

// K01: a call without a name is no call, wherever it stands; the attempt fails and is made again.
func TestK01NamelessCall(t *testing.T) {
	nameless := domain.Block{Type: domain.CallBlock, Arguments: `{}`}
	for name, content := range map[string][]domain.Block{
		"alone":             {nameless},
		"behind text":       {{Type: domain.TextBlock, Text: "Hm"}, nameless},
		"behind a good one": {{Type: domain.CallBlock, Name: "count", Arguments: `{}`}, nameless},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.script(func(context.Context, ports.ModelRequest, func(ports.Delta)) (ports.Reply, error) {
					return ports.Reply{StopReason: domain.StopToolUse, Content: content}, nil
				}, text("ok"))
				n := w.start()
				w.say("go")
				events := w.settled()
				require.Len(t, events, 5, w.text())
				require.Contains(t, w.text(), "2 assistant [1] error:")
				require.Contains(t, w.text(), "3 finished failed turns=1")
				require.Contains(t, w.text(), "4 assistant [1] end_turn: ok\n5 finished done")
				require.Zero(t, w.tools.times("count"))
				require.Len(t, w.provider.requests[1].Messages, 1)
				n.drain(time.Second)
			})
		})
	}
}

// K08, variant C: the tool ends half a minute after the cancel, when the next turn is long over.
func TestK08LateToolBehindTheNextTurn(t *testing.T) {
	play(t, func(w *world) {
		w.script(calls("count", `stubborn{"s":31}`), text("a.txt"))
		n := w.start()
		w.say("build it")
		time.Sleep(time.Second)
		w.cancel()
		w.settled()
		w.say("never mind")
		want := []string{
			"1 user queue build it", `2 assistant [1] tool_use: count{} | stubborn{"s":31}`, "3 result count {}",
			"4 result The call was interrupted: the user cancelled. (error) (interrupted)", "5 finished cancelled turns=1 aborted",
			"6 user queue never mind", "7 assistant [6] end_turn: a.txt", "8 finished done turns=1 end_turn",
		}
		w.expect(want...)
		time.Sleep(time.Minute)
		w.expect(want...)
		var shown []string
		for _, m := range w.provider.requests[1].Messages {
			shown = append(shown, string(m.Role)+" "+m.Content[0].Text)
		}
		require.Equal(t, []string{"user build it", "assistant ", "tool count {}", "tool The call was interrupted: the user cancelled.", "user never mind"}, shown)
		n.drain(time.Second)
	})
}

// K13, variant C: guides in the very moment of the settlement, and around it.
func TestK13GuideInTheMomentOfSettlement(t *testing.T) {
	for range 20 {
		for _, off := range []time.Duration{-time.Nanosecond, 0, time.Nanosecond, time.Second} {
			play(t, func(w *world) {
				w.script(slowly(3*time.Second, text("one")), text("two"))
				n := w.start()
				w.say("go")
				time.Sleep(3*time.Second + off)
				out := w.guide("G")
				require.True(t, out.Created)
				in, err := domain.ParseInput(out.Event.Payload)
				require.NoError(t, err)
				if off > 0 {
					require.Equal(t, domain.Queue, in.Delivery)
				}
				events := w.settled()
				require.Len(t, events, 6, w.text())
				for _, e := range events {
					var m struct{ InputSeqs []domain.Seq }
					require.NoError(t, json.Unmarshal(e.Payload.Bytes(), &m))
					if len(m.InputSeqs) > 0 && m.InputSeqs[0] != 1 {
						require.Equal(t, []domain.Seq{out.Event.Seq}, m.InputSeqs)
					}
				}
				require.Contains(t, w.text(), "end_turn: two")
				n.drain(time.Second)
			})
		}
	}
}
