package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
)

// delta is a chunk of the wire with the given delta.
func delta(d string) string {
	return openaitest.Event(`{"id":"x","model":"test-model","choices":[{"index":0,"delta":` + d + `}]}`)
}

func callPieces(pieces string) string { return delta(`{"tool_calls":[` + pieces + `]}`) }

var toolCalls = openaitest.Event(openaitest.Finish("tool_calls")) + openaitest.Done

// K01: two calls, however their pieces are numbered.
func TestK01NumberingOfCalls(t *testing.T) {
	t.Parallel()
	b, p := backend(t, newStore(t, "sqlite"))
	for name, c := range map[string]struct {
		body      string
		providers [2]string
	}{
		"A no index": {callPieces(`{"id":"ca","type":"function","function":{"name":"calculator","arguments":"{\"expression\":\"1\"}"}}`) +
			callPieces(`{"id":"cb","type":"function","function":{"name":"calculator","arguments":"{\"expression\":\"2\"}"}}`) + toolCalls, [2]string{"ca", "cb"}},
		"B constant index": {callPieces(`{"index":0,"id":"ca","type":"function","function":{"name":"calculator","arguments":"{\"expr"}}`) +
			callPieces(`{"index":0,"id":"","function":{"arguments":"ession\":"}}`) + callPieces(`{"index":0,"id":null,"function":{"arguments":"\"1\"}"}}`) +
			callPieces(`{"index":0,"id":"cb","type":"function","function":{"name":"calculator","arguments":""}}`) +
			callPieces(`{"index":0,"id":"","function":{"arguments":"{\"expression\":"}}`) + callPieces(`{"index":0,"id":null,"function":{"arguments":"\"2\"}"}}`) + toolCalls, [2]string{"ca", "cb"}},
		"C no ids": {callPieces(`{"index":0,"function":{"name":"calculator","arguments":""}}`) + callPieces(`{"index":0,"function":{"arguments":"{\"expression\":\"1\"}"}}`) +
			callPieces(`{"index":1,"function":{"name":"calculator","arguments":""}}`) + callPieces(`{"index":1,"function":{"arguments":"{\"expression\":\"2\"}"}}`) + toolCalls, [2]string{}},
		"D interleaved": {callPieces(`{"index":0,"id":"ca","type":"function","function":{"name":"calculator","arguments":""}}`) +
			callPieces(`{"index":1,"id":"cb","type":"function","function":{"name":"calculator","arguments":""}}`) +
			callPieces(`{"index":0,"function":{"arguments":"{\"expression\":"}}`) + callPieces(`{"index":1,"function":{"arguments":"{\"expression\":\"2\"}"}}`) +
			callPieces(`{"index":0,"function":{"arguments":"\"1\"}"}}`) + toolCalls, [2]string{"ca", "cb"}},
	} {
		t.Run(name, func(t *testing.T) {
			b.Push(openaitest.Bytes(c.body), answered("three"))
			p.create(fmt.Sprintf(`{"id":%q,"tools":["calculator"]}`, name))
			p.input(escaped(name), `{"text":"add","requestId":"r"}`)
			events := p.finished(escaped(name), 1)
			require.Equal(t, []string{"user.message", "assistant.message", "tool.result", "tool.result", "assistant.message", "run.finished"}, kinds(events))
			said := events[1].told(t)
			require.Len(t, said.Content, 2)
			for i, call := range said.Content {
				require.Equal(t, c.providers[i], call.ProviderID)
				require.Equal(t, "calculator", call.Name)
				require.JSONEq(t, fmt.Sprintf(`{"expression":"%d"}`, i+1), string(call.Arguments), "calls stand in stream order")
				for _, r := range events[2:4] {
					if r.told(t).ToolCallID == call.ID {
						require.Equal(t, fmt.Sprint(i+1), r.told(t).Content[0].Text, "the result is that of its call")
					}
				}
			}
			story(t, events)
			request := lastMessages(t, b, 1)[0]
			require.Equal(t, []string{"user: add", `assistant: calculator{"expression":"1"} calculator{"expression":"2"}`, "tool: 1", "tool: 2"}, shown(request))
		})
	}
}

func escaped(name string) string { return strings.ReplaceAll(name, " ", "%20") }

// K01: what cannot be told apart, and a call without a name, is a failed attempt and no call.
func TestK01CallsThatCannotBe(t *testing.T) {
	t.Parallel()
	b, p := backend(t, newStore(t, "sqlite"))
	for name, body := range map[string]string{
		"guess": callPieces(`{"id":"ca","function":{"name":"calculator","arguments":""}}`) + callPieces(`{"id":"cb","function":{"name":"calculator","arguments":""}}`) +
			callPieces(`{"function":{"arguments":"{\"expression\":\"1\"}"}}`) + toolCalls,
		"nameless": callPieces(`{"index":0,"id":"ca","function":{"arguments":"{\"expression\":\"1\"}"}}`) + toolCalls,
	} {
		t.Run(name, func(t *testing.T) {
			b.Push(openaitest.Bytes(body), answered("well"))
			p.create(fmt.Sprintf(`{"id":%q,"tools":["calculator"]}`, name))
			p.input(name, `{"text":"go","requestId":"r"}`)
			events := p.finished(name, 2)
			tells(t, events, "input go", "[1] error:", "failed error provider: …", "[1] end_turn: well", "done end_turn")
			require.Equal(t, []string{"user: go"}, shown(lastMessages(t, b, 1)[0]))
		})
	}
}

// K02: argument text that is not, or not obviously, one object.
func TestK02ArgumentText(t *testing.T) {
	t.Parallel()
	b, p := backend(t, newStore(t, "sqlite"))
	one := func(tool string, pieces ...string) []string {
		all := []string{callPieces(`{"index":0,"id":"ca","type":"function","function":{"name":"` + tool + `"}}`)}
		for _, piece := range pieces {
			all = append(all, callPieces(`{"index":0,"function":{"arguments":`+piece+`}}`))
		}
		return append(all, toolCalls)
	}
	euro := strings.Join(one("calculator", `"{\"expression\":\"€\"}"`), "")
	at := strings.Index(euro, "€")
	city := `"{\"zone\":\"Europe/Oslo\"}"`
	cut := []string{one("time", `"{\"zone\":\"Europe/Os"`)[0] + one("time", `"{\"zone\":\"Europe/Os"`)[1], openaitest.Event(openaitest.Finish("length")) + openaitest.Done}
	for name, c := range map[string]struct {
		pieces []string
		call   string // as the ledger has it
		result string
	}{
		"A_none":   {one("time"), "[1] tool_use: time{}", "result 1: 2…"},
		"A_empty":  {one("time", `""`), "[1] tool_use: time{}", "result 1: 2…"},
		"B_twice":  {one("time", city, city), `[1] tool_use: time{"zone":"Europe/Oslo"}{"zone":"Europe/Oslo"}`, "result 1 error: The arguments are not one JSON object, so the call was not executed: {…"},
		"C_cut":    {cut, `[1] length: time{"zone":"Europe/Os`, "result 1 error: The arguments are not one JSON object, so the call was not executed: {…"},
		"D_pair":   {one("calculator", `"{\"expression\":\"\\ud83d"`, `"\\ude00\"}"`), `[1] tool_use: calculator{"expression":"😀"}`, "result 1 error: unexpected '😀' at byte 0 where a number is expected"},
		"E_bytes":  {[]string{euro[:at+1], euro[at+1:]}, `[1] tool_use: calculator{"expression":"€"}`, "result 1 error: unexpected '€' at byte 0 where a number is expected"},
		"F_object": {one("calculator", `{"expression":"1+1"}`), `[1] tool_use: calculator{"expression":"1+1"}`, "result 1: 2"},
		"G_null":   {one("time", `null`), "[1] tool_use: time{}", "result 1: 2…"},
	} {
		t.Run(name, func(t *testing.T) {
			b.Push(openaitest.Bytes(c.pieces...), answered("well"))
			p.create(fmt.Sprintf(`{"id":%q,"tools":["calculator","time"]}`, name))
			p.input(name, `{"text":"go","requestId":"r"}`)
			events := p.finished(name, 1)
			tells(t, events, "input go", c.call, c.result, "[1] end_turn: well", "done end_turn")
			request := lastMessages(t, b, 1)[0]
			require.Len(t, request, 3, "the call and its result are shown to the model")
			require.Equal(t, events[2].told(t).Content[0].Text, *request[2].Content)
		})
	}
}

var overloaded = openaitest.Bytes(`data: {"id":"x","choices":[],"error":{"code":502,"message":"upstream at capacity"}}`+"\n\n", openaitest.Done)

// K03: errors inside an answer with status 200.
func TestK03ErrorsInsideStreams(t *testing.T) {
	t.Parallel()
	b := openaitest.Start(t)
	p := serve(t, newStore(t, "sqlite"), []string{"OPENAI_BASE_URL=" + b.URL(), "OPENAI_MODEL=test-model"}, "--provider", "openai", "--attempts", "2")
	partial := openaitest.Bytes(openaitest.Event(openaitest.Text("First we open th")),
		"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n")
	bare := openaitest.Bytes(`{"error":{"message":"context too large","type":"exceed_context_size_error"}}` + "\n")
	whole := openaitest.Whole(`{"error":{"message":"no such model","type":"invalid_request_error","code":"model_not_found"}}`)
	for name, c := range map[string]struct {
		answer   openaitest.Response
		attempts int
		text     string
		reason   string
		fault    string
	}{
		"A": {overloaded, 2, "", "attempts_exhausted", "provider: upstream at capacity"},
		"B": {partial, 2, "First we open th", "attempts_exhausted", "provider: Overloaded"},
		"C": {bare, 1, "", "permanent_failure", "context_overflow: nothing more can leave the context: provider: context too large"},
		"D": {whole, 1, "", "permanent_failure", "provider: no such model"},
	} {
		t.Run(name, func(t *testing.T) {
			again := make(chan struct{})
			for i := range c.attempts {
				if i > 0 {
					c.answer.Steps = append([]openaitest.Step{{Until: again}}, c.answer.Steps...)
				}
				b.Push(c.answer)
			}
			p.create(fmt.Sprintf(`{"id":%q}`, name))
			p.input(name, `{"text":"how?","requestId":"r"}`)
			want := []string{"input how?"}
			for range c.attempts {
				want = append(want, strings.TrimSpace("[1] error: "+c.text), "failed error "+c.fault+"…")
			}
			if c.attempts > 1 {
				p.finished(name, 1)
				require.Contains(t, []any{"pending", "running"}, p.newest(name)["status"], "there is budget left")
			}
			close(again)
			events := p.rested(name)
			tells(t, events, want...)
			run := p.newest(name)
			require.Equal(t, []any{"failed", c.reason, float64(c.attempts)}, []any{run["status"], run["reason"], run["attempts"]})
			require.Contains(t, run["error"], c.fault)
			require.Zero(t, b.Pending())

			b.Push(answered("Push."))
			p.input(name, `{"text":"again?","requestId":"r2"}`)
			events = p.rested(name)
			next := len(want) + 1
			tells(t, events, append(want, "input again?", fmt.Sprintf("[1 %d] end_turn: Push.", next), "done end_turn")...)
			require.Equal(t, []string{"user: how?\n\nagain?"}, shown(lastMessages(t, b, 1)[0]), "the input stayed unanswered; nothing of the failure is shown")
		})
	}
}

// K04: streams without an end, and the token cap.
func TestK04Ends(t *testing.T) {
	t.Parallel()
	b, p := backend(t, newStore(t, "sqlite"))
	text, thought := openaitest.Text("The answer is"), openaitest.Thinking("Let me think")
	for name, c := range map[string]struct {
		answer openaitest.Response
		first  []string // what the ledger says of it
		shows  []string // what the next request shows of it
	}{
		"A": {openaitest.Events(text), []string{"[1] error: The answer is", "failed error provider: …"}, nil},
		"B": {openaitest.Events(thought), []string{"[1] error: Let me think", "failed error provider: …"}, nil},
		"C": {openaitest.Stream(thought, openaitest.Finish("length"), openaitest.Usage(10, 32000)), []string{"[1] error: Let me think", "failed length provider: …"}, nil},
		"D": {
			openaitest.Stream(openaitest.CallHead(0, "ca", "sleep"), openaitest.CallArguments(0, `{"ms":1`), openaitest.Finish("length")),
			[]string{`[1] length: sleep{"ms":1`, "result 1 error: The arguments are not one JSON object, so the call was not executed: {\"ms\":1"},
			[]string{`assistant: sleep{"malformed":"{\"ms\":1"}`, `tool: The arguments are not one JSON object, so the call was not executed: {"ms":1`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b.Push(c.answer, answered("42."))
			p.create(fmt.Sprintf(`{"id":%q,"tools":["sleep"]}`, name))
			p.input(name, `{"text":"what?","requestId":"r"}`)
			events := p.rested(name)
			tells(t, events, append(append([]string{"input what?"}, c.first...), "[1] end_turn: 42.", "done end_turn")...)
			require.Equal(t, append([]string{"user: what?"}, c.shows...), shown(lastMessages(t, b, 1)[0]))
			require.Equal(t, "done", p.newest(name)["status"])
		})
	}
	t.Run("E", func(t *testing.T) {
		read := make(chan struct{})
		good := openaitest.Events(openaitest.Text("42."), openaitest.Finish("stop")).Ending(openaitest.Reset)
		good.Steps = append(good.Steps, openaitest.Step{Until: read})
		b.Push(good)
		p.create(`{"id":"E"}`)
		frames := p.stream(t.Context(), "E", "after=0&partials=1")
		p.input("E", `{"text":"what?","requestId":"r"}`)
		require.Equal(t, "42.", nextPartial(t, frames).Delta.Text)
		close(read)
		tells(t, p.rested("E"), "input what?", "[1] end_turn: 42.", "done end_turn")
	})
	t.Run("text up to the cap", func(t *testing.T) {
		b.Push(openaitest.Stream(openaitest.Text("Once upon"), openaitest.Finish("length")))
		p.create(`{"id":"cap"}`)
		p.input("cap", `{"text":"a story","requestId":"r"}`)
		tells(t, p.rested("cap"), "input a story", "[1] length: Once upon", "done length")
	})
}

// K09: what failed or says nothing is not sent again.
func TestK09NothingEmptyIsSentAgain(t *testing.T) {
	t.Parallel()
	b, p := backend(t, newStore(t, "sqlite"))
	t.Run("1 and 2 aborted while thinking", func(t *testing.T) {
		b.Push(openaitest.Events(openaitest.Thinking("Hm")).Ending(openaitest.Hang), answered("both"))
		p.create(`{"id":"s1"}`)
		frames := p.stream(t.Context(), "s1", "after=0&partials=1")
		p.input("s1", `{"text":"a","requestId":"ra"}`)
		nextPartial(t, frames)
		require.Equal(t, http.StatusAccepted, p.call("POST", "/v1/sessions/s1/cancel", `{}`).status)
		tells(t, p.rested("s1"), "input a", "[1] aborted: Hm", "cancelled aborted")
		p.input("s1", `{"text":"b","requestId":"rb"}`)
		tells(t, p.rested("s1"), "input a", "[1] aborted: Hm", "cancelled aborted", "input b", "[1 4] end_turn: both", "done end_turn")
		require.Equal(t, []string{"user: a\n\nb"}, shown(lastMessages(t, b, 1)[0]))
	})
	t.Run("3 blank text beside a call", func(t *testing.T) {
		b.Push(openaitest.Stream(openaitest.Text("\n\n"), openaitest.CallHead(0, "ca", "sleep"), openaitest.CallArguments(0, `{"ms":0}`), openaitest.Finish("tool_calls")), answered("ok"))
		p.create(`{"id":"s3","tools":["sleep"]}`)
		p.input("s3", `{"text":"a","requestId":"r"}`)
		p.rested("s3")
		require.Equal(t, []string{"user: a", `assistant: sleep{"ms":0}`, "tool: waited 0 ms"}, shown(lastMessages(t, b, 1)[0]))
	})
	t.Run("4 the third attempt asks what the first did", func(t *testing.T) {
		down := openaitest.Error(http.StatusInternalServerError, openaitest.Fault("down", "server_error"))
		b.Push(down, down, answered("up"))
		p.create(`{"id":"s4","system":"Be brief.","tools":["time"]}`)
		p.input("s4", `{"text":"a","requestId":"r"}`)
		tells(t, p.rested("s4"), "input a", "[1] error:", "failed error provider: …", "[1] error:", "failed error provider: …", "[1] end_turn: up", "done end_turn")
		all := b.Requests()
		n := len(all)
		require.Equal(t, string(all[n-3].Body), string(all[n-1].Body))
		require.Equal(t, string(all[n-2].Body), string(all[n-1].Body))
	})
}

// K11: a backend that has one id for all calls of the session.
func TestK11OneIDForAllCalls(t *testing.T) {
	t.Parallel()
	b, p := backend(t, newStore(t, "sqlite"))
	once := func(expression string) openaitest.Response {
		return openaitest.Stream(openaitest.CallHead(0, "call_0", "calculator"), openaitest.CallArguments(0, `{"expression":"`+expression+`"}`), openaitest.Finish("tool_calls"))
	}
	p.create(`{"id":"s1","tools":["calculator"]}`)
	for i, expression := range []string{"1+1", "2+2", "2+2"} {
		b.Push(once(expression), answered("ok"))
		p.input("s1", fmt.Sprintf(`{"text":"turn %d","requestId":"r%d"}`, i+1, i))
		p.rested("s1")
	}
	b.Push(openaitest.Stream(
		openaitest.CallHead(0, "call_0", "calculator"), openaitest.CallArguments(0, `{"expression":"5"}`),
		openaitest.CallHead(1, "call_0", "calculator"), openaitest.CallArguments(1, `{"expression":"6"}`), openaitest.Finish("tool_calls"),
	), answered("ok"))
	p.input("s1", `{"text":"turn 4","requestId":"r4"}`)
	events := p.rested("s1")
	calls := 0
	for _, e := range events {
		for _, c := range e.told(t).Content {
			if c.Type == "toolCall" {
				calls++
				require.Equal(t, "call_0", c.ProviderID, "the backend's id is kept beside")
			}
		}
	}
	require.Equal(t, 5, calls)
	require.Equal(t, 5, count(events, "tool.result"))
	story(t, events)
	require.Equal(t, []string{
		"user: turn 1", `assistant: calculator{"expression":"1+1"}`, "tool: 2", "assistant: ok",
		"user: turn 2", `assistant: calculator{"expression":"2+2"}`, "tool: 4", "assistant: ok",
		"user: turn 3", `assistant: calculator{"expression":"2+2"}`, "tool: 4", "assistant: ok",
		"user: turn 4", `assistant: calculator{"expression":"5"} calculator{"expression":"6"}`, "tool: 5", "tool: 6",
	}, shown(lastMessages(t, b, 1)[0]))
	require.Equal(t, 4, count(events, "run.finished"), "no attempt failed")
}
