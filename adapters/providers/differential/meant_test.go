package differential

// faults holds, by the code of the fault, why this project refuses answers that SDKs take.
var faults = map[string]string{
	"cut":              "a clean end of the body before the end of the answer is no error of the SDKs",
	"malformed_stream": "SDKs do not notice when a stream contradicts itself, and skip what is no event",
	"length":           "an answer that met the token cap before it said anything is a failed attempt",

	"unnamed_tool_call": "nobody can run a call without a name", "missing_tool_call": "calls were announced and none came",
	"ambiguous_tool_call": "a piece could belong to two calls; the SDK joins it to the first",

	"stop_reason": "SDKs hand unknown reasons on", "finish_reason": "SDKs hand unknown reasons on", "incomplete_reason": "SDKs hand unknown reasons on",
	"cancelled":                     "the event is none that the SDK's caller would take for an end",
	"model_context_window_exceeded": "nothing was said since the context fills the window",
	"UNEXPECTED_TOOL_CALL":          "the reason says that the answer broke", "MALFORMED_FUNCTION_CALL": "the reason says that the answer broke",
	"OTHER": "the reason says that the answer broke",

	"overloaded_error": "an error without a data field is no event, and SDKs skip it",
	"server_error":     "an error without a data field is no event, or stands in an event of a name that the SDK skips",
}

const (
	halves     = "the SDK decodes each piece for itself: a character in two halves is lost"
	neverBegun = "arguments that were never written are no empty object"
	noStream   = "the SDK reads streams alone"
	named      = "the SDK goes by a name that did not come"
	joined     = "the accumulator joins the calls of one index, with their names"
	refusal    = "a reason that means a refusal"
	cutShort   = "a reason that means a limit"
	graver     = "of two reasons, the one that says more about what is missing"
	lastIsAll  = "the SDK's caller takes the last event for the whole answer"
)

// values holds, by wire and fixture, why both read an answer, and not the same one.
var values = map[string]map[string]string{
	"anthropic": {
		"arguments-in-head-and-pieces": "the SDK keeps the head's arguments", "k02-b-sent-twice": "the SDK replaces arguments that are no JSON by {}",
		"k02-c-cut-off": "the SDK replaces arguments that are no JSON by {}", "call-without-its-end": neverBegun, "nothing-of-a-call-at-the-cap": neverBegun,
		"k02-d-own-escape-pair": halves, "k27-emoji-in-two-halves": halves, "no-event-lines": named, "no-type-members": named, "whole-message": noStream,
		"pause": cutShort, "window-exceeded": cutShort, "two-stop-reasons": graver, "usage-told-again": "counters never fall",
	},
	"gemini": {
		"K04 D: before the arguments": neverBegun, "K27 C: an emoji in two halves": halves, "two finish reasons": graver,
		"blocklist": refusal, "personal data": refusal, "prohibited content": refusal, "prompt blocked": refusal, "recitation": refusal,
	},
	"openai": {
		"K01 A: ids without index": joined, "K01 B: constant index, empty and null ids": joined, "a head with an id behind one without, constant index": joined,
		"a piece that says nothing, two open calls": joined, "both calls in one chunk, constant index, no ids": joined,
		"constant index, interleaved by id": joined, "neither ids nor indices nor arguments": joined, "neither ids nor indices, one chunk each": joined,
		"index from 1": "the accumulator fills the gap with a call", "name repeated with each piece": "the accumulator joins the names",
		"K02 D: the chunk's own escape pair": halves, "K27 C: an emoji in two halves": halves, "invalid bytes": "the SDK hands bytes on that are no text",
		"a byte order mark": "the SDK skips the first event", "a message in place of a delta": "the SDK knows deltas alone",
		"content as a list": "the SDK takes a list for a text", "legacy function call": "the accumulator drops it",
		"nothing at the token cap": neverBegun, "two finish chunks, the first cut off": graver,
	},
	"responses": {
		"a-call-that-was-never-done": lastIsAll, "k27-half-that-stays-alone": lastIsAll, "no-output-at-the-end": lastIsAll, "reasoning-told-when-done": lastIsAll,
		"new-ids-and-an-item-left-out": lastIsAll, "reasoning-told-behind-a-newer-one": lastIsAll,
		"the-end-without-white-space": "what was shown stays", "nothing-of-a-call-at-the-cap": neverBegun, "no-status": named, "no-type-members": named,
		"response-done": named, "whole-response": noStream,
	},
}
