package openaitest

import (
	"fmt"
	"net/http"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
)

// Stream returns an answer that sends each chunk, the JSON of one, as an event, and then [DONE].
func Stream(chunks ...string) Response {
	r := Events(chunks...)
	r.Steps = append(r.Steps, Step{Write: Done})
	return r
}

// Events is Stream without [DONE].
func Events(chunks ...string) Response {
	var r Response
	for _, c := range chunks {
		r.Steps = append(r.Steps, Step{Write: Event(c)})
	}
	return r
}

// Fault returns the body of an error with message and code.
func Fault(message, code string) string {
	return fmt.Sprintf(`{"error":{"message":%s,"type":null,"param":null,"code":%s}}`, quote(message), quote(code))
}

// TooMany returns a 429 with a Retry-After header.
func TooMany(retryAfter string) Response {
	r := Error(http.StatusTooManyRequests, Fault("slow down", "rate_limit_exceeded"))
	r.Header["Retry-After"] = retryAfter
	return r
}

// Done is the last event of most streams.
const Done = "data: [DONE]\n\n"

// Event returns the event with the given data.
func Event(data string) string { return "data: " + data + "\n\n" }

// Text returns a chunk with a piece of text.
func Text(s string) string { return chunk(`{"content":` + quote(s) + `}`) }

// Thinking returns a chunk with a piece of thinking.
func Thinking(s string) string { return chunk(`{"reasoning_content":` + quote(s) + `}`) }

// CallHead returns a chunk that opens a tool call; CallArguments goes on with it.
func CallHead(index int, id, name string) string {
	return chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]}`, index, quote(id), quote(name)))
}

// CallArguments returns a chunk with a piece of the argument text of the call at index.
func CallArguments(index int, piece string) string {
	return chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, index, quote(piece)))
}

// Finish returns the chunk with the finish reason.
func Finish(reason string) string {
	return head + `"choices":[{"index":0,"delta":{},"finish_reason":` + quote(reason) + `}]}`
}

// Usage returns the chunk without choices that counts tokens.
func Usage(input, output int) string {
	return fmt.Sprintf(head+`"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, input, output, input+output)
}

const head = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"` + Model + `",`

func chunk(delta string) string {
	return head + `"choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}`
}

func quote(s string) string { return wiretest.Quote(s) }
