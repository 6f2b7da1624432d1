package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/keel-agent/keel/adapters/tools/declared"
	"github.com/keel-agent/keel/ports"
	"github.com/keel-agent/keel/ports/portstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listenAt(t *testing.T, address string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(t.Context(), "tcp", address)
}

// echo answers with what it got.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = fmt.Fprintf(w, "%s %s\n%s|%s|%s", r.Method, r.RequestURI, r.Header.Get("Content-Type"), r.Header.Get("X-Key"), body)
}

const catalogue = `
tools:
  - name: weather
    description: The weather of a city.
    url: %[1]s/v1/{city}/weather?appid=${TOKEN}
    arguments:
      properties:
        city: {type: string, minLength: 1}
        days: {type: integer, maximum: 10}
        tags: {type: array, items: {type: string}}
        near: {type: object}
      required: [city]
  - name: order
    description: Orders a thing.
    method: post
    url: %[1]s/orders/{shop}
    headers: {X-Key: 'k ${TOKEN}'}
    arguments:
      properties: {shop: {type: integer}, thing: {type: string}, amount: {type: number}, dry: {type: boolean}}
      required: [shop, thing]
    in: {dry: query}
  - name: slow
    description: Answers at once or never.
    url: %[1]s/slow
    arguments: {properties: {for: {type: string}}}
  - name: remove
    description: Deletes a thing.
    method: DELETE
    url: %[1]s/things
    arguments: {properties: {id: {type: string}}}
    replaySafe: true
  - name: impatient
    description: Does not wait.
    url: %[1]s/slow
    arguments: {properties: {for: {type: string}}}
    timeout: 20ms
`

func slowOr(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("for") == "ever" {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		h(w, r)
	}
}

func TestConformance(t *testing.T) {
	u := serve(t, "127.0.1.1", slowOr(echo))
	portstest.TestTools(t, portstest.ToolsHarness{
		New:  func(t *testing.T) ports.Tools { return declare(t, Config{}, fmt.Sprintf(catalogue, u)) },
		Good: map[string]string{"weather": `{"city":"Oslo"}`, "order": `{"shop":1,"thing":"x"}`, "slow": `{}`, "impatient": `{}`, "remove": `{"id":"x"}`},
		Bad: map[string][]string{
			"weather": {`{}`, `{"city":1}`, `{"city":""}`, `{"city":"x","days":11}`, `{"city":"x","extra":1}`, `{"city":".."}`, `{"city":"a/../../admin"}`, `{"city":"..\\x"}`, `{"city":"."}`},
			"order":   {`{"shop":"1","thing":"x"}`, `{"shop":1}`, `{"shop":1,"thing":"x","dry":"yes"}`},
			"remove":  {`{"id":null}`, `{"ID":"x"}`},
		},
		Slow: &ports.ToolInvocation{ID: "c1", Name: "slow", Arguments: `{"for":"ever"}`},
	})
}

func TestRequests(t *testing.T) {
	tools := declare(t, Config{}, fmt.Sprintf(catalogue, serve(t, "127.0.1.1", echo)))
	for _, c := range []struct{ name, args, want string }{
		{"weather", `{"city":"Oslo"}`, "GET /v1/Oslo/weather?appid=s3cret\n||"},
		{"weather", `{"city":"São /&?#%{days}"}`, "GET /v1/S%C3%A3o%20%2F&%3F%23%25%7Bdays%7D/weather?appid=s3cret\n||"},
		{"weather", `{"city":"x","days":3,"tags":["a&b","c=d"]}`, "GET /v1/x/weather?appid=s3cret&days=3&tags=a%26b&tags=c%3Dd\n||"},
		{"weather", `{"city":"x","tags":[],"near":{"lat":1.50}}`, "GET /v1/x/weather?appid=s3cret&near=%7B%22lat%22%3A1.50%7D\n||"},
		{"order", `{"shop":12,"thing":"a\u2028","amount":12345678901234567890.5}`, "POST /orders/12\napplication/json|k s3cret|{\"amount\":12345678901234567890.5,\"thing\":\"a\\u2028\"}"},
		{"order", `{"shop":12,"thing":"a","dry":true}`, "POST /orders/12?dry=true\napplication/json|k s3cret|{\"thing\":\"a\"}"},
		{"remove", `{"id":"7"}`, "DELETE /things?id=7\n||"},
	} {
		text, isError := call(t, tools, c.name, c.args)
		require.False(t, isError, text)
		require.Equal(t, "HTTP 200 OK\ncontent-type: text/plain; charset=utf-8\n\n"+c.want, text)
	}
}

func TestReplaySafety(t *testing.T) {
	safe := map[string]bool{}
	for _, s := range declare(t, Config{}, fmt.Sprintf(catalogue, "http://h")).Specs() {
		safe[s.Name] = s.ReplaySafe
	}
	require.Equal(t, map[string]bool{"weather": true, "order": false, "slow": true, "remove": true, "impatient": true}, safe)
}

func TestAnswers(t *testing.T) {
	kind, body, status := "", "", http.StatusOK
	u := serve(t, "127.0.1.1", func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{kind}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	tools := declare(t, Config{}, "tools: [{name: get, description: d, maxResponse: 16, url: '"+u+"'}]")
	answer := func(k, b string, s int) (string, bool) {
		kind, body, status = k, b, s
		text, isError := call(t, tools, "get", `{}`)
		_, text, _ = strings.Cut(text, "\n\n")
		return text, isError
	}
	for _, c := range []struct{ kind, body, want string }{
		{"application/json", `{"a":1}`, `{"a":1}`},
		{"application/problem+json; charset=utf-8", `{}`, `{}`},
		{"text/plain", "0123456789abcdef", "0123456789abcdef"},
		{"text/plain", "0123456789abcdefg", "0123456789abcdef\n[cut: the first 16 bytes of a longer body]"},
		{"text/plain", "0123456789abcdé", "0123456789abcdé"},
		{"text/plain", "0123456789abcdeé", "0123456789abcde\n[cut: the first 15 bytes of a longer body]"},
		{"", "0123456789abcde€", "0123456789abcde\n[cut: the first 15 bytes of a longer body]"},
		{"text/plain", "a\xff", "a\uFFFD"},
		{"text/plain", "a\x00b", "[the body is binary and not shown: 3 bytes]"},
		{"image/png", "\x89PNG", "[the body is binary and not shown: 4 bytes]"},
		{"image/png", strings.Repeat("x", 1<<20), "[the body is binary and not shown: more than 16 bytes]"},
		{"application/octet-stream", "plain", "plain"},
		{"application/octet-stream", "\xff\xfe", "[the body is binary and not shown: 2 bytes]"},
		{"", "plain", "plain"},
		{"text/html", "", "[no body]"},
	} {
		text, isError := answer(c.kind, c.body, http.StatusOK)
		require.False(t, isError)
		require.Equal(t, c.want, text, "%+v", c)
	}
	text, isError := answer("application/json", `{"e":"no"}`, http.StatusNotFound)
	require.True(t, isError)
	require.Equal(t, `{"e":"no"}`, text, "the model learns what the endpoint says")
}

func TestTimeoutsAndFailuresAreResults(t *testing.T) {
	u := serve(t, "127.0.1.1", slowOr(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	tools := declare(t, Config{}, fmt.Sprintf(catalogue, u)+"\n  - {name: gone, description: d, url: 'http://127.0.1.1:1/?k=${TOKEN}'}")
	for name, want := range map[string]string{"impatient": "did not end within 20ms", "gone": "could not be reached", "remove": "broke off"} {
		args := `{}`
		if name == "impatient" {
			args = `{"for":"ever"}`
		}
		text, isError := call(t, tools, name, args)
		require.True(t, isError, name)
		require.Contains(t, text, want)
		require.NotContains(t, text, "s3cret")
	}

	cause := errors.New("cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	result := make(chan error)
	go func() {
		_, err := tools.Execute(ctx, ports.ToolInvocation{ID: "c1", Name: "slow", Arguments: `{"for":"ever"}`})
		result <- err
	}()
	cancel(cause)
	require.ErrorIs(t, <-result, cause)
}

func TestDeclarationsThatCannotWork(t *testing.T) {
	for text, want := range map[string]string{
		`{name: "a b", description: d, url: "http://h"}`:                                                                  "name:",
		`{name: a, url: "http://h"}`:                                                                                      "description:",
		`{name: a, description: d, method: TRACE, url: "http://h"}`:                                                       "method",
		`{name: a, description: d, timeout: 2h, url: "http://h"}`:                                                         "timeout",
		`{name: a, description: d, timeout: -1s, url: "http://h"}`:                                                        "timeout",
		`{name: a, description: d, maxResponse: 99999999, url: "http://h"}`:                                               "maxResponse",
		`{name: a, description: d, url: "ftp://h"}`:                                                                       "http://",
		`{name: a, description: d, url: "file:///etc/passwd"}`:                                                            "http://",
		`{name: a, description: d, url: "h/x"}`:                                                                           "http://",
		`{name: a, description: d, url: "http://u:p@h"}`:                                                                  "credentials",
		`{name: a, description: d, url: "http://h/#x"}`:                                                                   "fragment",
		`{name: a, description: d, url: "http://{h}/"}`:                                                                   "belongs in the path",
		`{name: a, description: d, url: "http://h.{x}/"}`:                                                                 "belongs in the path",
		`{name: a, description: d, url: "http://h/?q={q}"}`:                                                               "in: {name: query}",
		`{name: a, description: d, url: "http://h/?q=${NOPE}"}`:                                                           "NOPE",
		`{name: a, description: d, url: "http://h/?q=%zz"}`:                                                               "malformed",
		`{name: a, description: d, url: "http://h/{x}"}`:                                                                  `no argument "x"`,
		`{name: a, description: d, url: "http://h/{x"}`:                                                                   "without its }",
		`{name: a, description: d, url: "http://h/{x}", arguments: {properties: {x: {type: string}}}}`:                    "must be required",
		`{name: a, description: d, url: "http://h/", arguments: {type: array}}`:                                           "of an object",
		`{name: a, description: d, url: "http://h/", arguments: {properties: {x: {pattern: "("}}}}`:                       "arguments:",
		`{name: a, description: d, url: "http://h/", in: {x: query}}`:                                                     `no argument "x"`,
		`{name: a, description: d, url: "http://h/", arguments: {properties: {x: {}}}, in: {x: body}}`:                    "no body",
		`{name: a, description: d, url: "http://h/", arguments: {properties: {x: {}}}, in: {x: path}}`:                    "has no {x}",
		`{name: a, description: d, url: "http://h/", arguments: {properties: {x: {}}}, in: {x: header}}`:                  "want path, query or body",
		`{name: a, description: d, url: "http://h/{x}", arguments: {properties: {x: {}}, required: [x]}, in: {x: query}}`: "stands in the path",
		`{name: a, description: d, url: "http://h", headers: {"X Y": z}}`:                                                 "header",
		`{name: a, description: d, url: "http://h", headers: {X: "${CRLF}"}}`:                                             "header",
		`{name: a, description: d, url: "http://h", headers: {X: "${NOPE}"}}`:                                             "NOPE is not set",
		`{name: a, description: d, url: "http://h"}, {name: a, description: d, url: "http://h"}`:                          "two tools",
		`{name: a, description: d, url: "http://h", arguments: {properties: {x: {$ref: "http://169.254.169.254/"}}}}`:     "arguments:",
	} {
		var file struct {
			Tools []Endpoint `yaml:"tools"`
		}
		require.NoError(t, declared.Decode([]byte("tools: ["+text+"]"), &file), text)
		_, err := New(Config{Endpoints: file.Tools, Lookup: lookup})
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "s3cret")
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "http.yaml")
	require.NoError(t, os.WriteFile(path, []byte("tools: [{name: a, description: d, url: 'http://h', timeout: 5s}]"), 0o600))
	endpoints, err := Load(path)
	require.NoError(t, err)
	require.Len(t, endpoints, 1)
	require.NoError(t, os.WriteFile(path, []byte("tools: [{name: a, uri: x}]"), 0o600))
	_, err = Load(path)
	require.ErrorContains(t, err, "uri")
}
