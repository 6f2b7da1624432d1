package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/anthropic/anthropictest"
	"github.com/keel-agent/keel/adapters/providers/gemini/geminitest"
	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
	"github.com/keel-agent/keel/adapters/providers/openai/responses/responsestest"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
)

// oversized are the ways in which each backend says that a context is too long.
var oversized = map[string]map[string]wiretest.Response{
	chatWire: {
		"maximum":   openaitest.Error(400, openaitest.Fault("This model's maximum context length is 131072 tokens", "")),
		"prompt":    openaitest.Error(400, `{"error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`),
		"code":      openaitest.Error(400, openaitest.Fault("no", "context_length_exceeded")),
		"count":     openaitest.Error(400, `[{"error":{"code":400,"message":"The input token count (9) exceeds the maximum","status":"INVALID_ARGUMENT"}}]`),
		"type":      openaitest.Error(400, `{"error":{"code":400,"message":"no","type":"exceed_context_size_error"}}`),
		"in stream": openaitest.Events(`{"error":{"message":"prompt is too long","code":400}}`),
	},
	messagesWire: {
		"prompt":    anthropictest.Error(400, anthropictest.Fault("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")),
		"cap":       anthropictest.Error(400, anthropictest.Fault("invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000")),
		"bytes":     anthropictest.Error(413, anthropictest.Fault("request_too_large", "Request exceeds the maximum size")),
		"in stream": anthropictest.Events(anthropictest.Event(anthropictest.Fault("invalid_request_error", "prompt is too long"))),
		"window":    anthropictest.Stream("model_context_window_exceeded"),
	},
	generateWire: {
		"count":     geminitest.Error(400, geminitest.Fault(400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).")),
		"list":      geminitest.Error(400, "["+geminitest.Fault(400, "The input token count exceeds the maximum number of tokens allowed 1048576.")+"]"),
		"bytes":     geminitest.Error(400, geminitest.Fault(400, "Request payload size exceeds the limit: 20971520 bytes.")),
		"in stream": geminitest.Stream(geminitest.Fault(400, "The input token count (9) exceeds the maximum number of tokens allowed (8).")),
	},
	responsesWire: {
		"code":         responsestest.Error(400, responsestest.Fault("context_length_exceeded", "no")),
		"window":       responsestest.Error(400, responsestest.Fault("", "Your input exceeds the context window of this model.")),
		"failed":       wiretest.Bytes(responsestest.Created(), responsestest.Failed("context_length_exceeded", "no")),
		"in stream":    wiretest.Bytes(responsestest.Event(`{"type":"error","code":"context_length_exceeded","message":"no","param":null}`)),
		"in an object": wiretest.Bytes(responsestest.Event(`{"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"no","param":null}}`)),
	},
}

// limited are refusals for the rate, in words that overflows use too.
var limited = map[string]wiretest.Response{
	chatWire:      openaitest.Error(429, `{"error":{"message":"Rate limit: too many tokens, the maximum context length","type":"tokens"}}`),
	messagesWire:  anthropictest.Error(429, anthropictest.Fault("rate_limit_error", "prompt is too long: this request would exceed the limit of 30,000 input tokens per minute")),
	generateWire:  geminitest.Error(429, geminitest.Fault(429, "The input token count exceeds your quota of 250000 tokens per minute", geminitest.RetryIn(1))),
	responsesWire: responsestest.Error(429, responsestest.Fault("rate_limit_exceeded", "Request too large: too many tokens, the maximum context length")),
}

// inputCount matches how each wire counts the tokens of a request.
const inputCount = `("(?:prompt_tokens|input_tokens|promptTokenCount)":)\d+`

// K33, 2 and 3: each way in which backends say that a context is too long is answered by one compaction, and so is a count
// beyond the window in a good answer; a rate limit by none.
func TestK33RefusalsOfBackends(t *testing.T) {
	t.Parallel()
	var models []string
	for _, w := range wires {
		models = append(models, fmt.Sprintf(`{"id":%q,"contextWindow":6000}`, w.provider+"/"+w.model))
	}
	known := write(t, "models.json", `{"models":[`+strings.Join(models, ",")+`]}`)
	onEachWire(t, newStore(t, "sqlite"), func(t *testing.T, w onWire) {
		// third has a conversation of two turns, which count so many tokens, and gives the third input the answers.
		third := func(name, tokens string, answers ...wiretest.Response) []event {
			s := w.session(name)
			for i, text := range []string{"one", "two"} {
				w.push(rewritten(w.ends(long(text)), inputCount, "${1}"+tokens))
				w.say(s, text)
				w.finished(s, i+1)
			}
			w.push(answers...)
			w.say(s, "three")
			events := w.rested(s)
			require.Zero(t, w.backend.Pending(), name)
			require.Equal(t, []int64{7}, last(events, "assistant.message", t).InputSeqs, name)
			return events
		}
		page := wiretest.Error(http.StatusRequestEntityTooLarge, "<html>413 Request Entity Too Large</html>")
		for name, refusal := range merged(oversized[w.provider], map[string]wiretest.Response{"page": page}) {
			events := third(name, "10", refusal, w.ends("S"), w.ends("A3"))
			texts, _ := summarised(t, events)
			require.Equal(t, []string{"S"}, texts, name)
			require.Equal(t, 3, count(events, "run.finished"), "%s: one attempt each", name)
			require.Equal(t, []string{summaryHead + "S  three"}, heads(w.requested(1)), name)
		}
		events := third("counted", "7000", w.ends("S"), w.ends("A3"))
		texts, _ := summarised(t, events)
		require.Equal(t, []string{"S"}, texts)
		require.Equal(t, 3, count(events, "run.finished"))

		events = third("rate limit", "10", limited[w.provider], w.ends("A3"))
		texts, _ = summarised(t, events)
		require.Empty(t, texts)
		require.Equal(t, 4, count(events, "run.finished"), "a failed attempt")
		w.sameRequests(2)
	}, "--models", known)
}

func merged(a, b map[string]wiretest.Response) map[string]wiretest.Response {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
