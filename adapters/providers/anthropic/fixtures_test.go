package anthropic

import (
	"errors"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

var errReset = errors.New("connection reset by peer")

// answer is the good answer that counts 3 tokens in and 5 out.
func answer(stop domain.StopReason, blocks ...domain.Block) wiretest.Fixture {
	return wiretest.Fixture{Want: ports.Reply{Content: blocks, StopReason: stop, Model: "m", Usage: &domain.Usage{Input: 3, Output: 5}}}
}

// fault is a failed attempt that had begun with blocks; a stop reason stays unknown.
func fault(class ports.FaultClass, code string, blocks ...domain.Block) wiretest.Fixture {
	return wiretest.Fixture{Want: ports.Reply{Content: blocks, Model: "m", Usage: &domain.Usage{Input: 3, Output: 1}}, Class: class, Code: code}
}

// stopped is a failed attempt in spite of its stop reason.
func stopped(class ports.FaultClass, code string, stop domain.StopReason, blocks ...domain.Block) wiretest.Fixture {
	f := answer(stop, blocks...)
	f.Class, f.Code = class, code
	return f
}

// first is a fault before the message began.
func first(class ports.FaultClass, code string) wiretest.Fixture {
	return wiretest.Fixture{Want: ports.Reply{Model: "asked"}, Class: class, Code: code}
}

func calling(id, args string) domain.Block {
	return domain.Block{Type: domain.CallBlock, ProviderID: id, Name: "f", Arguments: args}
}

func rawCalling(id, raw string) domain.Block {
	return domain.Block{Type: domain.CallBlock, ProviderID: id, Name: "f", RawArguments: raw}
}

const (
	endTurn = domain.StopEndTurn
	toolUse = domain.StopToolUse
	length  = domain.StopLength
	refusal = domain.StopRefusal
)

var fixtures = map[string]wiretest.Fixture{
	"text":                           answer(endTurn, text("Hello")),
	"pings":                          answer(endTurn, text("Hello")),
	"stop-sequence":                  answer(endTurn, text("Hi")),
	"thinking":                       answer(endTurn, thinks("Let me see.", "c2ln"), text("Yes.")),
	"thinking-omitted":               answer(endTurn, thinks("", "c2ln"), text("Yes.")),
	"thinking-interleaved":           answer(toolUse, thinks("a", "czE="), calling("ca", "{}"), thinks("b", "czI="), calling("cb", "{}")),
	"thinking-unsigned":              answer(endTurn, thinks("Hm", ""), text("Yes.")),
	"signature-in-pieces":            answer(endTurn, thinks("Hm", "c2ln"), text("Yes.")),
	"signature-that-grows":           answer(endTurn, thinks("Hm", "c2ln"), text("Yes.")),
	"signature-twice":                answer(endTurn, thinks("Hm", "c2ln"), text("Yes.")),
	"redacted-thinking":              answer(endTurn, thinks("", "redacted_thinking:EmwK+/=="), text("Yes.")),
	"message-start-twice":            answer(endTurn, text("Hi")),
	"message-start-again-later":      answer(endTurn, text("Hi")),
	"another-message-inside":         fault(ports.Retryable, "malformed_stream", text("Hi")),
	"another-message-before-content": answer(endTurn, text("Hi")).By("m2"),
	"no-message-start":               answer(endTurn, text("Hi")).By("asked").Counting(&domain.Usage{Output: 5}),
	"unknown-blocks":                 answer(endTurn, text("Hi")),
	"usage-with-cache":               answer(endTurn, text("Hi")).Counting(&domain.Usage{Input: 2103, Output: 5, CacheRead: 2000, CacheWrite: 100}),
	"usage-told-again":               answer(endTurn, text("Hi")).Counting(&domain.Usage{Input: 43, Output: 50, CacheRead: 40, Reasoning: 30}),
	"usage-never":                    answer(endTurn, text("Hi")).Counting(nil),
	"text-in-the-head":               answer(endTurn, text("Hello")),
	"two-texts":                      answer(endTurn, text("a"), text("b")),
	"constant-index":                 answer(toolUse, text("a"), calling("ca", "{}"), text("b")),
	"no-index":                       answer(toolUse, text("a"), calling("ca", `{"p":1}`)),
	"no-event-lines":                 answer(endTurn, text("Hi")),
	"no-type-members":                answer(endTurn, text("Hi")),
	"done-line":                      answer(endTurn, text("Hi")),
	"carriage-returns":               answer(endTurn, text("Hi")),
	"one-line-feed":                  answer(endTurn, text("Hi")),
	"comments":                       answer(endTurn, text("Hi")),
	"whole-message":                  answer(toolUse, thinks("Hm", "c2ln"), text("Hi"), calling("ca", `{"p":8123456789012345677}`)),
	"whole-message-without-stop":     fault(ports.Retryable, "malformed_stream", text("Hi")).Counting(nil),

	// K01, K02 and K11: calls and their arguments.
	"parallel-calls":                  answer(toolUse, text("Reading."), calling("ca", `{"p":1}`), calling("cb", `{"p":2}`)),
	"parallel-calls-interleaved":      answer(toolUse, calling("ca", `{"p":1}`), calling("cb", `{"p":2}`)),
	"no-index-interleaved":            fault(ports.Retryable, "ambiguous_tool_call", rawCalling("ca", " "), rawCalling("cb", " ")),
	"one-id-for-both-calls":           answer(toolUse, calling("c", `{"p":1}`), calling("c", `{"p":2}`)),
	"call-that-ends-the-turn":         answer(toolUse, calling("ca", "{}")),
	"k02-a-no-arguments":              answer(toolUse, calling("ca", "{}")),
	"k02-a-empty-piece":               answer(toolUse, calling("ca", "{}")),
	"k02-b-sent-twice":                answer(toolUse, rawCalling("ca", `{"p":1}{"p":1}`)),
	"k02-c-cut-off":                   answer(length, rawCalling("ca", `{"p":`)),
	"k02-d-escape-pair-in-two-pieces": answer(toolUse, calling("ca", `{"p":"😀"}`)),
	"k02-d-own-escape-pair":           answer(toolUse, calling("ca", `{"p":"😀"}`)),
	"k02-f-object":                    answer(toolUse, calling("ca", `{"p":1}`)),
	"k02-g-null":                      answer(toolUse, calling("ca", "{}")),
	"arguments-in-the-head":           answer(toolUse, calling("ca", `{"p":1}`)),
	"arguments-in-head-and-pieces":    answer(toolUse, calling("ca", `{"p":1}`)),
	"numbers-digit-for-digit":         answer(toolUse, calling("ca", `{"id":8123456789012345677,"m":1e400,"f":1.0}`)),
	"arguments-that-are-a-list":       answer(toolUse, rawCalling("ca", "[1]")),
	"nothing-of-a-call-at-the-cap":    answer(length, rawCalling("ca", " ")),
	"call-without-its-end":            answer(toolUse, rawCalling("ca", " ")),
	"call-without-a-name":             stopped(ports.Retryable, "unnamed_tool_call", toolUse, text("Hm")),
	"calls-announced-none-sent":       stopped(ports.Retryable, "missing_tool_call", toolUse, text("Hm")),
	"piece-without-a-block":           fault(ports.Retryable, "malformed_stream", text("Hm")),
	"text-behind-a-newer-text":        fault(ports.Retryable, "malformed_stream", text("b")),

	// K03 and K33: errors inside of streams.
	"k03-b-overloaded-mid-stream":         fault(ports.Retryable, "overloaded_error", text("First we open th")),
	"overloaded-first":                    first(ports.Retryable, "overloaded_error"),
	"api-error-mid-call":                  fault(ports.Retryable, "api_error", rawCalling("ca", `{"p"`)),
	"rate-limit-first":                    first(ports.Retryable, "rate_limit_error"),
	"authentication-first":                first(ports.Fatal, "authentication_error"),
	"permission-first":                    first(ports.Fatal, "permission_error"),
	"billing-first":                       first(ports.Fatal, "billing_error"),
	"invalid-request-first":               first(ports.Fatal, "invalid_request_error"),
	"overflow-first":                      first(ports.Overflow, "invalid_request_error"),
	"too-large-first":                     first(ports.TooLarge, "request_too_large"),
	"error-without-data-field":            first(ports.Retryable, "overloaded_error"),
	"error-after-text-without-data-field": fault(ports.Retryable, "overloaded_error", text("Hm")).Ending(errReset),
	"error-as-text":                       first(ports.Retryable, ""),
	"error-without-type":                  first(ports.Retryable, ""),
	"a-page":                              first(ports.Retryable, "cut"),
	"no-json":                             fault(ports.Retryable, "malformed_stream"),

	// K04: ends.
	"k04-a-no-stop-reason":              fault(ports.Retryable, "cut", text("The answer is")),
	"message-stop-is-no-stop-reason":    fault(ports.Retryable, "cut", text("The answer is")),
	"k04-a-inside-a-frame":              fault(ports.Retryable, "cut", text("The answer")),
	"k04-b-signature-never-sent":        fault(ports.Retryable, "cut", thinks("Hm", "")),
	"k04-c-thinking-up-to-the-cap":      stopped(ports.Retryable, "length", length, thinks("Hm", "")),
	"k04-e-no-message-stop":             answer(endTurn, text("Done.")).Ending(errReset),
	"token-cap-in-the-text":             answer(length, text("Once")),
	"refusal-without-a-block":           answer(refusal),
	"refusal-in-the-text":               answer(refusal, text("Once")),
	"pause":                             answer(length, text("Searching.")),
	"window-exceeded":                   answer(length, text("Once")),
	"window-exceeded-with-nothing-said": stopped(ports.Overflow, "model_context_window_exceeded", length),
	"unknown-stop-reason":               fault(ports.Retryable, "stop_reason", text("Hm")).Counting(&domain.Usage{Input: 3, Output: 5}),
	"two-stop-reasons":                  answer(length, text("Hi")),
	"end-turn-with-nothing":             answer(endTurn),
	"nothing-at-all":                    first(ports.Retryable, "cut"),

	// K26 and K27: text.
	"k27-emoji-in-two-halves":   answer(endTurn, text("ok 😀!")),
	"k27-half-that-stays-alone": answer(endTurn, text("ok \uFFFD"), text("\uFFFD")),
	"k26-nul":                   answer(endTurn, text("a\x00b \\u0000")),
	"beyond-ascii":              answer(endTurn, text("5 € 😀 \u2028")),
}
