package openai

import (
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

func counting(f wiretest.Fixture, u domain.Usage) wiretest.Fixture { f.Want.Usage = &u; return f }

const usage35 = `{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8}`

// faultFixtures: K03 and its kin.
var faultFixtures = []wiretest.Fixture{
	wiretest.Fixture{
		Name: "K03 A: error without choices",
		Body: stream(`{"id":"x","choices":[],"error":{"code":502,"message":"upstream at capacity"}}`), Class: ports.Retryable, Code: "502",
	}.By("asked"),
	{
		Name: "K03 B: error event after text",
		Body: events(content("First we open th")) + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
		Want: says("", text("First we open th")), Class: ports.Retryable, Code: "overloaded_error",
	},
	wiretest.Fixture{
		Name: "K03 C: error without data:",
		Body: `{"error":{"message":"context too large","type":"exceed_context_size_error"}}` + "\n", Class: ports.Overflow, Code: "exceed_context_size_error",
	}.By("asked"),
	wiretest.Fixture{
		Name: "K03 C: the same, without a line end, connection broken",
		Body: `{"error":{"message":"context too large","type":"exceed_context_size_error"}}`, End: errReset, Class: ports.Overflow, Code: "exceed_context_size_error",
	}.By("asked"),
	{
		Name: "K03 C: the same after text",
		Body: events(content("Hm")) + "{\"error\":{\"message\":\"busy\",\"code\":\"server_error\"}}\n",
		Want: says("", text("Hm")), Class: ports.Retryable, Code: "server_error",
	},
	wiretest.Fixture{Name: "K03 D: no stream", Body: "\n {\n  \"error\": {\"message\": \"no such model\", \"code\": \"model_not_found\"}\n}", Class: ports.Fatal, Code: "model_not_found"}.By("asked"),
	wiretest.Fixture{Name: "error in a list", Body: `[{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}]`, Class: ports.Retryable, Code: "RESOURCE_EXHAUSTED"}.By("asked"),
	{
		Name: "error with the finish reason error",
		Body: stream(content("Hm"), `{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"code":"429","message":"slow"}}]}`),
		Want: says("", text("Hm")), Class: ports.Retryable, Code: "429",
	},
	{Name: "finish reason error alone", Body: stream(content("Hm"), finishWith("error")), Want: says("", text("Hm")), Class: ports.Retryable, Code: "finish_reason"},
	{Name: "finish reason unknown", Body: stream(content("Hm"), finishWith("moon_phase")), Want: says("", text("Hm")), Class: ports.Retryable, Code: "finish_reason"},
	wiretest.Fixture{Name: "error as a text", Body: stream(`{"error":"boom"}`), Class: ports.Retryable}.By("asked"),
	wiretest.Fixture{Name: "error that names itself", Body: stream(`{"object":"error","message":"bad","type":"BadRequestError","code":400}`), Class: ports.Fatal, Code: "BadRequestError"}.By("asked"),
	wiretest.Fixture{Name: "invalid request inside the stream", Body: stream(`{"error":{"message":"bad","type":"invalid_request_error","code":null}}`), Class: ports.Fatal, Code: "invalid_request_error"}.By("asked"),
	wiretest.Fixture{Name: "a page", Body: "<html><body>hello</body></html>", Class: ports.Retryable, Code: "cut"}.By("asked"),
	wiretest.Fixture{Name: "a chunk that is no JSON", Body: stream(`{"choices":`), Class: ports.Retryable, Code: "malformed_stream"}.By("asked"),
}

// endFixtures: K04 and the other ways to end.
var endFixtures = []wiretest.Fixture{
	{Name: "K04 A: clean end without a finish reason", Body: events(content("The answer is")), Want: says("", text("The answer is")), Class: ports.Retryable, Code: "cut"},
	{Name: "K04 A: [DONE] is no finish reason", Body: stream(content("The answer is")), Want: says("", text("The answer is")), Class: ports.Retryable, Code: "cut"},
	{Name: "K04 A: in the middle of a frame", Body: events(content("The answer")) + `data: {"choices":[{"delta":{"content":" is"`, Want: says("", text("The answer")), Class: ports.Retryable, Code: "cut"},
	{Name: "K04 A: reset", Body: events(content("The answer is")), End: errReset, Want: says("", text("The answer is")), Class: ports.Retryable, Code: "connection"},
	{Name: "K04 B: thinking, then the end", Body: events(delta0(`{"reasoning_content":"Hm"}`)), Want: says("", thinks("Hm")), Class: ports.Retryable, Code: "cut"},
	{
		Name: "K04 C: thinking up to the token cap", Body: stream(delta0(`{"reasoning_content":"Hm"}`), finishWith("length")),
		Want: says(domain.StopLength, thinks("Hm")), Class: ports.Retryable, Code: "length",
	},
	{Name: "K04 E: no [DONE], reset", Body: events(content("Done."), finishWith("stop")), End: errReset, Want: says(domain.StopEndTurn, text("Done."))},
	{Name: "token cap in the text", Body: stream(content("Once"), finishWith("length")), Want: says(domain.StopLength, text("Once"))},
	{Name: "content filter", Body: stream(content("Once"), finishWith("content_filter")), Want: says(domain.StopRefusal, text("Once"))},
	{Name: "refusal", Body: stream(delta0(`{"refusal":"I can't"}`), delta0(`{"refusal":" do that."}`), finishWith("stop")), Want: says(domain.StopRefusal, text("I can't do that."))},
	{Name: "refusal without a word", Body: stream(finishWith("content_filter")), Want: says(domain.StopRefusal)},
	{Name: "two finish chunks", Body: stream(content("Hi"), finishWith("stop"), finishWith("stop")), Want: says(domain.StopEndTurn, text("Hi"))},
	{
		Name: "two finish chunks that differ", Body: stream(calls0(headOf("0", "ca", "f", "{}")), finishWith("tool_calls"), finishWith("stop")),
		Want: says(domain.StopToolUse, calling("ca", "f", "{}")),
	},
	{Name: "two finish chunks, the first cut off", Body: stream(content("Hi"), finishWith("length"), finishWith("stop")), Want: says(domain.StopLength, text("Hi"))},
	{
		Name: "the whole message again in the last chunk", Want: says(domain.StopEndTurn, text("Hi")),
		Body: stream(content("Hi"), `{"choices":[{"delta":null,"message":{"content":"Hi"},"finish_reason":"stop"}]}`),
	},
	{Name: "a reason in capitals", Body: stream(content("Hi"), finishWith("STOP")), Want: says(domain.StopEndTurn, text("Hi"))},
	{Name: "nothing at all", Body: "", Want: ports.Reply{Model: "asked"}, Class: ports.Retryable, Code: "cut"},
}

// shapeFixtures: everything else that backends of this wire do.
var shapeFixtures = []wiretest.Fixture{
	counting(wiretest.Fixture{
		Name: "first chunk without choices, usage in the last one",
		Body: stream(`{"id":"x","model":"m","choices":[]}`, delta0(`{"role":"assistant","content":""}`), content("Hi"), finishWith("stop"),
			`{"id":"x","model":"m","choices":[],"usage":`+usage35+`}`),
		Want: says(domain.StopEndTurn, text("Hi")),
	}, domain.Usage{Input: 3, Output: 5}),
	counting(wiretest.Fixture{
		Name: "usage twice, with details",
		Body: stream(content("Hi"), `{"model":"m","choices":[{"index":0,"delta":{"content":null},"finish_reason":"stop"}],"usage":`+usage35+`}`,
			`{"model":"m","choices":[],"usage":{"prompt_tokens":30,"completion_tokens":50,"prompt_tokens_details":{"cached_tokens":20},"completion_tokens_details":{"reasoning_tokens":40}}}`),
		Want: says(domain.StopEndTurn, text("Hi")),
	}, domain.Usage{Input: 30, Output: 50, CacheRead: 20, Reasoning: 40}),
	counting(wiretest.Fixture{
		Name: "usage with nulls, fractions and texts",
		Body: stream(content("Hi"), finishWith("stop"),
			`{"choices":[],"usage":{"prompt_tokens":"7","completion_tokens":2.0,"prompt_tokens_details":null,"completion_tokens_details":[],"prompt_cache_hit_tokens":-4}}`),
		Want: says(domain.StopEndTurn, text("Hi")),
	}, domain.Usage{Input: 7, Output: 2}),
	{Name: "usage null", Body: stream(content("Hi"), `{"choices":null,"usage":null}`, finishWith("stop")), Want: says(domain.StopEndTurn, text("Hi"))},
	{
		Name: "comments and blank lines", Want: says(domain.StopEndTurn, text("Hi")),
		Body: ": PROCESSING\n\n: PROCESSING\n\n\n" + events(content("Hi")) + ": more\n" + stream(finishWith("stop")),
	},
	{
		Name: "carriage returns, fields without a space, ids and retries", Want: says(domain.StopEndTurn, text("Hi")),
		Body: "retry: 3\r\nid: 1\r\ndata:" + content("Hi") + "\r\n\r\nevent: message\r\ndata:" + finishWith("stop") + "\r\n\r\ndata:[DONE]\r\n\r\n",
	},
	{
		Name: "a byte order mark", Want: says(domain.StopEndTurn, text("Hi")),
		Body: "\xef\xbb\xbf" + stream(content("Hi"), finishWith("stop")),
	},
	{
		Name: "one line feed between events", Want: says(domain.StopEndTurn, text("Hi you")),
		Body: "data: " + content("Hi") + "\ndata: " + content(" you") + "\ndata: " + finishWith("stop") + "\ndata: [DONE]\n\n",
	},
	{
		Name: "an event of several data lines", Want: says(domain.StopEndTurn, text("Hi")),
		Body: "data: {\"model\":\"m\",\ndata: \"choices\":[{\"delta\":{\"content\":\"Hi\"},\ndata: \"finish_reason\":\"stop\"}]}\n\n",
	},
	{
		Name: "content as a list", Want: says(domain.StopEndTurn, thinks("Hm"), text("Hi you")),
		Body: stream(delta0(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]}]}`), delta0(`{"content":[{"type":"text","text":"Hi"},{"type":"image"}]}`),
			delta0(`{"content":[" you"]}`), finishWith("stop")),
	},
	{
		Name: "reasoning under three names", Want: says(domain.StopEndTurn, thinks("abcd"), text("Hi")),
		Body: stream(delta0(`{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a"}],"content":""}`), delta0(`{"reasoning_content":"b","reasoning":"b"}`),
			delta0(`{"reasoning_details":[{"type":"reasoning.summary","summary":"c"},{"type":"reasoning.encrypted","data":"xx"},{"type":"reasoning.text","text":"d"}]}`),
			delta0(`{"reasoning":null,"content":"Hi"}`), finishWith("stop")),
	},
	{
		Name: "thinking between texts", Want: says(domain.StopEndTurn, text("a"), thinks("b"), text("c")),
		Body: stream(content("a"), delta0(`{"reasoning":"b"}`), content("c"), finishWith("stop")),
	},
	{
		Name: "text behind calls", Want: says(domain.StopToolUse, text("a"), calling("ca", "f", `{"x":1}`), text("b")),
		Body: stream(content("a"), calls0(headOf("0", "ca", "f", `{\"x\"`)), content("b"), calls0(`{"index":0,"function":{"arguments":":1}"}}`), finishWith("tool_calls")),
	},
	{Name: "K27 C: an emoji in two halves", Body: stream(content(`ok \ud83d`), content(`\ude00!`), finishWith("stop")), Want: says(domain.StopEndTurn, text("ok 😀!"))},
	{Name: "K27 C: the second half never comes", Body: stream(content(`ok \ud83d`), finishWith("stop")), Want: says(domain.StopEndTurn, text("ok \uFFFD"))},
	{Name: "K27 C: something else comes", Body: stream(content(`ok \ud83d`), content(`x\ude00`), finishWith("stop")), Want: says(domain.StopEndTurn, text("ok \uFFFDx\uFFFD"))},
	{Name: "bytes of a character in two pieces", Body: stream(content("5 \xe2\x82"), content("\xac"), finishWith("stop")), Want: says(domain.StopEndTurn, text("5 €"))},
	{Name: "invalid bytes", Body: stream(content("\xff(\xc3("), finishWith("stop")), Want: says(domain.StopEndTurn, text("\uFFFD(\uFFFD("))},
	{Name: "K26: U+0000", Body: stream(content(`a\u0000b \\u0000`), finishWith("stop")), Want: says(domain.StopEndTurn, text("a\x00b \\u0000"))},
	{Name: "a second choice", Body: stream(content("Hi"), `{"choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"length"}]}`, finishWith("stop")), Want: says(domain.StopEndTurn, text("Hi"))},
	wiretest.Fixture{
		Name: "a whole completion", Want: says(domain.StopEndTurn, thinks("Hm"), text("Hi")),
		Body: `{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi","reasoning_content":"Hm","tool_calls":null},"finish_reason":"stop"}],"usage":null}`,
	}.By("asked"),
	counting(wiretest.Fixture{
		Name: "a whole completion with calls", Want: says(domain.StopToolUse, calling("ca", "read_file", `{"p":1}`), calling("cb", "read_file", `{"p":2}`)),
		Body: `{"model":"m","choices":[{"message":{"content":null,"tool_calls":[` + headOf("", "ca", "read_file", p1) + "," + headOf("", "cb", "read_file", p2) +
			`]},"finish_reason":"tool_calls"}],"usage":` + usage35 + `}`,
	}, domain.Usage{Input: 3, Output: 5}),
	wiretest.Fixture{Name: "a completion without its finish reason", Body: `{"choices":[{"message":{"content":"Hi"}}]}`, Want: says("", text("Hi")), Class: ports.Retryable, Code: "malformed_stream"}.By("asked"),
	{Name: "a message in place of a delta", Body: stream(`{"model":"m","choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}`), Want: says(domain.StopEndTurn, text("Hi"))},
}

var fixtures = func() (all []wiretest.Fixture) {
	for _, list := range [][]wiretest.Fixture{callFixtures, argumentFixtures, faultFixtures, endFixtures, shapeFixtures} {
		all = append(all, list...)
	}
	return all
}()
