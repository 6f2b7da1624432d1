package gemini

import (
	"errors"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

var errReset = errors.New("connection reset by peer")

// stream returns the events of chunks, as the backend separates them.
func stream(chunks ...string) string {
	var b strings.Builder
	for _, c := range chunks {
		b.WriteString("data: " + c + "\r\n\r\n")
	}
	return b.String()
}

// says returns a chunk with the given parts, last the one that also ends the answer.
func says(parts ...string) string { return finishes("", parts...) }

func last(reason string, parts ...string) string {
	return finishes(`,"finishReason":"`+reason+`"`, parts...)
}

func finishes(more string, parts ...string) string {
	return `{"candidates":[{"content":{"parts":[` + strings.Join(parts, ",") + `],"role":"model"}` + more + `,"index":0}],"modelVersion":"m"}`
}

func textOf(s string) string    { return `{"text":"` + s + `"}` }
func thoughtOf(s string) string { return `{"text":"` + s + `","thought":true}` }
func callOf(members string) string {
	return `{"functionCall":{` + members + `}}`
}

// signed returns a part with a signature.
func signed(part, signature string) string {
	return strings.TrimSuffix(part, "}") + `,"thoughtSignature":"` + signature + `"}`
}

func thinks(s string) domain.Block { return domain.Block{Type: domain.ThinkingBlock, Thinking: s} }

func calling(id, name, args string) domain.Block {
	return domain.Block{Type: domain.CallBlock, ProviderID: id, Name: name, Arguments: args}
}

func callingRaw(id, name, raw string) domain.Block {
	return domain.Block{Type: domain.CallBlock, ProviderID: id, Name: name, RawArguments: raw}
}

func proved(b domain.Block, signature string) domain.Block {
	b.Signature = signature
	return b
}

func reply(stop domain.StopReason, blocks ...domain.Block) ports.Reply {
	return ports.Reply{Content: blocks, StopReason: stop, Model: "m"}
}

// good is an answer, bad a failed attempt that had begun with blocks.
func good(name, body string, stop domain.StopReason, blocks ...domain.Block) wiretest.Fixture {
	return wiretest.Fixture{Name: name, Body: body, Want: reply(stop, blocks...)}
}

func bad(name, body string, class ports.FaultClass, code string, blocks ...domain.Block) wiretest.Fixture {
	return wiretest.Fixture{Name: name, Body: body, Want: reply("", blocks...), Class: class, Code: code}
}

// asked is f where the backend never named its model.
func asked(f wiretest.Fixture) wiretest.Fixture { f.Want.Model = "asked"; return f }

func reset(f wiretest.Fixture) wiretest.Fixture { f.End = errReset; return f }

func counting(f wiretest.Fixture, u domain.Usage) wiretest.Fixture { f.Want.Usage = &u; return f }

func stopped(f wiretest.Fixture, stop domain.StopReason) wiretest.Fixture {
	f.Want.StopReason = stop
	return f
}

// readFile is the call of K01 and K11.
func readFile(id, args string) string {
	if id != "" {
		id = `"id":"` + id + `",`
	}
	return callOf(id + `"name":"read_file","args":` + args)
}

// callFixtures: K01, K02 and K11. The wire has no index, and an id only on newer models.
var callFixtures = []wiretest.Fixture{
	good("K01: two calls without ids in one chunk", stream(says(readFile("", `{"p":1}`), readFile("", `{"p":2}`)), last("STOP")),
		domain.StopToolUse, calling("", "read_file", `{"p":1}`), calling("", "read_file", `{"p":2}`)),
	good("K01: two calls without ids in two chunks", stream(says(readFile("", `{"p":1}`)), last("STOP", readFile("", `{"p":2}`))),
		domain.StopToolUse, calling("", "read_file", `{"p":1}`), calling("", "read_file", `{"p":2}`)),
	good("K01: equal calls without ids are two calls", stream(says(readFile("", `{"p":1}`)), last("STOP", readFile("", `{"p":1}`))),
		domain.StopToolUse, calling("", "read_file", `{"p":1}`), calling("", "read_file", `{"p":1}`)),
	good("calls with ids", stream(last("STOP", readFile("ca", `{"p":1}`), readFile("cb", `{"p":2}`))),
		domain.StopToolUse, calling("ca", "read_file", `{"p":1}`), calling("cb", "read_file", `{"p":2}`)),
	good("K11: one id for different calls", stream(says(readFile("c", `{"p":1}`)), last("STOP", readFile("c", `{"p":2}`))),
		domain.StopToolUse, calling("c", "read_file", `{"p":1}`), calling("c", "read_file", `{"p":2}`)),
	good("K11: one id for equal calls of one chunk", stream(last("STOP", readFile("c", `{"p":1}`), readFile("c", `{"p":1}`))),
		domain.StopToolUse, calling("c", "read_file", `{"p":1}`), calling("c", "read_file", `{"p":1}`)),
	good("a call that a later chunk repeats", stream(says(readFile("c", `{"p":1}`)), says(signed(readFile("c", `{"p":1}`), "s1")), last("STOP")),
		domain.StopToolUse, proved(calling("c", "read_file", `{"p":1}`), "s1")),
	good("an id that is a number, one that is empty, one that is null", stream(last("STOP", callOf(`"id":7,"name":"f"`), callOf(`"id":"","name":"f"`), callOf(`"id":null,"name":"f"`))),
		domain.StopToolUse, calling("7", "f", "{}"), calling("", "f", "{}"), calling("", "f", "{}")),
	good("K02 A: no arguments", stream(last("STOP", callOf(`"name":"time"`))), domain.StopToolUse, calling("", "time", "{}")),
	good("K02 A: empty arguments", stream(last("STOP", callOf(`"name":"time","args":{}`))), domain.StopToolUse, calling("", "time", "{}")),
	good("K02 A: empty text", stream(last("STOP", callOf(`"name":"time","args":""`))), domain.StopToolUse, calling("", "time", "{}")),
	good("K02 G: null", stream(last("STOP", callOf(`"name":"time","args":null`))), domain.StopToolUse, calling("", "time", "{}")),
	good("K02 B: sent twice", stream(last("STOP", callOf(`"name":"w","args":"{\"a\":1}{\"a\":1}"`))), domain.StopToolUse, callingRaw("", "w", `{"a":1}{"a":1}`)),
	good("arguments that are a list", stream(last("STOP", callOf(`"name":"w","args":[1]`))), domain.StopToolUse, callingRaw("", "w", `[1]`)),
	good("arguments as text", stream(last("STOP", callOf(`"name":"w","args":"{\"a\":1}"`))), domain.StopToolUse, calling("", "w", `{"a":1}`)),
	good("K02 C: cut off", stream(last("MAX_TOKENS", callOf(`"name":"w","args":"{\"a"`))), domain.StopLength, callingRaw("", "w", `{"a`)),
	good("K04 D: before the arguments", stream(last("MAX_TOKENS", callOf(`"name":"w"`))), domain.StopLength, callingRaw("", "w", ` `)),
	good("a whole call at the token cap", stream(last("MAX_TOKENS", callOf(`"name":"w","args":{"a":1}`))), domain.StopLength, calling("", "w", `{"a":1}`)),
	good("K02 D: escapes and spaces", stream(last("STOP", callOf(`"name":"w","args":{ "s" : "\ud83d\ude00" , "n" : 8123456789012345677 }`))),
		domain.StopToolUse, calling("", "w", `{"s":"😀","n":8123456789012345677}`)),
	good("text around calls", stream(says(textOf("a")), says(readFile("", `{}`)), last("STOP", textOf("b"))), domain.StopToolUse,
		text("a"), calling("", "read_file", `{}`), text("b")),
	stopped(bad("a call without a name", stream(last("STOP", callOf(`"args":{}`))), ports.Retryable, "unnamed_tool_call"), domain.StopEndTurn),
}

// signatureFixtures: thoughtSignature on parts of every kind.
var signatureFixtures = []wiretest.Fixture{
	good("on the first of parallel calls", stream(says(thoughtOf("Hm")), last("STOP", signed(readFile("", `{"p":1}`), "c2ln=="), readFile("", `{"p":2}`))),
		domain.StopToolUse, thinks("Hm"), proved(calling("", "read_file", `{"p":1}`), "c2ln=="), calling("", "read_file", `{"p":2}`)),
	good("on an empty text at the end", stream(says(textOf("Hel")), says(textOf("lo")), last("STOP", signed(textOf(""), "s1"))),
		domain.StopEndTurn, text("Hello"), proved(text(""), "s1")),
	good("without a text", stream(says(textOf("Hello")), last("STOP", `{"thoughtSignature":"s1"}`)), domain.StopEndTurn, text("Hello"), proved(text(""), "s1")),
	good("on a text between texts", stream(says(textOf("a")), says(signed(textOf("b"), "s1")), says(textOf("c")), last("STOP", signed(textOf("d"), "s2"))),
		domain.StopEndTurn, text("a"), proved(text("b"), "s1"), text("c"), proved(text("d"), "s2")),
	good("on thinking", stream(says(thoughtOf("H")), says(signed(thoughtOf("m"), "s1")), says(signed(thoughtOf(""), "s2")), last("STOP", textOf("Hi"))),
		domain.StopEndTurn, thinks("H"), proved(thinks("m"), "s1"), proved(thinks(""), "s2"), text("Hi")),
	good("with U+0000", stream(last("STOP", signed(textOf("a"), `s\u0000`))), domain.StopEndTurn, proved(text("a"), "s\x00")),
	good("on an image", stream(last("STOP", textOf("See"), `{"inlineData":{"mimeType":"image/png","data":"AA=="},"thoughtSignature":"s1"}`)),
		domain.StopEndTurn, text("See"), domain.Block{Type: domain.ImageBlock, MimeType: "image/png", Data: "AA==", Signature: "s1"}),
	good("null and empty ones", stream(last("STOP", `{"text":"a","thoughtSignature":null}`, signed(textOf("b"), ""))), domain.StopEndTurn, text("ab")),
}

// faultFixtures: K03 and its kin.
var faultFixtures = []wiretest.Fixture{
	asked(bad("K03 A: error in the first event", stream(`{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`), ports.Retryable, "UNAVAILABLE")),
	bad("K03 B: error after text", stream(says(textOf("First we open th")), `{"error":{"code":500,"message":"An internal error has occurred.","status":"INTERNAL"}}`),
		ports.Retryable, "INTERNAL", text("First we open th")),
	bad("error event", stream(says(textOf("Hm")))+"event: error\ndata: {\"error\":{\"code\":429,\"status\":\"RESOURCE_EXHAUSTED\"}}\n\n", ports.Retryable, "RESOURCE_EXHAUSTED", text("Hm")),
	bad("error event of mere text", stream(says(textOf("Hm")))+"event: error\ndata: boom\n\n", ports.Retryable, "", text("Hm")),
	asked(bad("K03 C: error without data:", `{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`+"\n",
		ports.Overflow, "INVALID_ARGUMENT")),
	reset(asked(bad("K03 C: the same, connection broken", `{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed (8).","status":"INVALID_ARGUMENT"}}`,
		ports.Overflow, "INVALID_ARGUMENT"))),
	bad("K03 C: error without data: after text", stream(says(textOf("Hm")))+"{\n  \"error\": {\n    \"code\": 503,\n    \"message\": \"overloaded\",\n    \"status\": \"UNAVAILABLE\"\n  }\n}\n",
		ports.Retryable, "UNAVAILABLE", text("Hm")),
	asked(bad("K03 D: list with an error", "[{\n  \"error\": {\n    \"code\": 400,\n    \"message\": \"API key not valid. Please pass a valid API key.\",\n    \"status\": \"INVALID_ARGUMENT\",\n"+
		"    \"details\": [{\"@type\": \"type.googleapis.com/google.rpc.ErrorInfo\", \"reason\": \"API_KEY_INVALID\"}]\n  }\n}\n]", ports.Fatal, "API_KEY_INVALID")),
	bad("list with an error behind text", "["+says(textOf("Hm"))+",\n{\"error\":{\"code\":503,\"status\":\"UNAVAILABLE\"}}]", ports.Retryable, "UNAVAILABLE", text("Hm")),
	bad("malformed call", stream(says(textOf("Hm")), `{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"Malformed function call: print(f())","index":0}]}`),
		ports.Retryable, "MALFORMED_FUNCTION_CALL", text("Hm")),
	bad("a call that nobody offered", stream(last("UNEXPECTED_TOOL_CALL")), ports.Retryable, "UNEXPECTED_TOOL_CALL"),
	bad("other", stream(last("OTHER", textOf("Hm"))), ports.Retryable, "OTHER", text("Hm")),
	bad("a reason that nobody knows", stream(last("MOON_PHASE", textOf("Hm"))), ports.Retryable, "finish_reason", text("Hm")),
	asked(bad("a page", "<html><body>hello</body></html>", ports.Retryable, "cut")),
	asked(bad("no JSON", stream(`{"candidates":`), ports.Retryable, "malformed_stream")),
	asked(bad("no object", stream(`7`), ports.Retryable, "malformed_stream")),
	asked(bad("another object", `{"kind":"nothing"}`, ports.Retryable, "malformed_stream")),
	asked(bad("a list cut off", `[`+says(textOf("Hi"))+`,`, ports.Retryable, "malformed_stream")),
}

// endFixtures: K04 and the other ways to end. The wire has no end marker.
var endFixtures = []wiretest.Fixture{
	bad("K04 A: clean end without a finish reason", stream(says(textOf("The answer is"))), ports.Retryable, "cut", text("The answer is")),
	bad("K04 A: in the middle of a frame", stream(says(textOf("The answer")))+`data: {"candidates":[{"content":{"parts":[{"text":" is"`, ports.Retryable, "cut", text("The answer")),
	reset(bad("K04 A: reset", stream(says(textOf("The answer is"))), ports.Retryable, "connection", text("The answer is"))),
	bad("[DONE] is no finish reason", stream(says(textOf("The answer is")), "[DONE]"), ports.Retryable, "cut", text("The answer is")),
	bad("a call, then the end", stream(says(readFile("", `{"p":1}`))), ports.Retryable, "cut", calling("", "read_file", `{"p":1}`)),
	bad("K04 B: thinking, then the end", stream(says(thoughtOf("Hm"))), ports.Retryable, "cut", thinks("Hm")),
	stopped(bad("K04 C: thinking up to the token cap", stream(says(thoughtOf("Hm")), last("MAX_TOKENS")), ports.Retryable, "length", thinks("Hm")), domain.StopLength),
	stopped(bad("K04 C: nothing up to the token cap", stream(`{"candidates":[{"finishReason":"MAX_TOKENS","index":0}],"modelVersion":"m"}`), ports.Retryable, "length"), domain.StopLength),
	reset(good("K04 E: finish reason, then a reset", stream(last("STOP", textOf("Done."))), domain.StopEndTurn, text("Done."))),
	good("finish reason in a chunk without content", stream(says(textOf("Hi")), `{"candidates":[{"finishReason":"STOP"}]}`), domain.StopEndTurn, text("Hi")),
	good("[DONE]", stream(last("STOP", textOf("Hi")), "[DONE]"), domain.StopEndTurn, text("Hi")),
	good("token cap in the text", stream(last("MAX_TOKENS", textOf("Once"))), domain.StopLength, text("Once")),
	good("nothing to say", stream(last("STOP")), domain.StopEndTurn),
	good("safety", stream(says(textOf("Once")), last("SAFETY")), domain.StopRefusal, text("Once")),
	good("recitation", stream(last("RECITATION")), domain.StopRefusal),
	good("blocklist", stream(last("BLOCKLIST")), domain.StopRefusal),
	good("prohibited content", stream(last("PROHIBITED_CONTENT")), domain.StopRefusal),
	good("personal data", stream(last("SPII")), domain.StopRefusal),
	good("prompt blocked", stream(`{"promptFeedback":{"blockReason":"SAFETY","safetyRatings":[]},"usageMetadata":{"totalTokenCount":8},"modelVersion":"m"}`), domain.StopRefusal),
	good("prompt not blocked", stream(`{"promptFeedback":{"safetyRatings":[]}}`, last("STOP", textOf("Hi"))), domain.StopEndTurn, text("Hi")),
	good("reasons that say nothing", stream(finishes(`,"finishReason":"FINISH_REASON_UNSPECIFIED"`, textOf("H")), finishes(`,"finishReason":null`, textOf("i")), last("STOP")),
		domain.StopEndTurn, text("Hi")),
	good("two finish reasons", stream(says(textOf("Hi")), last("MAX_TOKENS"), last("STOP")), domain.StopLength, text("Hi")),
	bad("text behind a finish reason, then the end", stream(last("STOP", textOf("Hi")), says(textOf(" you"))), ports.Retryable, "cut", text("Hi you")),
	asked(bad("nothing at all", "", ports.Retryable, "cut")),
}

// repeatedFinish is what a backend sends that ends every chunk. Cut off between two of them it cannot be told from a
// whole answer, so it is not among those that are cut.
var repeatedFinish = []wiretest.Fixture{
	good("a finish reason in every chunk", stream(last("STOP", textOf("Hi")), last("STOP", textOf(" you"))), domain.StopEndTurn, text("Hi you")),
}

// shapeFixtures: everything else that backends of this wire do.
var shapeFixtures = []wiretest.Fixture{
	counting(good("usage in every chunk, the last one counts",
		stream(`{"candidates":[{"content":{"parts":[{"text":"Hi"}],"role":"model"}}],"usageMetadata":{"promptTokenCount":3,"totalTokenCount":3},"modelVersion":"m"}`,
			`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":30,"candidatesTokenCount":5,"thoughtsTokenCount":40,"cachedContentTokenCount":20,"toolUsePromptTokenCount":2,"totalTokenCount":77,`+
				`"promptTokensDetails":[{"modality":"TEXT","tokenCount":30}]}}`), domain.StopEndTurn, text("Hi")),
		domain.Usage{Input: 32, Output: 45, CacheRead: 20, Reasoning: 40}),
	counting(good("usage behind the finish reason", stream(last("STOP", textOf("Hi")), `{"usageMetadata":{"promptTokenCount":"7","candidatesTokenCount":2.0,"thoughtsTokenCount":null}}`),
		domain.StopEndTurn, text("Hi")), domain.Usage{Input: 7, Output: 2}),
	good("usage that tells nothing", stream(`{"usageMetadata":{}}`, `{"usageMetadata":null}`, last("STOP", textOf("Hi"))), domain.StopEndTurn, text("Hi")),
	good("first chunk without candidates, without parts, without content", stream(`{"candidates":[],"modelVersion":"models/m"}`, `{"candidates":[{"content":{"role":"model"}}]}`,
		`{"candidates":[{"index":0}]}`, `{"candidates":null}`, last("STOP", textOf("Hi"))), domain.StopEndTurn, text("Hi")),
	good("thinking between texts", stream(says(thoughtOf("a")), says(thoughtOf("b"), textOf("c")), says(thoughtOf("d")), last("STOP", textOf("e"))),
		domain.StopEndTurn, thinks("ab"), text("c"), thinks("d"), text("e")),
	good("parts of unknown kinds", stream(last("STOP", `{"executableCode":{"language":"PYTHON","code":"1"}}`, `{}`, `null`, `7`, `{"text":7}`, `{"inlineData":{"mimeType":"image/png"}}`, textOf("Hi"))),
		domain.StopEndTurn, text("Hi")),
	good("a draft of an image", stream(last("STOP", `{"inlineData":{"mimeType":"image/png","data":"AA=="},"thought":true}`, textOf("Hi"))), domain.StopEndTurn, text("Hi")),
	good("a second candidate", stream(`{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"index":0},{"content":{"parts":[{"text":"no"}]},"finishReason":"MAX_TOKENS","index":1}]}`, last("STOP")),
		domain.StopEndTurn, text("Hi")),
	good("comments, blank lines, other fields", ": PROCESSING\n\n\nid: 1\nretry: 3\n"+stream(says(textOf("Hi")))+": more\n"+stream(last("STOP")), domain.StopEndTurn, text("Hi")),
	good("a byte order mark", "\xef\xbb\xbf"+stream(last("STOP", textOf("Hi"))), domain.StopEndTurn, text("Hi")),
	good("one line feed between events", "data: "+says(textOf("Hi"))+"\ndata: "+says(textOf(" you"))+"\ndata: "+last("STOP")+"\n\n", domain.StopEndTurn, text("Hi you")),
	good("an event of several data lines", "data: {\"modelVersion\":\"m\",\ndata: \"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hi\"}]},\ndata: \"finishReason\":\"STOP\"}]}\n\n", domain.StopEndTurn, text("Hi")),
	good("a list in place of a stream", "[{\n  \"candidates\": [{\"content\": {\"parts\": [{\"text\": \"Hi\"}]}}]\n}\n,\r\n"+last("STOP", textOf(" you"))+"\n]", domain.StopEndTurn, text("Hi you")),
	good("a whole answer in place of a stream", " "+last("STOP", thoughtOf("Hm"), textOf("Hi")), domain.StopEndTurn, thinks("Hm"), text("Hi")),
	good("K26: U+0000", stream(last("STOP", textOf(`a\u0000b \\u0000`))), domain.StopEndTurn, text("a\x00b \\u0000")),
	good("K26: U+0000 in arguments", stream(last("STOP", readFile("", `{"p":"\u0000"}`))), domain.StopToolUse, calling("", "read_file", `{"p":"\u0000"}`)),
	good("K27 C: an emoji in two halves", stream(says(textOf(`ok \ud83d`)), last("STOP", textOf(`\ude00!`))), domain.StopEndTurn, text("ok 😀!")),
	good("K27 C: the second half never comes", stream(last("STOP", textOf(`ok \ud83d`))), domain.StopEndTurn, text("ok \uFFFD")),
	good("K27 C: another block comes", stream(says(textOf(`ok \ud83d`)), last("STOP", signed(textOf(`\ude00`), "s1"))), domain.StopEndTurn, text("ok \uFFFD"), proved(text("\uFFFD"), "s1")),
	good("invalid bytes", stream(last("STOP", textOf("\xff(\xc3("))), domain.StopEndTurn, text("\uFFFD(\uFFFD(")),
}
