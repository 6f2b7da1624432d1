package openai

import (
	"errors"
	"strings"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// fixture is a recorded shape: what a backend sent, and the one reply that it means however it is cut into pieces.
type fixture struct {
	name string
	body string
	end  error // how reading the body ends, nil for a clean end
	want ports.Reply
	// Of a stream that is no answer:
	class ports.FaultClass
	code  string
}

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

func (f fixture) asked() fixture { f.want.Model = "asked"; return f }

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
var callFixtures = []fixture{
	{
		name: "K01 A: ids without index",
		body: stream(
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"ca","type":"function","function":{"name":"read_file","arguments":"{\"p\":1}"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"cb","type":"function","function":{"name":"read_file","arguments":"{\"p\":2}"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`),
		want: fixture{want: bothReads("ca", "cb")}.asked().want,
	},
	{
		name: "K01 B: constant index, empty and null ids",
		body: stream(
			calls0(headOf("0", "ca", "read_file", "")),
			calls0(`{"index":0,"id":"","function":{"name":"","arguments":"{\"p\""}}`),
			calls0(`{"index":0,"id":null,"function":{"name":null,"arguments":":1}"}}`),
			calls0(headOf("0", "cb", "read_file", "")),
			calls0(`{"index":0,"id":"","function":{"arguments":"{\"p\":"}}`),
			calls0(`{"index":0,"id":null,"function":{"arguments":"2}"}}`),
			finishWith("tool_calls")),
		want: bothReads("ca", "cb"),
	},
	{
		name: "K01 C: no ids",
		body: stream(
			calls0(headOf("0", "", "read_file", "")), calls0(`{"index":0,"function":{"arguments":"{\"p\""}}`),
			calls0(`{"index":0,"function":{"arguments":":1}"}}`),
			calls0(headOf("1", "", "read_file", "")), calls0(`{"index":1,"function":{"arguments":"{\"p\":2}"}}`),
			finishWith("tool_calls")),
		want: bothReads("", ""),
	},
	{
		name: "K01 D: interleaved",
		body: stream(
			calls0(headOf("0", "ca", "read_file", "")), calls0(headOf("1", "cb", "read_file", "")),
			calls0(`{"index":0,"function":{"arguments":"{\"p\""}}`), calls0(`{"index":1,"function":{"arguments":"{\"p\":2}"}}`),
			calls0(`{"index":0,"function":{"arguments":":1}"}}`),
			finishWith("tool_calls")),
		want: bothReads("ca", "cb"),
	},
	{
		name: "constant index, interleaved by id",
		body: stream(
			calls0(headOf("0", "ca", "read_file", "")), calls0(headOf("0", "cb", "read_file", "")),
			calls0(`{"index":0,"id":"ca","function":{"arguments":"{\"p\":1}"}}`), calls0(`{"index":0,"id":"cb","function":{"arguments":"{\"p\":2}"}}`),
			finishWith("tool_calls")),
		want: bothReads("ca", "cb"),
	},
	{
		name: "index from 1",
		body: stream(
			calls0(headOf("1", "ca", "read_file", `{\"p\":`)), calls0(headOf("2", "cb", "read_file", `{\"p\":`)),
			calls0(`{"index":1,"function":{"arguments":"1}"}}`), calls0(`{"index":2,"function":{"arguments":"2}"}}`),
			finishWith("tool_calls")),
		want: bothReads("ca", "cb"),
	},
	{
		name: "both calls in one chunk",
		body: stream(calls0(headOf("0", "ca", "read_file", p1)+","+headOf("1", "cb", "read_file", p2)), finishWith("stop")),
		want: bothReads("ca", "cb"),
	},
	{
		name: "both calls in one chunk, constant index, no ids",
		body: stream(calls0(headOf("0", "", "read_file", p1)+","+headOf("0", "", "read_file", p2)), finishWith("stop")),
		want: bothReads("", ""),
	},
	{
		name: "one id for both calls",
		body: stream(calls0(headOf("0", "call_0", "read_file", p1)), calls0(headOf("1", "call_0", "read_file", p2)), finishWith("tool_calls")),
		want: bothReads("call_0", "call_0"),
	},
	{
		name: "neither ids nor indices, one chunk each",
		body: stream(calls0(headOf("", "", "read_file", p1)), calls0(headOf("", "", "read_file", p2)), finishWith("tool_calls")),
		want: bothReads("", ""),
	},
	{
		name: "no index, no id, two open calls",
		body: stream(calls0(headOf("", "ca", "read_file", "")), calls0(headOf("", "cb", "read_file", "")), calls0(`{"function":{"arguments":"{}"}}`)),
		want: says("", rawCalling("ca", "read_file", " "), rawCalling("cb", "read_file", " ")), class: ports.Retryable, code: "ambiguous_tool_call",
	},
	{
		name: "no index, no id, one open call",
		body: stream(calls0(headOf("", "ca", "f", `{\"a\"`)), calls0(`{"function":{"arguments":":1}"}}`), finishWith("tool_calls")),
		want: says(domain.StopToolUse, calling("ca", "f", `{"a":1}`)),
	},
	{
		name: "late name and late id",
		body: stream(
			calls0(`{"index":0,"function":{"arguments":"{\"a\""}}`), calls0(`{"index":0,"id":"ca","function":{"name":"f"}}`),
			calls0(`{"index":0,"function":{"name":"","arguments":":1}"}}`), finishWith("tool_calls")),
		want: says(domain.StopToolUse, calling("ca", "f", `{"a":1}`)),
	},
	{
		name: "name repeated with each piece",
		body: stream(calls0(headOf("0", "ca", "f", `{\"a\"`)), calls0(headOf("0", "ca", "f", `:1}`)), finishWith("tool_calls")),
		want: says(domain.StopToolUse, calling("ca", "f", `{"a":1}`)),
	},
	{
		name: "a head with an id behind one without, constant index",
		body: stream(calls0(headOf("0", "", "read_file", p1)), calls0(headOf("0", "cb", "read_file", p2)), finishWith("tool_calls")),
		want: bothReads("", "cb"),
	},
	{
		name: "neither ids nor indices nor arguments",
		body: stream(calls0(headOf("", "", "time", "")), calls0(headOf("", "", "date", "")), finishWith("tool_calls")),
		want: says(domain.StopToolUse, calling("", "time", `{}`), calling("", "date", `{}`)),
	},
	{
		name: "a piece that says nothing, two open calls",
		body: stream(calls0(headOf("", "ca", "read_file", p1)), calls0(headOf("", "cb", "read_file", p2)), calls0(`{"function":{"arguments":""}}`), finishWith("tool_calls")),
		want: bothReads("ca", "cb"),
	},
	{
		name: "call without a name",
		body: stream(content("Hm"), calls0(`{"index":0,"id":"ca","function":{"arguments":"{}"}}`), finishWith("tool_calls")),
		want: says(domain.StopToolUse, text("Hm")), class: ports.Retryable, code: "unnamed_tool_call",
	},
	{
		name: "calls announced, none sent",
		body: stream(content("Hm"), finishWith("tool_calls")),
		want: says(domain.StopToolUse, text("Hm")), class: ports.Retryable, code: "missing_tool_call",
	},
	{
		name: "legacy function call",
		body: stream(delta0(`{"function_call":{"name":"f","arguments":"{\"a\""}}`), delta0(`{"function_call":{"arguments":":1}"}}`), finishWith("function_call")),
		want: says(domain.StopToolUse, calling("", "f", `{"a":1}`)),
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
var argumentFixtures = []fixture{
	{name: "K02 A: no piece", body: oneCall("tool_calls"), want: says(domain.StopToolUse, calling("ca", "t1", `{}`))},
	{name: "K02 A: an empty piece", body: oneCall("tool_calls", `""`), want: says(domain.StopToolUse, calling("ca", "t1", `{}`))},
	{
		name: "K02 B: sent twice", body: oneCall("tool_calls", `"{\"city\":\"Oslo\"}"`, `"{\"city\":\"Oslo\"}"`),
		want: says(domain.StopToolUse, rawCalling("ca", "t1", `{"city":"Oslo"}{"city":"Oslo"}`)),
	},
	{
		name: "K02 C, K04 D: cut off", body: oneCall("length", `"{\"city\":\"Os"`),
		want: says(domain.StopLength, rawCalling("ca", "t1", `{"city":"Os`)),
	},
	{
		name: "K02 D: escape pair in two pieces", body: oneCall("tool_calls", `"{\"s\":\"\\ud83d"`, `"\\ude00\"}"`),
		want: says(domain.StopToolUse, calling("ca", "t1", `{"s":"😀"}`)),
	},
	{
		name: "K02 D: the chunk's own escape pair", body: oneCall("tool_calls", `"{\"s\":\"\ud83d"`, `"\ude00\"}"`),
		want: says(domain.StopToolUse, calling("ca", "t1", `{"s":"😀"}`)),
	},
	{
		name: "K02 E: bytes of a character in two pieces", body: oneCall("tool_calls", "\"{\\\"s\\\":\\\"\xe2\"", "\"\x82\xac\\\"}\""),
		want: says(domain.StopToolUse, calling("ca", "t1", `{"s":"€"}`)),
	},
	{name: "K02 E: a whole character", body: oneCall("tool_calls", `"{\"s\":\"€\"}"`), want: says(domain.StopToolUse, calling("ca", "t1", `{"s":"€"}`))},
	{name: "K02 F: an object", body: oneCall("tool_calls", `{"city":"Oslo"}`), want: says(domain.StopToolUse, calling("ca", "t1", `{"city":"Oslo"}`))},
	{name: "K02 G: null", body: oneCall("tool_calls", `null`), want: says(domain.StopToolUse, calling("ca", "t1", `{}`))},
	{name: "K02 G: the text null", body: oneCall("tool_calls", `"null"`), want: says(domain.StopToolUse, calling("ca", "t1", `{}`))},
	{
		name: "numbers digit for digit", body: oneCall("tool_calls", `"{\"id\":8123456789012345677,"`, `"\"m\":1e400,\"f\":1.0}"`),
		want: says(domain.StopToolUse, calling("ca", "t1", `{"id":8123456789012345677,"m":1e400,"f":1.0}`)),
	},
	{
		name: "duplicate key", body: oneCall("tool_calls", `"{\"a\":1,\"a\":2}"`),
		want: says(domain.StopToolUse, rawCalling("ca", "t1", `{"a":1,"a":2}`)),
	},
	{name: "an array", body: oneCall("tool_calls", `[1]`), want: says(domain.StopToolUse, rawCalling("ca", "t1", `[1]`))},
	{name: "nothing at the token cap", body: oneCall("length"), want: says(domain.StopLength, rawCalling("ca", "t1", " "))},
}
