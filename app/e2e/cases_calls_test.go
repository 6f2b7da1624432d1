package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
)

const calculator, clock = `"tools":["calculator"]`, `"tools":["calculator","time"]`

// played is an answer by wire. A wire that is not there cannot say it.
type played map[string]func(w onWire) wiretest.Response

// callPieces is an event of the Chat Completions wire with pieces of calls.
func callPieces(pieces string) string {
	return openaitest.Event(`{"id":"x","model":"test-model","choices":[{"index":0,"delta":{"tool_calls":[` + pieces + `]}}]}`)
}

// chatCalls is an answer of the Chat Completions wire that consists of pieces of calls.
func chatCalls(pieces ...string) func(onWire) wiretest.Response {
	return func(onWire) wiretest.Response {
		var events []string
		for _, p := range pieces {
			events = append(events, callPieces(p))
		}
		return wiretest.Bytes(append(events, openaitest.Event(openaitest.Finish("tool_calls")), openaitest.Done)...)
	}
}

// K01: two calls, however their pieces are numbered.
func TestK01NumberingOfCalls(t *testing.T) {
	t.Parallel()
	both := []speech{calls("ca", "calculator", `{"expression":`, `"1"}`), calls("cb", "calculator", `{"expression":`, `"2"}`)}
	sent := func(pattern, instead string) func(onWire) wiretest.Response {
		return func(w onWire) wiretest.Response { return rewritten(w.answer("tool_use", both...), pattern, instead) }
	}
	mixed := func(w onWire) wiretest.Response { return w.interleaved("tool_use", both[0], both[1]) }
	variants := map[string]played{
		"A no index": {
			chatWire: chatCalls(`{"id":"ca","type":"function","function":{"name":"calculator","arguments":"{\"expression\":\"1\"}"}}`,
				`{"id":"cb","type":"function","function":{"name":"calculator","arguments":"{\"expression\":\"2\"}"}}`),
			messagesWire: sent(`"index":\d,`, ""), responsesWire: sent(`"output_index":\d,`, ""),
			generateWire: sent(`^$`, ""), // has none
		},
		"B constant index": {
			chatWire: chatCalls(`{"index":0,"id":"ca","type":"function","function":{"name":"calculator","arguments":"{\"expr"}}`,
				`{"index":0,"id":"","function":{"arguments":"ession\":"}}`, `{"index":0,"id":null,"function":{"arguments":"\"1\"}"}}`,
				`{"index":0,"id":"cb","type":"function","function":{"name":"calculator","arguments":""}}`,
				`{"index":0,"id":"","function":{"arguments":"{\"expression\":"}}`, `{"index":0,"id":null,"function":{"arguments":"\"2\"}"}}`),
			messagesWire: sent(`"index":\d`, `"index":0`), responsesWire: sent(`"output_index":\d`, `"output_index":0`),
			// generateWire has none
		},
		"C no ids": {
			chatWire: sent(`"id":"c[ab]",`, ""), messagesWire: sent(`"id":"c[ab]",`, ""), responsesWire: sent(`"call_id":"c[ab]",`, ""),
			generateWire: sent(`"id":"c[ab]",`, ""),
		},
		"D interleaved": {chatWire: mixed, messagesWire: mixed, responsesWire: mixed}, // generateWire sends a call in one piece
	}
	onEachWire(t, newStore(t, "sqlite"), func(t *testing.T, w onWire) {
		for name, by := range variants {
			if by[w.provider] == nil {
				continue
			}
			ids := []string{"ca", "cb"}
			if name == "C no ids" {
				ids = []string{"", ""}
				if w.provider == responsesWire {
					ids = []string{"fc_0", "fc_1"} // those of the items
				}
			}
			w.push(by[w.provider](w), w.ends("three"))
			s := w.session(name, calculator)
			w.say(s, "add")
			events := w.finished(s, 1)
			require.Equal(t, []string{"user.message", "assistant.message", "tool.result", "tool.result", "assistant.message", "run.finished"}, kinds(events), name)
			said := events[1].told(t)
			require.Len(t, said.Content, 2, name)
			for i, call := range said.Content {
				require.Equal(t, ids[i], call.ProviderID, name)
				require.Equal(t, "calculator", call.Name, name)
				require.JSONEq(t, fmt.Sprintf(`{"expression":"%d"}`, i+1), string(call.Arguments), "%s: calls stand in stream order", name)
				for _, r := range events[2:4] {
					if r.told(t).ToolCallID == call.ID {
						require.Equal(t, fmt.Sprint(i+1), r.told(t).Content[0].Text, "%s: the result is that of its call", name)
					}
				}
			}
			story(t, events)
			require.Equal(t, []string{"user: add", `assistant: calculator{"expression":"1"} calculator{"expression":"2"}`, "tool: 1", "tool: 2"}, w.requested(1), name)
		}
	})
}

// K01: what cannot be told apart, and a call without a name, is a failed attempt and no call.
func TestK01CallsThatCannotBe(t *testing.T) {
	t.Parallel()
	a, b := calls("ca", "calculator", `{"expression":`, `"1"}`), calls("cb", "calculator", `{"expression":`, `"2"}`)
	nameless := func(w onWire) wiretest.Response { return w.answer("tool_use", calls("ca", "", `{"expression":"1"}`)) }
	lost := func(pattern string) func(onWire) wiretest.Response {
		return func(w onWire) wiretest.Response { return rewritten(w.interleaved("tool_use", a, b), pattern, "") }
	}
	variants := map[string]played{
		"nameless": {chatWire: nameless, messagesWire: nameless, generateWire: nameless, responsesWire: nameless},
		"guess": { // generateWire sends a call in one piece
			chatWire: lost(`"index":\d,`), messagesWire: lost(`"index":\d,`),
			responsesWire: lost(`"output_index":\d,|"item_id":"fc_\d",`),
		},
	}
	onEachWire(t, newStore(t, "sqlite"), func(t *testing.T, w onWire) {
		for name, by := range variants {
			if by[w.provider] == nil {
				continue
			}
			w.push(by[w.provider](w), w.ends("well"))
			s := w.session(name, calculator)
			w.say(s, "go")
			tells(t, w.finished(s, 2), "input go", "[1] error:…", "failed error provider: …", "[1] end_turn: well", "done end_turn")
			require.Equal(t, []string{"user: go"}, w.requested(1), name)
		}
	})
}

// K02: argument text that is not, or not obviously, one object.
func TestK02ArgumentText(t *testing.T) {
	t.Parallel()
	const malformed = "error: The arguments are not one JSON object, so the call was not executed: {…"
	const city = `{"zone":"Europe/Oslo"}`
	onEachWire(t, newStore(t, "sqlite"), func(t *testing.T, w onWire) {
		call := func(name string, pieces ...string) wiretest.Response {
			return w.answer("tool_use", calls("ca", name, pieces...))
		}
		for name, c := range map[string]struct {
			answer wiretest.Response
			call   string // as the ledger has it
			result string
		}{
			"A none":  {call("time"), "[1] tool_use: time{}", "result 1: 2…"},
			"A empty": {rewritten(call("time", ""), `("functionCall".*"name":"time")`, `$1,"args":""`), "[1] tool_use: time{}", "result 1: 2…"},
			"B twice": {call("time", city, city), "[1] tool_use: time" + city + city, "result 1 " + malformed},
			"C cut":   {w.answer("length", calls("ca", "time", `{"zone":"Europe/Os`)), `[1] length: time{"zone":"Europe/Os`, "result 1 " + malformed},
			"D pair": {
				call("calculator", `{"expression":"\ud83d`, `\ude00"}`),
				`[1] tool_use: calculator{"expression":"😀"}`, "result 1 error: unexpected '😀' at byte 0 where a number is expected",
			},
			"E bytes": {
				cutWithin(call("calculator", `{"expression":"€"}`), "€"),
				`[1] tool_use: calculator{"expression":"€"}`, "result 1 error: unexpected '€' at byte 0 where a number is expected",
			},
			"F object": { // as generateWire has it anyway
				rewritten(call("calculator", `{"expression":"1+1"}`), `"(arguments|partial_json|delta)":"\{\\"expression\\":\\"1\+1\\"\}"`, `"$1":{"expression":"1+1"}`),
				`[1] tool_use: calculator{"expression":"1+1"}`, "result 1: 2",
			},
			"G null": {
				rewritten(call("time", "{}"), `"(arguments|partial_json|delta)":"\{\}"|"(args)":\{\}`, `"$1$2":null`), "[1] tool_use: time{}", "result 1: 2…",
			},
		} {
			w.push(c.answer, w.ends("well"))
			s := w.session(name, clock)
			w.say(s, "go")
			events := w.finished(s, 1)
			tells(t, events, "input go", c.call, c.result, "[1] end_turn: well", "done end_turn")
			request := w.requested(1)
			require.Len(t, request, 3, "%s: the call and its result are shown to the model", name)
			require.Equal(t, "tool: "+events[2].told(t).Content[0].Text, request[2], name)
		}
	})
}

// K11: a backend that has one id for all calls of the session.
func TestK11OneIDForAllCalls(t *testing.T) {
	t.Parallel()
	onEachWire(t, newStore(t, "sqlite"), func(t *testing.T, w onWire) {
		once := func(expression string) speech {
			return calls("call_0", "calculator", `{"expression":"`+expression+`"}`)
		}
		s := w.session("s1", calculator)
		for i, turn := range [][]speech{{once("1+1")}, {once("2+2")}, {once("2+2")}, {once("5"), once("6")}} {
			w.push(w.answer("tool_use", turn...), w.ends("ok"))
			w.say(s, fmt.Sprint("turn ", i+1))
			w.rested(s)
		}
		events := w.events(s)
		n := 0
		for _, e := range events {
			for _, c := range e.told(t).Content {
				if c.Type == "toolCall" {
					n++
					require.Equal(t, "call_0", c.ProviderID, "the backend's id is kept beside")
				}
			}
		}
		require.Equal(t, 5, n)
		require.Equal(t, 5, count(events, "tool.result"))
		story(t, events)
		require.Equal(t, []string{
			"user: turn 1", `assistant: calculator{"expression":"1+1"}`, "tool: 2", "assistant: ok",
			"user: turn 2", `assistant: calculator{"expression":"2+2"}`, "tool: 4", "assistant: ok",
			"user: turn 3", `assistant: calculator{"expression":"2+2"}`, "tool: 4", "assistant: ok",
			"user: turn 4", `assistant: calculator{"expression":"5"} calculator{"expression":"6"}`, "tool: 5", "tool: 6",
		}, w.requested(1))
		require.Equal(t, 4, count(events, "run.finished"), "no attempt failed")
	})
}
