package http

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/keel-agent/keel/adapters/tools/declared"
	"github.com/keel-agent/keel/adapters/tools/output"
	"github.com/keel-agent/keel/adapters/tools/toolset"
	"github.com/keel-agent/keel/ports"
)

// Tools is the set of the declared endpoints.
type Tools struct {
	*toolset.Set

	guarded, trusted *http.Client // apart, so that neither uses a connection that the other opened
}

// Config is what a set is made of.
type Config struct {
	Endpoints []Endpoint
	Lookup    func(string) (string, bool) // of environment variables, as os.LookupEnv
	Vault     ports.Vault                 // of the secrets that headers name; nil when there are none
	UserAgent string

	resolver *net.Resolver // of tests
	control  dialControl   // of tests; onlyPublic when nil
}

// New returns the tools, or what is wrong with a declaration. Nothing is contacted.
func New(c Config) (*Tools, error) {
	if c.control == nil {
		c.control = onlyPublic
	}
	common := http.Header{"Accept": {"application/json, text/*;q=0.9, */*;q=0.1"}, "User-Agent": {c.UserAgent}}
	t := &Tools{guarded: client(newTransport(c.control, c.resolver), common), trusted: client(newTransport(nil, c.resolver), common)}
	var tools []toolset.Tool
	taken := map[string]bool{}
	for i, e := range c.Endpoints {
		tool, err := t.tool(e.withDefaults(), c, common)
		if err == nil && taken[e.Name] {
			err = errors.New("there are two tools of this name")
		}
		if err != nil {
			return nil, fmt.Errorf("tool %d (%s): %w", i+1, e.Name, err)
		}
		taken[e.Name] = true
		tools = append(tools, tool)
	}
	t.Set = toolset.New(tools...)
	return t, nil
}

func client(t *http.Transport, common http.Header) *http.Client {
	return &http.Client{Transport: t, CheckRedirect: redirects(common)}
}

// Close lets go of idle connections.
func (t *Tools) Close() {
	t.guarded.CloseIdleConnections()
	t.trusted.CloseIdleConnections()
}

// endpoint is a declaration that was checked.
type endpoint struct {
	Endpoint

	client   *http.Client
	base     *url.URL
	path     string
	common   http.Header // where none is declared
	declared declared.Headers
	places   map[string]string // path, query or body, by argument
}

func (t *Tools) tool(e Endpoint, c Config, common http.Header) (toolset.Tool, error) {
	if err := e.check(); err != nil {
		return toolset.Tool{}, err
	}
	headers, err := declared.ParseHeaders(e.Headers, c.Lookup, c.Vault)
	if err != nil {
		return toolset.Tool{}, err
	}
	base, path, err := e.template(c.Lookup)
	if err != nil {
		return toolset.Tool{}, err
	}
	schema, arguments, err := e.schemaText()
	if err != nil {
		return toolset.Tool{}, err
	}
	if _, err := toolset.Compile(schema); err != nil {
		return toolset.Tool{}, fmt.Errorf("arguments: %w", err)
	}
	places, err := e.places(path, arguments)
	if err != nil {
		return toolset.Tool{}, err
	}
	called := endpoint{Endpoint: e, client: t.guarded, base: base, path: path, common: common, declared: headers, places: places}
	if e.AllowPrivate {
		called.client = t.trusted
	}
	return toolset.Tool{
		Spec:    ports.ToolSpec{Name: e.Name, Description: e.Description, Schema: schema, ReplaySafe: *e.ReplaySafe},
		Timeout: e.Timeout, Limit: e.MaxResponse + headRoom, Run: called.run,
	}, nil
}

// headRoom is what a result may hold besides the body.
const headRoom = 1 << 10

func (e endpoint) run(ctx context.Context, call toolset.Call) (string, error) {
	header, hidden, err := e.declared.For(ctx, call.Ref.Tenant)
	if err != nil {
		return "", err
	}
	for name, values := range e.common {
		if header.Get(name) == "" {
			header[name] = values
		}
	}
	text, err := e.ask(ctx, call, header, hidden)
	return text, hidden.Error(err)
}

// ask makes a request and returns what the model sees of the answer.
func (e endpoint) ask(ctx context.Context, call toolset.Call, header http.Header, hidden output.Hidden) (string, error) {
	req, err := e.request(ctx, call, header)
	if err != nil {
		return "", err
	}
	res, err := e.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("%s could not be reached: %w", e.base.Host, withoutURL(err))
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, int64(e.MaxResponse)+1))
	if err != nil {
		return "", fmt.Errorf("the answer of %s broke off: %w", e.base.Host, withoutURL(err))
	}
	text := report(res, body, e.MaxResponse, hidden)
	if res.StatusCode >= http.StatusBadRequest {
		return "", errors.New(text)
	}
	return text, nil
}

// withoutURL returns an error that does not show the URL, whose query may hold a secret.
func withoutURL(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}

// request builds the request of a call from the values as the model wrote them.
func (e endpoint) request(ctx context.Context, call toolset.Call, header http.Header) (*http.Request, error) {
	var args map[string]json.RawMessage
	if err := json.Unmarshal([]byte(call.Raw), &args); err != nil {
		return nil, err
	}
	path, query, body := e.path, url.Values{}, map[string]json.RawMessage{}
	for name, value := range args {
		switch e.places[name] {
		case inPath:
			segment, err := pathSegment(plain(value))
			if err != nil {
				return nil, fmt.Errorf("bad arguments: %s: %w", name, err)
			}
			path = strings.ReplaceAll(path, "{"+name+"}", segment)
		case inQuery:
			for _, v := range elements(value) {
				query.Add(name, plain(v))
			}
		default:
			body[name] = value
		}
	}
	return e.assemble(ctx, header, path, query, body)
}

func (e endpoint) assemble(
	ctx context.Context, header http.Header, path string, query url.Values, body map[string]json.RawMessage,
) (*http.Request, error) {
	target := e.base.Scheme + "://" + e.base.Host + path
	if all := strings.Trim(e.base.RawQuery+"&"+query.Encode(), "&"); all != "" {
		target += "?" + all
	}
	var sent io.Reader
	if len(body) > 0 || !safe(e.Method) && e.Method != http.MethodDelete {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, e.Method, target, sent)
	if err != nil {
		return nil, fmt.Errorf("bad arguments: %w", withoutURL(err))
	}
	req.Header = header
	if host := header.Get("Host"); host != "" {
		req.Host = host
	}
	if sent != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// plain is how a value stands in a path or a query: a string without its quotes, anything else as JSON.
func plain(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil && string(value) != "null" {
		return s
	}
	return string(value)
}

// elements are the values that a query gets for an argument: each of an array, else the one.
func elements(value json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) == nil && string(value) != "null" {
		return list
	}
	return []json.RawMessage{value}
}

// pathSegment escapes a value for one segment of a path. It refuses what servers take for a way out of the segment,
// even escaped.
func pathSegment(s string) (string, error) {
	if s == "" {
		return "", errors.New("it stands in a path and must not be empty")
	}
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r == '/' || r == '\\' }) {
		if part == "." || part == ".." {
			return "", fmt.Errorf("%q leads out of its place in the path", s)
		}
	}
	return url.PathEscape(s), nil
}
