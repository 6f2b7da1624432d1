package anthropictest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
)

// Block is one content block of an answer, as its events.
type Block func(index int) []string

// Stream returns an answer that sends blocks one after the other and ends for the reason stop.
func Stream(stop string, blocks ...Block) Response {
	r := Begun(blocks...)
	r.Steps = append(r.Steps, Step{Write: Stop(stop)}, Step{Write: Event(`{"type":"message_stop"}`)})
	return r
}

// Begun is Stream without the end.
func Begun(blocks ...Block) Response {
	events := []string{Begin()}
	for i, b := range blocks {
		events = append(events, b(i)...)
	}
	return Events(events...)
}

// Events returns an answer that sends each event in a piece of its own.
func Events(events ...string) Response { return wiretest.Bytes(events...) }

// Event returns the event with the given data, the JSON of an object whose first member is its type.
func Event(data string) string {
	var head struct{ Type string }
	_ = json.Unmarshal([]byte(data), &head) // a script may send what is no JSON
	return "event: " + head.Type + "\ndata: " + data + "\n\n"
}

// Begin returns the event with the head of a message of Model.
func Begin() string {
	return Event(`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"` + Model +
		`","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}}`)
}

// Ping returns the event that says nothing.
func Ping() string { return Event(`{"type":"ping"}`) }

// Stop returns the event with a stop reason and the count of the output.
func Stop(reason string) string {
	return Event(`{"type":"message_delta","delta":{"stop_reason":` + quote(reason) + `,"stop_sequence":null},"usage":{"output_tokens":5}}`)
}

// Text returns a block of text.
func Text(pieces ...string) Block {
	return blockOf(`{"type":"text","text":""}`, func(s string) string { return `{"type":"text_delta","text":` + quote(s) + `}` }, pieces)
}

// Thinking returns a block of thinking that Model signed.
func Thinking(pieces ...string) Block {
	return func(index int) []string {
		unsigned := blockOf(`{"type":"thinking","thinking":"","signature":""}`, func(s string) string {
			return `{"type":"thinking_delta","thinking":` + quote(s) + `}`
		}, pieces)(index)
		last := len(unsigned) - 1
		signature := delta(index, `{"type":"signature_delta","signature":`+quote(Sign(Model, strings.Join(pieces, "")))+`}`)
		return append(unsigned[:last:last], signature, unsigned[last])
	}
}

// Unsigned returns a block of thinking without a signature.
func Unsigned(pieces ...string) Block {
	return blockOf(`{"type":"thinking","thinking":""}`, func(s string) string { return `{"type":"thinking_delta","thinking":` + quote(s) + `}` }, pieces)
}

// Redacted returns a block of redacted thinking of Model.
func Redacted() Block {
	return blockOf(`{"type":"redacted_thinking","data":`+quote(Sign(Model, "redacted"))+`}`, nil, nil)
}

// Call returns a tool call with pieces of argument text.
func Call(id, name string, pieces ...string) Block {
	return blockOf(`{"type":"tool_use","id":`+quote(id)+`,"name":`+quote(name)+`,"input":{}}`, func(s string) string {
		return `{"type":"input_json_delta","partial_json":` + quote(s) + `}`
	}, pieces)
}

func blockOf(head string, piece func(string) string, pieces []string) Block {
	return func(index int) []string {
		events := []string{Event(fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, index, head))}
		for _, p := range pieces {
			events = append(events, delta(index, piece(p)))
		}
		return append(events, Event(fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index)))
	}
}

func delta(index int, d string) string {
	return Event(fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":%s}`, index, d))
}

// Fault returns the data of an error event, or the body of an error.
func Fault(kind, message string) string {
	return `{"type":"error","error":{"type":` + quote(kind) + `,"message":` + quote(message) + `},"request_id":"req_1"}`
}

// FaultOf returns the type of error that goes with an HTTP status.
func FaultOf(status int) string {
	known := map[int]string{
		http.StatusBadRequest: "invalid_request_error", http.StatusUnauthorized: "authentication_error", http.StatusPaymentRequired: "billing_error",
		http.StatusForbidden: "permission_error", http.StatusNotFound: "not_found_error", http.StatusRequestEntityTooLarge: "request_too_large",
		http.StatusTooManyRequests: "rate_limit_error", http.StatusGatewayTimeout: "timeout_error", 503: "overloaded_error", 529: "overloaded_error",
	}
	if kind, ok := known[status]; ok {
		return kind
	}
	return "api_error"
}

// Sign returns the signature of a thinking text by a model: it proves text and model, so that Check sees when a block
// was changed or went to another model.
func Sign(model, text string) string {
	mac := hmac.New(sha256.New, []byte("anthropictest"))
	mac.Write([]byte(family(model) + "\x00" + text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// family is what is left of the name of a model without its date.
func family(model string) string {
	if i := strings.LastIndex(model, "-20"); i > 0 && len(model)-i == len("-20250929") {
		return model[:i]
	}
	return model
}

func quote(s string) string { return wiretest.Quote(s) }
