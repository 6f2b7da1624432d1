package http

import (
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/keel-agent/keel/adapters/tools/output"
)

// report is what a model sees of an answer: its status and content type, and the body if that is text. The body may
// hold one byte more than limit, which then is cut off. Nothing of it shows what is hidden.
func report(res *http.Response, body []byte, limit int, hidden output.Hidden) string {
	kind := res.Header.Get("Content-Type")
	head := fmt.Sprintf("HTTP %d %s\n", res.StatusCode, http.StatusText(res.StatusCode))
	if kind != "" {
		head += "content-type: " + output.Cap(hidden.In(kind), 200) + "\n"
	}
	switch {
	case len(body) == 0:
		return head + "\n[no body]"
	case !textual(kind, body):
		return head + "\n[the body is binary and not shown: " + size(len(body), limit) + "]"
	case len(body) > limit:
		kept := output.Prefix(hidden.InCut(string(body)), limit)
		return head + "\n" + kept + fmt.Sprintf("\n[cut: the first %d bytes of a longer body]", len(kept))
	}
	return head + "\n" + hidden.In(string(body))
}

func size(n, limit int) string {
	if n > limit {
		return fmt.Sprintf("more than %d bytes", limit)
	}
	return fmt.Sprintf("%d bytes", n)
}

// textual reports whether a body is text: by its type, or by its bytes where the type says nothing.
func textual(contentType string, body []byte) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	if contentType == "" || err != nil || kind == "application/octet-stream" {
		return !strings.ContainsRune(string(body), 0) && utf8.Valid(body[:wholeRunes(body)])
	}
	if strings.ContainsRune(string(body), 0) {
		return false
	}
	if strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") {
		return true
	}
	switch kind {
	case "application/json", "application/xml", "application/javascript", "application/x-ndjson", "application/yaml", "application/x-yaml",
		"application/x-www-form-urlencoded", "application/toml", "application/sql", "application/graphql":
		return true
	}
	return false
}

// wholeRunes is the length of body without a code point that the reading cut off at its end.
func wholeRunes(body []byte) int {
	for i := len(body) - 1; i >= 0 && i >= len(body)-utf8.UTFMax; i-- {
		if utf8.RuneStart(body[i]) {
			if utf8.FullRune(body[i:]) {
				return len(body)
			}
			return i
		}
	}
	return len(body)
}
