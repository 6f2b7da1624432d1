package geminitest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
)

// Stream returns an answer that sends each chunk, the JSON of one, as an event.
func Stream(chunks ...string) Response {
	var r Response
	for _, c := range chunks {
		r.Steps = append(r.Steps, Step{Write: Event(c)})
	}
	return r
}

// Event returns the event with the given data.
func Event(data string) string { return "data: " + data + "\r\n\r\n" }

// Chunk returns a chunk with parts.
func Chunk(parts ...string) string { return chunk("", parts) }

// Last returns the chunk that ends an answer for a reason, with the count of its tokens.
func Last(reason string, parts ...string) string {
	return chunk(`,"finishReason":`+quote(reason), parts)
}

func chunk(finish string, parts []string) string {
	return `{"candidates":[{"content":{"parts":[` + strings.Join(parts, ",") + `],"role":"model"}` + finish + `,"index":0}],` +
		`"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":5,"totalTokenCount":8},"modelVersion":"` + Model + `","responseId":"r1"}`
}

// Text returns a part of text.
func Text(s string) string { return `{"text":` + quote(s) + `}` }

// Thinking returns a part that sums thoughts up.
func Thinking(s string) string { return `{"text":` + quote(s) + `,"thought":true}` }

// Call returns a part that calls a tool. args is a JSON object; anything else is sent as a text, and "" not at all. id may
// be "".
func Call(id, name, args string) string {
	call := `{`
	if id != "" {
		call += `"id":` + quote(id) + `,`
	}
	call += `"name":` + quote(name)
	switch {
	case args == "":
	case wiretest.IsObject([]byte(args)):
		call += `,"args":` + args
	default:
		call += `,"args":` + quote(args)
	}
	return `{"functionCall":` + call + `}}`
}

// Signed returns a part as Model signs it.
func Signed(part string) string {
	return part[:len(part)-1] + `,"thoughtSignature":` + quote(SignPart(Model, part)) + `}`
}

// SignPart returns the signature of a part by a model.
func SignPart(model, part string) string {
	var p content
	if err := json.Unmarshal([]byte(part), &p); err != nil {
		panic(err)
	}
	return Sign(model, p.proved())
}

// Sign returns the signature of what a part says, by a model.
func Sign(model, said string) string {
	mac := hmac.New(sha256.New, []byte("geminitest"))
	mac.Write([]byte(model + "\x00" + said))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// proved returns what the signature of c proves.
func (c content) proved() string {
	switch {
	case c.FunctionCall != nil:
		var args bytes.Buffer
		_ = json.Compact(&args, c.FunctionCall.Args) // was valid in the part
		if args.Len() == 0 {
			args.WriteString("{}")
		}
		return "call " + c.FunctionCall.Name + " " + args.String()
	case c.InlineData != nil:
		return "data " + c.InlineData.Data
	case c.Text != nil:
		return fmt.Sprint("text ", c.Thought, " ", *c.Text)
	}
	return ""
}

// statuses holds the status of google.rpc that goes with an HTTP status.
var statuses = map[int]string{
	http.StatusBadRequest: "INVALID_ARGUMENT", http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusForbidden: "PERMISSION_DENIED",
	http.StatusNotFound: "NOT_FOUND", http.StatusTooManyRequests: "RESOURCE_EXHAUSTED", http.StatusServiceUnavailable: "UNAVAILABLE",
	http.StatusGatewayTimeout: "DEADLINE_EXCEEDED", http.StatusInternalServerError: "INTERNAL",
}

// Fault returns the body of an error with its details.
func Fault(status int, message string, details ...string) string {
	list := ""
	if len(details) > 0 {
		list = `,"details":[` + strings.Join(details, ",") + `]`
	}
	return fmt.Sprintf(`{"error":{"code":%d,"message":%s,"status":%s%s}}`, status, quote(message), quote(statuses[status]), list)
}

// RetryIn returns the detail that asks to wait for a number of seconds.
func RetryIn(seconds int) string {
	return fmt.Sprintf(`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"%ds"}`, seconds)
}

func quote(s string) string { return wiretest.Quote(s) }
