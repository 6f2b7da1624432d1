package openai

import (
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

func counting(f fixture, u domain.Usage) fixture { f.want.Usage = &u; return f }

const usage35 = `{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8}`

// faultFixtures: K03 and its kin.
var faultFixtures = []fixture{
	fixture{
		name: "K03 A: error without choices",
		body: stream(`{"id":"x","choices":[],"error":{"code":502,"message":"upstream at capacity"}}`), class: ports.Retryable, code: "502",
	}.asked(),
	{
		name: "K03 B: error event after text",
		body: events(content("First we open th")) + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
		want: says("", text("First we open th")), class: ports.Retryable, code: "overloaded_error",
	},
	fixture{
		name: "K03 C: error without data:",
		body: `{"error":{"message":"context too large","type":"exceed_context_size_error"}}` + "\n", class: ports.Overflow, code: "exceed_context_size_error",
	}.asked(),
	fixture{
		name: "K03 C: the same, without a line end, connection broken",
		body: `{"error":{"message":"context too large","type":"exceed_context_size_error"}}`, end: errReset, class: ports.Overflow, code: "exceed_context_size_error",
	}.asked(),
	{
		name: "K03 C: the same after text",
		body: events(content("Hm")) + "{\"error\":{\"message\":\"busy\",\"code\":\"server_error\"}}\n",
		want: says("", text("Hm")), class: ports.Retryable, code: "server_error",
	},
	fixture{name: "K03 D: no stream", body: "\n {\n  \"error\": {\"message\": \"no such model\", \"code\": \"model_not_found\"}\n}", class: ports.Fatal, code: "model_not_found"}.asked(),
	fixture{name: "error in a list", body: `[{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}]`, class: ports.Retryable, code: "RESOURCE_EXHAUSTED"}.asked(),
	{
		name: "error with the finish reason error",
		body: stream(content("Hm"), `{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"code":"429","message":"slow"}}]}`),
		want: says("", text("Hm")), class: ports.Retryable, code: "429",
	},
	{name: "finish reason error alone", body: stream(content("Hm"), finishWith("error")), want: says("", text("Hm")), class: ports.Retryable, code: "finish_reason"},
	{name: "finish reason unknown", body: stream(content("Hm"), finishWith("moon_phase")), want: says("", text("Hm")), class: ports.Retryable, code: "finish_reason"},
	fixture{name: "error as a text", body: stream(`{"error":"boom"}`), class: ports.Retryable}.asked(),
	fixture{name: "error that names itself", body: stream(`{"object":"error","message":"bad","type":"BadRequestError","code":400}`), class: ports.Fatal, code: "BadRequestError"}.asked(),
	fixture{name: "invalid request inside the stream", body: stream(`{"error":{"message":"bad","type":"invalid_request_error","code":null}}`), class: ports.Fatal, code: "invalid_request_error"}.asked(),
	fixture{name: "a page", body: "<html><body>hello</body></html>", class: ports.Retryable, code: "cut"}.asked(),
	fixture{name: "a chunk that is no JSON", body: stream(`{"choices":`), class: ports.Retryable, code: "malformed_stream"}.asked(),
}

// endFixtures: K04 and the other ways to end.
var endFixtures = []fixture{
	{name: "K04 A: clean end without a finish reason", body: events(content("The answer is")), want: says("", text("The answer is")), class: ports.Retryable, code: "cut"},
	{name: "K04 A: [DONE] is no finish reason", body: stream(content("The answer is")), want: says("", text("The answer is")), class: ports.Retryable, code: "cut"},
	{name: "K04 A: in the middle of a frame", body: events(content("The answer")) + `data: {"choices":[{"delta":{"content":" is"`, want: says("", text("The answer")), class: ports.Retryable, code: "cut"},
	{name: "K04 A: reset", body: events(content("The answer is")), end: errReset, want: says("", text("The answer is")), class: ports.Retryable, code: "connection"},
	{name: "K04 B: thinking, then the end", body: events(delta0(`{"reasoning_content":"Hm"}`)), want: says("", thinks("Hm")), class: ports.Retryable, code: "cut"},
	{
		name: "K04 C: thinking up to the token cap", body: stream(delta0(`{"reasoning_content":"Hm"}`), finishWith("length")),
		want: says(domain.StopLength, thinks("Hm")), class: ports.Retryable, code: "length",
	},
	{name: "K04 E: no [DONE], reset", body: events(content("Done."), finishWith("stop")), end: errReset, want: says(domain.StopEndTurn, text("Done."))},
	{name: "token cap in the text", body: stream(content("Once"), finishWith("length")), want: says(domain.StopLength, text("Once"))},
	{name: "content filter", body: stream(content("Once"), finishWith("content_filter")), want: says(domain.StopRefusal, text("Once"))},
	{name: "refusal", body: stream(delta0(`{"refusal":"I can't"}`), delta0(`{"refusal":" do that."}`), finishWith("stop")), want: says(domain.StopRefusal, text("I can't do that."))},
	{name: "refusal without a word", body: stream(finishWith("content_filter")), want: says(domain.StopRefusal)},
	{name: "two finish chunks", body: stream(content("Hi"), finishWith("stop"), finishWith("stop")), want: says(domain.StopEndTurn, text("Hi"))},
	{
		name: "two finish chunks that differ", body: stream(calls0(headOf("0", "ca", "f", "{}")), finishWith("tool_calls"), finishWith("stop")),
		want: says(domain.StopToolUse, calling("ca", "f", "{}")),
	},
	{name: "two finish chunks, the first cut off", body: stream(content("Hi"), finishWith("length"), finishWith("stop")), want: says(domain.StopLength, text("Hi"))},
	{
		name: "the whole message again in the last chunk", want: says(domain.StopEndTurn, text("Hi")),
		body: stream(content("Hi"), `{"choices":[{"delta":null,"message":{"content":"Hi"},"finish_reason":"stop"}]}`),
	},
	{name: "a reason in capitals", body: stream(content("Hi"), finishWith("STOP")), want: says(domain.StopEndTurn, text("Hi"))},
	{name: "nothing at all", body: "", want: ports.Reply{Model: "asked"}, class: ports.Retryable, code: "cut"},
}

// shapeFixtures: everything else that backends of this wire do.
var shapeFixtures = []fixture{
	counting(fixture{
		name: "first chunk without choices, usage in the last one",
		body: stream(`{"id":"x","model":"m","choices":[]}`, delta0(`{"role":"assistant","content":""}`), content("Hi"), finishWith("stop"),
			`{"id":"x","model":"m","choices":[],"usage":`+usage35+`}`),
		want: says(domain.StopEndTurn, text("Hi")),
	}, domain.Usage{Input: 3, Output: 5}),
	counting(fixture{
		name: "usage twice, with details",
		body: stream(content("Hi"), `{"model":"m","choices":[{"index":0,"delta":{"content":null},"finish_reason":"stop"}],"usage":`+usage35+`}`,
			`{"model":"m","choices":[],"usage":{"prompt_tokens":30,"completion_tokens":50,"prompt_tokens_details":{"cached_tokens":20},"completion_tokens_details":{"reasoning_tokens":40}}}`),
		want: says(domain.StopEndTurn, text("Hi")),
	}, domain.Usage{Input: 30, Output: 50, CacheRead: 20, Reasoning: 40}),
	counting(fixture{
		name: "usage with nulls, fractions and texts",
		body: stream(content("Hi"), finishWith("stop"),
			`{"choices":[],"usage":{"prompt_tokens":"7","completion_tokens":2.0,"prompt_tokens_details":null,"completion_tokens_details":[],"prompt_cache_hit_tokens":-4}}`),
		want: says(domain.StopEndTurn, text("Hi")),
	}, domain.Usage{Input: 7, Output: 2}),
	{name: "usage null", body: stream(content("Hi"), `{"choices":null,"usage":null}`, finishWith("stop")), want: says(domain.StopEndTurn, text("Hi"))},
	{
		name: "comments and blank lines", want: says(domain.StopEndTurn, text("Hi")),
		body: ": PROCESSING\n\n: PROCESSING\n\n\n" + events(content("Hi")) + ": more\n" + stream(finishWith("stop")),
	},
	{
		name: "carriage returns, fields without a space, ids and retries", want: says(domain.StopEndTurn, text("Hi")),
		body: "retry: 3\r\nid: 1\r\ndata:" + content("Hi") + "\r\n\r\nevent: message\r\ndata:" + finishWith("stop") + "\r\n\r\ndata:[DONE]\r\n\r\n",
	},
	{
		name: "a byte order mark", want: says(domain.StopEndTurn, text("Hi")),
		body: "\xef\xbb\xbf" + stream(content("Hi"), finishWith("stop")),
	},
	{
		name: "one line feed between events", want: says(domain.StopEndTurn, text("Hi you")),
		body: "data: " + content("Hi") + "\ndata: " + content(" you") + "\ndata: " + finishWith("stop") + "\ndata: [DONE]\n\n",
	},
	{
		name: "an event of several data lines", want: says(domain.StopEndTurn, text("Hi")),
		body: "data: {\"model\":\"m\",\ndata: \"choices\":[{\"delta\":{\"content\":\"Hi\"},\ndata: \"finish_reason\":\"stop\"}]}\n\n",
	},
	{
		name: "content as a list", want: says(domain.StopEndTurn, thinks("Hm"), text("Hi you")),
		body: stream(delta0(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]}]}`), delta0(`{"content":[{"type":"text","text":"Hi"},{"type":"image"}]}`),
			delta0(`{"content":[" you"]}`), finishWith("stop")),
	},
	{
		name: "reasoning under three names", want: says(domain.StopEndTurn, thinks("abcd"), text("Hi")),
		body: stream(delta0(`{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a"}],"content":""}`), delta0(`{"reasoning_content":"b","reasoning":"b"}`),
			delta0(`{"reasoning_details":[{"type":"reasoning.summary","summary":"c"},{"type":"reasoning.encrypted","data":"xx"},{"type":"reasoning.text","text":"d"}]}`),
			delta0(`{"reasoning":null,"content":"Hi"}`), finishWith("stop")),
	},
	{
		name: "thinking between texts", want: says(domain.StopEndTurn, text("a"), thinks("b"), text("c")),
		body: stream(content("a"), delta0(`{"reasoning":"b"}`), content("c"), finishWith("stop")),
	},
	{
		name: "text behind calls", want: says(domain.StopToolUse, text("a"), calling("ca", "f", `{"x":1}`), text("b")),
		body: stream(content("a"), calls0(headOf("0", "ca", "f", `{\"x\"`)), content("b"), calls0(`{"index":0,"function":{"arguments":":1}"}}`), finishWith("tool_calls")),
	},
	{name: "K27 C: an emoji in two halves", body: stream(content(`ok \ud83d`), content(`\ude00!`), finishWith("stop")), want: says(domain.StopEndTurn, text("ok 😀!"))},
	{name: "K27 C: the second half never comes", body: stream(content(`ok \ud83d`), finishWith("stop")), want: says(domain.StopEndTurn, text("ok \uFFFD"))},
	{name: "K27 C: something else comes", body: stream(content(`ok \ud83d`), content(`x\ude00`), finishWith("stop")), want: says(domain.StopEndTurn, text("ok \uFFFDx\uFFFD"))},
	{name: "bytes of a character in two pieces", body: stream(content("5 \xe2\x82"), content("\xac"), finishWith("stop")), want: says(domain.StopEndTurn, text("5 €"))},
	{name: "invalid bytes", body: stream(content("\xff(\xc3("), finishWith("stop")), want: says(domain.StopEndTurn, text("\uFFFD(\uFFFD("))},
	{name: "K26: U+0000", body: stream(content(`a\u0000b \\u0000`), finishWith("stop")), want: says(domain.StopEndTurn, text("a\x00b \\u0000"))},
	{name: "a second choice", body: stream(content("Hi"), `{"choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"length"}]}`, finishWith("stop")), want: says(domain.StopEndTurn, text("Hi"))},
	fixture{
		name: "a whole completion", want: says(domain.StopEndTurn, thinks("Hm"), text("Hi")),
		body: `{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi","reasoning_content":"Hm","tool_calls":null},"finish_reason":"stop"}],"usage":null}`,
	}.asked(),
	counting(fixture{
		name: "a whole completion with calls", want: says(domain.StopToolUse, calling("ca", "read_file", `{"p":1}`), calling("cb", "read_file", `{"p":2}`)),
		body: `{"model":"m","choices":[{"message":{"content":null,"tool_calls":[` + headOf("", "ca", "read_file", p1) + "," + headOf("", "cb", "read_file", p2) +
			`]},"finish_reason":"tool_calls"}],"usage":` + usage35 + `}`,
	}, domain.Usage{Input: 3, Output: 5}),
	fixture{name: "a completion without its finish reason", body: `{"choices":[{"message":{"content":"Hi"}}]}`, want: says("", text("Hi")), class: ports.Retryable, code: "malformed_stream"}.asked(),
	{name: "a message in place of a delta", body: stream(`{"model":"m","choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}`), want: says(domain.StopEndTurn, text("Hi"))},
}

var fixtures = func() (all []fixture) {
	for _, list := range [][]fixture{callFixtures, argumentFixtures, faultFixtures, endFixtures, shapeFixtures} {
		all = append(all, list...)
	}
	return all
}()
