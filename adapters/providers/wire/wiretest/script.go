package wiretest

import (
	"encoding/json"
	"net/http"
	"slices"
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

// Replacing returns r with texts replaced in what it writes; pairs are those of strings.NewReplacer.
func (r Response) Replacing(pairs ...string) Response {
	replacer := strings.NewReplacer(pairs...)
	r.Steps = slices.Clone(r.Steps)
	for i := range r.Steps {
		r.Steps[i].Write = replacer.Replace(r.Steps[i].Write)
	}
	return r
}

// Body returns all that r writes.
func (r Response) Body() string {
	var b strings.Builder
	for _, step := range r.Steps {
		b.WriteString(step.Write)
	}
	return b.String()
}

// RoundTrip is an http.RoundTripper: a backend without a server.
type RoundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f RoundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
