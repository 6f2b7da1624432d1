package responsestest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
)

// Item is one item of an answer: its events, and what the whole response says of it.
type Item func(index int) (events []string, whole string)

// Completed returns an answer that sends items one after the other and is completed.
func Completed(items ...Item) Response { return ended("completed", "null", items) }

// Incomplete returns an answer that sends items and is incomplete for a reason.
func Incomplete(reason string, items ...Item) Response {
	return ended("incomplete", `{"reason":`+quote(reason)+`}`, items)
}

func ended(status, details string, items []Item) Response {
	r, whole := begun(items)
	r.Steps = append(r.Steps, Step{Write: Event(`{"type":"response.` + status + `","response":` + body(status, details, whole) + `}`)})
	return r
}

// Begun is Completed without the end.
func Begun(items ...Item) Response {
	r, _ := begun(items)
	return r
}

func begun(items []Item) (r Response, whole []string) {
	events := []string{Created()}
	for i, item := range items {
		more, w := item(i)
		events, whole = append(events, more...), append(whole, w)
	}
	return wiretest.Bytes(events...), whole
}

// body returns a whole response of Model that counts 3 tokens in and 5 out.
func body(status, details string, items []string) string {
	return `{"id":"resp_1","object":"response","created_at":1700000000,"status":` + quote(status) + `,"error":null,"incomplete_details":` + details +
		`,"model":"` + Model + `","output":[` + strings.Join(items, ",") + `],"usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":0},` +
		`"output_tokens":5,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":8}}`
}

// Event returns the event with the given data, the JSON of an object whose first member is its type.
func Event(data string) string {
	var head struct{ Type string }
	_ = json.Unmarshal([]byte(data), &head) // a script may send what is no JSON
	return "event: " + head.Type + "\ndata: " + data + "\n\n"
}

// Created returns the event with the head of a response of Model.
func Created() string {
	return Event(`{"type":"response.created","response":{"id":"resp_1","object":"response","status":"in_progress","error":null,"model":"` + Model + `","output":[],"usage":null}}`)
}

// Text returns a message of one text.
func Text(pieces ...string) Item { return message("output_text", "text", pieces) }

// Refusal returns a message in which the model declines.
func Refusal(pieces ...string) Item { return message("refusal", "refusal", pieces) }

func message(kind, member string, pieces []string) Item {
	return func(index int) ([]string, string) {
		id := fmt.Sprintf("msg_%d", index)
		text := quote(strings.Join(pieces, ""))
		whole := fmt.Sprintf(`{"id":"%s","type":"message","status":"completed","role":"assistant","content":[{"type":"%s","%s":%s}]}`, id, kind, member, text)
		at := fmt.Sprintf(`"item_id":"%s","output_index":%d,"content_index":0`, id, index)
		events := []string{added(index, `{"id":"`+id+`","type":"message","status":"in_progress","role":"assistant","content":[]}`)}
		for _, p := range pieces {
			events = append(events, Event(`{"type":"response.`+kind+`.delta",`+at+`,"delta":`+quote(p)+`}`))
		}
		return append(events, Event(`{"type":"response.`+kind+`.done",`+at+`,"`+member+`":`+text+`}`), done(index, whole)), whole
	}
}

// Call returns a function call with pieces of argument text.
func Call(id, name string, pieces ...string) Item {
	return func(index int) ([]string, string) {
		item := fmt.Sprintf("fc_%d", index)
		args := quote(strings.Join(pieces, ""))
		head := func(status, args string) string {
			return `{"id":"` + item + `","type":"function_call","status":"` + status + `","arguments":` + args + `,"call_id":` + quote(id) + `,"name":` + quote(name) + `}`
		}
		at := fmt.Sprintf(`"item_id":"%s","output_index":%d`, item, index)
		events := []string{added(index, head("in_progress", `""`))}
		for _, p := range pieces {
			events = append(events, Event(`{"type":"response.function_call_arguments.delta",`+at+`,"delta":`+quote(p)+`}`))
		}
		whole := head("completed", args)
		return append(events, Event(`{"type":"response.function_call_arguments.done",`+at+`,"arguments":`+args+`}`), done(index, whole)), whole
	}
}

// Reasoning returns a reasoning item of Model with a summary of several parts, encrypted so that it can be sent back.
func Reasoning(id string, summary ...string) Item {
	return reasoning(id, `,"encrypted_content":`+quote(Sign(Model, id, summary...)), summary)
}

// Plain returns a reasoning item without encrypted content.
func Plain(id string, summary ...string) Item { return reasoning(id, "", summary) }

func reasoning(id, encrypted string, summary []string) Item {
	return func(index int) ([]string, string) {
		events := []string{added(index, `{"id":`+quote(id)+`,"type":"reasoning","summary":[]}`)}
		for i, s := range summary {
			at := fmt.Sprintf(`"item_id":%s,"output_index":%d,"summary_index":%d`, quote(id), index, i)
			events = append(events,
				Event(`{"type":"response.reasoning_summary_text.delta",`+at+`,"delta":`+quote(s)+`}`),
				Event(`{"type":"response.reasoning_summary_text.done",`+at+`,"text":`+quote(s)+`}`))
		}
		whole := `{"id":` + quote(id) + `,"type":"reasoning","summary":` + Summary(summary...) + encrypted + `}`
		return append(events, done(index, whole)), whole
	}
}

// Summary returns the summary of a reasoning item.
func Summary(texts ...string) string {
	parts := make([]string, 0, len(texts))
	for _, s := range texts {
		parts = append(parts, `{"type":"summary_text","text":`+quote(s)+`}`)
	}
	return `[` + strings.Join(parts, ",") + `]`
}

func added(index int, item string) string {
	return Event(fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":%s}`, index, item))
}

func done(index int, item string) string {
	return Event(fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, index, item))
}

// Fault returns the body of an error.
func Fault(code, message string) string {
	return `{"error":{"message":` + quote(message) + `,"type":null,"param":null,"code":` + quote(code) + `}}`
}

// Failed returns the event with which a response fails.
func Failed(code, message string) string {
	return Event(`{"type":"response.failed","response":{"id":"resp_1","object":"response","status":"failed","error":{"code":` + quote(code) +
		`,"message":` + quote(message) + `},"model":"` + Model + `","output":[]}}`)
}

// Sign returns the encrypted content of a reasoning item: it proves model, id and summary, so that Check sees when an
// item was changed or went to another model.
func Sign(model, id string, summary ...string) string {
	mac := hmac.New(sha256.New, []byte("responsestest"))
	mac.Write([]byte(date.ReplaceAllString(model, "") + "\x00" + id + "\x00" + strings.Join(summary, "\x00")))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

var date = regexp.MustCompile(`-\d{4}-\d{2}-\d{2}$`)

func quote(s string) string { return wiretest.Quote(s) }
