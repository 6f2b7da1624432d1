package openai

import (
	"errors"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

var errReset = errors.New("connection reset by peer")

// events joins chunks to a stream without [DONE].
func events(chunks ...string) string {
	var b strings.Builder
	for _, c := range chunks {
		b.WriteString("data: " + c + "\n\n")
	}
	return b.String()
}

// stream is events with [DONE].
func stream(chunks ...string) string { return events(append(chunks, "[DONE]")...) }

func delta0(d string) string {
	return `{"id":"x","model":"m","choices":[{"index":0,"delta":` + d + `,"finish_reason":null}]}`
}

func calls0(list string) string { return delta0(`{"tool_calls":[` + list + `]}`) }

func content(s string) string { return delta0(`{"content":"` + s + `"}`) }

func finishWith(reason string) string {
	return `{"id":"x","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

func says(stop domain.StopReason, blocks ...domain.Block) ports.Reply {
	return ports.Reply{Content: blocks, StopReason: stop, Model: "m"}
}

func thinks(s string) domain.Block { return domain.Block{Type: domain.ThinkingBlock, Thinking: s} }

func calling(id, name, args string) domain.Block {
	return domain.Block{Type: domain.CallBlock, ProviderID: id, Name: name, Arguments: args}
}

func rawCalling(id, name, raw string) domain.Block {
	return domain.Block{Type: domain.CallBlock, ProviderID: id, Name: name, RawArguments: raw}
}

func bothReads(idA, idB string) ports.Reply {
	return says(domain.StopToolUse, calling(idA, "read_file", `{"p":1}`), calling(idB, "read_file", `{"p":2}`))
}

func headOf(index, id, name, args string) string {
	var b strings.Builder
	b.WriteString(`{`)
	if index != "" {
		b.WriteString(`"index":` + index + `,`)
	}
	if id != "" {
		b.WriteString(`"id":"` + id + `",`)
	}
	b.WriteString(`"type":"function","function":{"name":"` + name + `","arguments":"` + args + `"}}`)
	return b.String()
}

const (
	p1 = `{\"p\":1}`
	p2 = `{\"p\":2}`
)

// callFixtures: K01 and the other ways to number calls.
var callFixtures = []wiretest.Fixture{
	{
		Name: "K01 A: ids without index",
		Body: stream(
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"ca","type":"function","function":{"name":"read_file","arguments":"{\"p\":1}"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"cb","type":"function","function":{"name":"read_file","arguments":"{\"p\":2}"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`),
		Want: wiretest.Fixture{Want: bothReads("ca", "cb")}.By("asked").Want,
	},
	{
		Name: "K01 B: constant index, empty and null ids",
		Body: stream(
			calls0(headOf("0", "ca", "read_file", "")),
			calls0(`{"index":0,"id":"","function":{"name":"","arguments":"{\"p\""}}`),
			calls0(`{"index":0,"id":null,"function":{"name":null,"arguments":":1}"}}`),
			calls0(headOf("0", "cb", "read_file", "")),
			calls0(`{"index":0,"id":"","function":{"arguments":"{\"p\":"}}`),
			calls0(`{"index":0,"id":null,"function":{"arguments":"2}"}}`),
			finishWith("tool_calls")),
		Want: bothReads("ca", "cb"),
	},
	{
		Name: "K01 C: no ids",
		Body: stream(
			calls0(headOf("0", "", "read_file", "")), calls0(`{"index":0,"function":{"arguments":"{\"p\""}}`),
			calls0(`{"index":0,"function":{"arguments":":1}"}}`),
			calls0(headOf("1", "", "read_file", "")), calls0(`{"index":1,"function":{"arguments":"{\"p\":2}"}}`),
			finishWith("tool_calls")),
		Want: bothReads("", ""),
	},
	{
		Name: "K01 D: interleaved",
		Body: stream(
			calls0(headOf("0", "ca", "read_file", "")), calls0(headOf("1", "cb", "read_file", "")),
			calls0(`{"index":0,"function":{"arguments":"{\"p\""}}`), calls0(`{"index":1,"function":{"arguments":"{\"p\":2}"}}`),
			calls0(`{"index":0,"function":{"arguments":":1}"}}`),
			finishWith("tool_calls")),
		Want: bothReads("ca", "cb"),
	},
	{
		Name: "constant index, interleaved by id",
		Body: stream(
			calls0(headOf("0", "ca", "read_file", "")), calls0(headOf("0", "cb", "read_file", "")),
			calls0(`{"index":0,"id":"ca","function":{"arguments":"{\"p\":1}"}}`), calls0(`{"index":0,"id":"cb","function":{"arguments":"{\"p\":2}"}}`),
			finishWith("tool_calls")),
		Want: bothReads("ca", "cb"),
	},
	{
		Name: "index from 1",
		Body: stream(
			calls0(headOf("1", "ca", "read_file", `{\"p\":`)), calls0(headOf("2", "cb", "read_file", `{\"p\":`)),
			calls0(`{"index":1,"function":{"arguments":"1}"}}`), calls0(`{"index":2,"function":{"arguments":"2}"}}`),
			finishWith("tool_calls")),
		Want: bothReads("ca", "cb"),
	},
	{
		Name: "both calls in one chunk",
		Body: stream(calls0(headOf("0", "ca", "read_file", p1)+","+headOf("1", "cb", "read_file", p2)), finishWith("stop")),
		Want: bothReads("ca", "cb"),
	},
	{
		Name: "both calls in one chunk, constant index, no ids",
		Body: stream(calls0(headOf("0", "", "read_file", p1)+","+headOf("0", "", "read_file", p2)), finishWith("stop")),
		Want: bothReads("", ""),
	},
	{
		Name: "one id for both calls",
		Body: stream(calls0(headOf("0", "call_0", "read_file", p1)), calls0(headOf("1", "call_0", "read_file", p2)), finishWith("tool_calls")),
		Want: bothReads("call_0", "call_0"),
	},
	{
		Name: "neither ids nor indices, one chunk each",
		Body: stream(calls0(headOf("", "", "read_file", p1)), calls0(headOf("", "", "read_file", p2)), finishWith("tool_calls")),
		Want: bothReads("", ""),
	},
	{
		Name: "no index, no id, two open calls",
		Body: stream(calls0(headOf("", "ca", "read_file", "")), calls0(headOf("", "cb", "read_file", "")), calls0(`{"function":{"arguments":"{}"}}`)),
		Want: says("", rawCalling("ca", "read_file", " "), rawCalling("cb", "read_file", " ")), Class: ports.Retryable, Code: "ambiguous_tool_call",
	},
	{
		Name: "no index, no id, one open call",
		Body: stream(calls0(headOf("", "ca", "f", `{\"a\"`)), calls0(`{"function":{"arguments":":1}"}}`), finishWith("tool_calls")),
		Want: says(domain.StopToolUse, calling("ca", "f", `{"a":1}`)),
	},
	{
		Name: "late name and late id",
		Body: stream(
			calls0(`{"index":0,"function":{"arguments":"{\"a\""}}`), calls0(`{"index":0,"id":"ca","function":{"name":"f"}}`),
			calls0(`{"index":0,"function":{"name":"","arguments":":1}"}}`), finishWith("tool_calls")),
		Want: says(domain.StopToolUse, calling("ca", "f", `{"a":1}`)),
	},
	{
		Name: "name repeated with each piece",
		Body: stream(calls0(headOf("0", "ca", "f", `{\"a\"`)), calls0(headOf("0", "ca", "f", `:1}`)), finishWith("tool_calls")),
		Want: says(domain.StopToolUse, calling("ca", "f", `{"a":1}`)),
	},
	{
		Name: "a head with an id behind one without, constant index",
		Body: stream(calls0(headOf("0", "", "read_file", p1)), calls0(headOf("0", "cb", "read_file", p2)), finishWith("tool_calls")),
		Want: bothReads("", "cb"),
	},
	{
		Name: "neither ids nor indices nor arguments",
		Body: stream(calls0(headOf("", "", "time", "")), calls0(headOf("", "", "date", "")), finishWith("tool_calls")),
		Want: says(domain.StopToolUse, calling("", "time", `{}`), calling("", "date", `{}`)),
	},
	{
		Name: "a piece that says nothing, two open calls",
		Body: stream(calls0(headOf("", "ca", "read_file", p1)), calls0(headOf("", "cb", "read_file", p2)), calls0(`{"function":{"arguments":""}}`), finishWith("tool_calls")),
		Want: bothReads("ca", "cb"),
	},
	{
		Name: "call without a name",
		Body: stream(content("Hm"), calls0(`{"index":0,"id":"ca","function":{"arguments":"{}"}}`), finishWith("tool_calls")),
		Want: says(domain.StopToolUse, text("Hm")), Class: ports.Retryable, Code: "unnamed_tool_call",
	},
	{
		Name: "calls announced, none sent",
		Body: stream(content("Hm"), finishWith("tool_calls")),
		Want: says(domain.StopToolUse, text("Hm")), Class: ports.Retryable, Code: "missing_tool_call",
	},
	{
		Name: "legacy function call",
		Body: stream(delta0(`{"function_call":{"name":"f","arguments":"{\"a\""}}`), delta0(`{"function_call":{"arguments":":1}"}}`), finishWith("function_call")),
		Want: says(domain.StopToolUse, calling("", "f", `{"a":1}`)),
	},
}

// oneCall is a stream with one call of t1 whose argument members are pieces, raw JSON.
func oneCall(reason string, pieces ...string) string {
	chunks := []string{calls0(`{"index":0,"id":"ca","type":"function","function":{"name":"t1"}}`)}
	for _, p := range pieces {
		chunks = append(chunks, calls0(`{"index":0,"function":{"arguments":`+p+`}}`))
	}
	return stream(append(chunks, finishWith(reason))...)
}

// argumentFixtures: K02.
var argumentFixtures = []wiretest.Fixture{
	{Name: "K02 A: no piece", Body: oneCall("tool_calls"), Want: says(domain.StopToolUse, calling("ca", "t1", `{}`))},
	{Name: "K02 A: an empty piece", Body: oneCall("tool_calls", `""`), Want: says(domain.StopToolUse, calling("ca", "t1", `{}`))},
	{
		Name: "K02 B: sent twice", Body: oneCall("tool_calls", `"{\"city\":\"Oslo\"}"`, `"{\"city\":\"Oslo\"}"`),
		Want: says(domain.StopToolUse, rawCalling("ca", "t1", `{"city":"Oslo"}{"city":"Oslo"}`)),
	},
	{
		Name: "K02 C, K04 D: cut off", Body: oneCall("length", `"{\"city\":\"Os"`),
		Want: says(domain.StopLength, rawCalling("ca", "t1", `{"city":"Os`)),
	},
	{
		Name: "K02 D: escape pair in two pieces", Body: oneCall("tool_calls", `"{\"s\":\"\\ud83d"`, `"\\ude00\"}"`),
		Want: says(domain.StopToolUse, calling("ca", "t1", `{"s":"😀"}`)),
	},
	{
		Name: "K02 D: the chunk's own escape pair", Body: oneCall("tool_calls", `"{\"s\":\"\ud83d"`, `"\ude00\"}"`),
		Want: says(domain.StopToolUse, calling("ca", "t1", `{"s":"😀"}`)),
	},
	{
		Name: "K02 E: bytes of a character in two pieces", Body: oneCall("tool_calls", "\"{\\\"s\\\":\\\"\xe2\"", "\"\x82\xac\\\"}\""),
		Want: says(domain.StopToolUse, calling("ca", "t1", `{"s":"€"}`)),
	},
	{Name: "K02 E: a whole character", Body: oneCall("tool_calls", `"{\"s\":\"€\"}"`), Want: says(domain.StopToolUse, calling("ca", "t1", `{"s":"€"}`))},
	{Name: "K02 F: an object", Body: oneCall("tool_calls", `{"city":"Oslo"}`), Want: says(domain.StopToolUse, calling("ca", "t1", `{"city":"Oslo"}`))},
	{Name: "K02 G: null", Body: oneCall("tool_calls", `null`), Want: says(domain.StopToolUse, calling("ca", "t1", `{}`))},
	{Name: "K02 G: the text null", Body: oneCall("tool_calls", `"null"`), Want: says(domain.StopToolUse, calling("ca", "t1", `{}`))},
	{
		Name: "numbers digit for digit", Body: oneCall("tool_calls", `"{\"id\":8123456789012345677,"`, `"\"m\":1e400,\"f\":1.0}"`),
		Want: says(domain.StopToolUse, calling("ca", "t1", `{"id":8123456789012345677,"m":1e400,"f":1.0}`)),
	},
	{
		Name: "duplicate key", Body: oneCall("tool_calls", `"{\"a\":1,\"a\":2}"`),
		Want: says(domain.StopToolUse, rawCalling("ca", "t1", `{"a":1,"a":2}`)),
	},
	{Name: "an array", Body: oneCall("tool_calls", `[1]`), Want: says(domain.StopToolUse, rawCalling("ca", "t1", `[1]`))},
	{Name: "nothing at the token cap", Body: oneCall("length"), Want: says(domain.StopLength, rawCalling("ca", "t1", " "))},
}
