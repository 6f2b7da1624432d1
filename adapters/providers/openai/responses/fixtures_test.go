package responses

import (
	"errors"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// answer is the good answer that counts 3 tokens in and 5 out.
func answer(stop domain.StopReason, blocks ...domain.Block) wiretest.Fixture {
	return wiretest.Fixture{Want: ports.Reply{Content: blocks, StopReason: stop, Model: "m", Usage: &domain.Usage{Input: 3, Output: 5}}}
}

// fault is a failed attempt that had begun with blocks; usage and stop reason stay unknown.
func fault(class ports.FaultClass, code string, blocks ...domain.Block) wiretest.Fixture {
	return wiretest.Fixture{Want: ports.Reply{Content: blocks, Model: "m"}, Class: class, Code: code}
}

// stopped is a failed attempt in spite of its end.
func stopped(code string, stop domain.StopReason, blocks ...domain.Block) wiretest.Fixture {
	f := answer(stop, blocks...)
	f.Class, f.Code = ports.Retryable, code
	return f
}

// first is a fault before the response began.
func first(class ports.FaultClass, code string) wiretest.Fixture {
	return wiretest.Fixture{Want: ports.Reply{Model: "asked"}, Class: class, Code: code}
}

// signedAs is the signature of a reasoning item with an id, encrypted content and the parts of a summary.
func signedAs(id, encrypted string, summary ...string) string {
	var parts []string
	for _, s := range summary {
		parts = append(parts, `{"type":"summary_text","text":"`+s+`"}`)
	}
	return `reasoning_item:{"id":"` + id + `","summary":[` + strings.Join(parts, ",") + `],"encrypted_content":"` + encrypted + `"}`
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
	refused = domain.StopRefusal
)

var (
	counted      = &domain.Usage{Input: 3, Output: 5}
	contradicted = "malformed_stream"
)

var fixtures = map[string]wiretest.Fixture{
	"text":                              answer(endTurn, text("Hello")),
	"two-texts-of-a-message":            answer(endTurn, text("a"), text("b")),
	"two-messages":                      answer(endTurn, text("a"), text("b")),
	"a-text-without-its-place":          answer(endTurn, text("Hello")),
	"no-item-announced":                 answer(endTurn, text("Hello")),
	"new-ids-with-each-event":           answer(endTurn, text("Hello")),
	"index-constant":                    answer(toolUse, text("a"), calling("ca", `{"p":1}`), calling("cb", `{"p":2}`)),
	"items-without-ids-and-indices":     answer(endTurn, text("a"), text("b")),
	"new-ids-and-an-item-left-out":      answer(endTurn, text("a"), text("b")),
	"reasoning-told-behind-a-newer-one": answer(endTurn, thinks("", signedAs("rs_0", "czE=", "a")), thinks("b", signedAs("rs_1", "czI=", "b")), text("Yes.")),
	"no-output-at-the-end":              answer(toolUse, text("Hi"), calling("ca", `{"p":1}`)),
	"only-the-last-event":               answer(toolUse, thinks("Hm", signedAs("rs_0", "c2ln", "Hm")), text("Hello"), calling("ca", `{"p":1}`)),
	"the-end-adds-to-the-text":          answer(endTurn, text("Hello")),
	"the-end-without-white-space":       answer(endTurn, text("\n\nHello\n")),
	"the-end-contradicts-the-text":      fault(ports.Retryable, contradicted, text("Hello")).Counting(counted),
	"done-contradicts-the-text":         fault(ports.Retryable, contradicted, text("Hello")),
	"text-behind-a-newer-text":          fault(ports.Retryable, contradicted, text("a"), text("b")),
	"unknown-items-and-events":          answer(endTurn, text("Hi")),
	"done-line":                         answer(endTurn, text("Hi")),
	"response-done":                     answer(endTurn, text("Hi")),
	"no-event-lines":                    answer(endTurn, text("Hi")),
	"no-type-members":                   answer(endTurn, text("Hi")),
	"carriage-returns":                  answer(endTurn, text("Hi")),
	"comments":                          answer(endTurn, text("Hi")),
	"whole-response":                    answer(toolUse, thinks("Hm", signedAs("rs_0", "c2ln", "Hm")), text("Hi"), calling("ca", `{"p":8123456789012345677}`)),
	"whole-response-in-progress":        fault(ports.Retryable, "malformed_stream").Counting(counted),
	"status-says-more-than-the-name":    answer(length, text("Once")),
	"no-status":                         answer(endTurn, text("Hi")),
	"phases":                            answer(toolUse, text("I look."), calling("ca", "{}")),
	"usage-with-details":                answer(endTurn, text("Hi")).Counting(&domain.Usage{Input: 2103, Output: 50, CacheRead: 2000, Reasoning: 30}),
	"usage-never":                       answer(endTurn, text("Hi")).Counting(nil),
	"usage-of-odd-kinds":                answer(endTurn, text("Hi")).Counting(&domain.Usage{Input: 7, Output: 2}),

	"reasoning":                   answer(endTurn, thinks("Let me see.", signedAs("rs_0", "c2ln", "Let me see.")), text("Yes.")),
	"reasoning-in-parts":          answer(endTurn, thinks("**One**\n\na\n\n**Two**\n\nb", signedAs("rs_0", "c2ln", `**One**\n\na`, `**Two**\n\nb`)), text("Yes.")),
	"reasoning-without-summary":   answer(endTurn, thinks("", signedAs("rs_0", "c2ln")), text("Yes.")),
	"reasoning-unsigned":          answer(endTurn, thinks("Hm", ""), text("Yes.")),
	"reasoning-interleaved":       answer(toolUse, thinks("a", signedAs("rs_0", "czE=", "a")), calling("ca", "{}"), thinks("b", signedAs("rs_2", "czI=", "b")), calling("cb", "{}")),
	"reasoning-as-text":           answer(endTurn, thinks("The user asks.", ""), text("Yes.")),
	"reasoning-told-when-done":    answer(endTurn, thinks("The user asks.", ""), text("Yes.")),
	"reasoning-signed-at-the-end": answer(endTurn, thinks("Hm", signedAs("rs_0", "c2ln", "Hm")), text("Yes.")),

	// K01, K02 and K11: calls and their arguments.
	"parallel-calls":                      answer(toolUse, text("Reading."), calling("ca", `{"p":1}`), calling("cb", `{"p":2}`)),
	"parallel-calls-interleaved":          answer(toolUse, calling("ca", `{"p":1}`), calling("cb", `{"p":2}`)),
	"one-id-for-both-calls":               answer(toolUse, calling("c", `{"p":1}`), calling("c", `{"p":2}`)),
	"no-call-id":                          answer(toolUse, calling("fc_0", "{}")),
	"a-name-that-comes-late":              answer(toolUse, calling("ca", `{"p":1}`)),
	"call-without-a-name":                 stopped("unnamed_tool_call", endTurn, text("Hm")),
	"k02-a-no-arguments":                  answer(toolUse, calling("ca", "{}")),
	"k02-b-sent-twice":                    answer(toolUse, rawCalling("ca", `{"p":1}{"p":1}`)),
	"k02-b-sent-twice-and-once-when-done": fault(ports.Retryable, contradicted, rawCalling("ca", `{"p":1}{"p":1}`)),
	"k02-c-cut-off":                       answer(length, rawCalling("ca", `{"p":`)),
	"k02-d-escape-pair-in-two-pieces":     answer(toolUse, calling("ca", `{"p":"😀"}`)),
	"k02-f-object":                        answer(toolUse, calling("ca", `{"p":1}`)),
	"k02-g-null":                          answer(toolUse, calling("ca", "{}")),
	"numbers-digit-for-digit":             answer(toolUse, calling("ca", `{"id":8123456789012345677,"m":1e400,"f":1.0}`)),
	"arguments-that-are-a-list":           answer(toolUse, rawCalling("ca", "[1]")),
	"arguments-spelled-otherwise":         answer(toolUse, calling("ca", `{"p":1}`)),
	"arguments-that-contradict":           fault(ports.Retryable, contradicted, calling("ca", `{"p":1}`)).Counting(counted),
	"arguments-without-an-item":           answer(toolUse, calling("ca", `{"p":1}`)),
	"a-call-that-was-never-done":          answer(toolUse, rawCalling("ca", " ")),
	"nothing-of-a-call-at-the-cap":        answer(length, rawCalling("ca", " ")),

	// K03: errors inside of streams.
	"k03-failed-mid-stream":      fault(ports.Retryable, "server_error", text("First we open th")),
	"failed-first":               fault(ports.Retryable, "server_error"),
	"failed-rate-limit":          fault(ports.Retryable, "rate_limit_exceeded"),
	"failed-overflow":            fault(ports.Overflow, "context_length_exceeded"),
	"failed-quota":               fault(ports.Fatal, "insufficient_quota"),
	"failed-prompt":              fault(ports.Fatal, "invalid_prompt"),
	"failed-image":               fault(ports.BadImage, "invalid_image"),
	"failed-without-a-word":      fault(ports.Retryable, "failed"),
	"cancelled":                  fault(ports.Retryable, "cancelled", text("Hm")),
	"error-event":                fault(ports.Retryable, "server_error", text("Hm")),
	"error-event-with-an-object": first(ports.Overflow, "context_length_exceeded"),
	"error-event-overloaded":     first(ports.Retryable, "server_is_overloaded"),
	"error-without-type":         first(ports.Retryable, "502"),
	"error-as-text":              first(ports.Retryable, ""),
	"error-without-data-field":   first(ports.Retryable, "server_error"),
	"no-json":                    fault(ports.Retryable, "malformed_stream"),
	"a-page":                     first(ports.Retryable, "cut"),
	"nothing-at-all":             first(ports.Retryable, "cut"),

	// K04: ends.
	"k04-a-no-end":                     fault(ports.Retryable, "cut", text("The answer is")),
	"k04-a-inside-a-frame":             fault(ports.Retryable, "cut", text("The answer")),
	"k04-a-done-line-is-no-end":        fault(ports.Retryable, "cut", text("The answer is")),
	"k04-b-never-signed":               fault(ports.Retryable, "cut", thinks("Hm", "")),
	"k04-c-reasoning-up-to-the-cap":    stopped("length", length, thinks("Hm", signedAs("rs_0", "c2ln", "Hm"))),
	"k04-e-reset-behind-the-end":       answer(endTurn, text("Done.")).Ending(errors.New("connection reset by peer")),
	"incomplete-at-the-cap":            answer(length, text("Once")),
	"content-filter":                   answer(refused, text("Once")),
	"incomplete-for-an-unknown-reason": fault(ports.Retryable, "incomplete_reason", text("Hm")).Counting(counted),
	"refusal":                          answer(refused, text("I cannot.")),
	"refusal-at-the-end-alone":         answer(refused, text("I cannot.")),
	"completed-with-nothing":           answer(endTurn),

	// K26 and K27: text.
	"k27-emoji-in-two-halves":   answer(endTurn, text("ok 😀!")),
	"k27-half-that-stays-alone": answer(endTurn, text("ok \uFFFD"), text("\uFFFDx")),
	"k26-nul":                   answer(endTurn, text("a\x00b \\u0000")),
	"beyond-ascii":              answer(endTurn, text("5 € 😀 \u2028")),
}
