package wiretest

import (
	"encoding/json"
	"strings"
)

// Bytes returns an answer that writes each piece as it is.
func Bytes(pieces ...string) Response {
	var r Response
	for _, p := range pieces {
		r.Steps = append(r.Steps, Step{Write: p})
	}
	return r
}

// Whole returns an answer that is no stream: a JSON body.
func Whole(body string) Response {
	r := Bytes(body)
	r.Header = map[string]string{"Content-Type": "application/json"}
	return r
}

// Error returns an answer with an error status and a JSON body.
func Error(status int, body string) Response {
	r := Whole(body)
	r.Status = status
	return r
}

// Ending returns r with another end.
func (r Response) Ending(end End) Response {
	r.End = end
	return r
}

// Quote returns s as a JSON string.
func Quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}
