// Package http makes tools of HTTP endpoints that an operator declares.
package http

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/keel-agent/keel/adapters/tools/declared"
	"github.com/keel-agent/keel/adapters/tools/output"
)

// Endpoint declares one tool.
type Endpoint struct {
	Name         string            `yaml:"name"`
	Description  string            `yaml:"description"`
	Method       string            `yaml:"method"`       // GET when empty
	URL          string            `yaml:"url"`          // {name} in its path stands for an argument; ${VAR} in its query for a secret
	Headers      map[string]string `yaml:"headers"`      // ${VAR} is the environment's variable VAR, ${secret:NAME} a secret of the tenant
	Arguments    map[string]any    `yaml:"arguments"`    // JSON Schema, an object
	In           map[string]string `yaml:"in"`           // path, query or body, by argument
	Timeout      time.Duration     `yaml:"timeout"`      // of a call; DefaultTimeout when 0
	MaxResponse  int               `yaml:"maxResponse"`  // bytes of a body that the model sees; output.DefaultLimit when 0
	ReplaySafe   *bool             `yaml:"replaySafe"`   // may run again after a crash; by default GET and HEAD may
	AllowPrivate bool              `yaml:"allowPrivate"` // the endpoint may be at an address that is not public
}

const (
	// DefaultTimeout bounds a call of a tool that declares nothing else.
	DefaultTimeout = 30 * time.Second

	maxTimeout  = time.Hour
	maxResponse = 512 << 10 // what a ledger stores in one event by default, with room for escapes
)

// Load reads the declarations of a file. See docs/TOOLS.md.
func Load(path string) ([]Endpoint, error) {
	var file struct {
		Tools []Endpoint `yaml:"tools"`
	}
	err := declared.Read(path, &file)
	return file.Tools, err
}

// Places of an argument.
const (
	inPath  = "path"
	inQuery = "query"
	inBody  = "body"
)

var (
	goodName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	methods  = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	slot     = regexp.MustCompile(`\{([^{}]*)\}`)
)

// safe reports whether the method changes nothing by its definition.
func safe(method string) bool { return method == http.MethodGet || method == http.MethodHead }

func (e Endpoint) withDefaults() Endpoint {
	e.Method = cmp.Or(strings.ToUpper(e.Method), http.MethodGet)
	e.Timeout = cmp.Or(e.Timeout, DefaultTimeout)
	e.MaxResponse = cmp.Or(e.MaxResponse, output.DefaultLimit)
	if e.ReplaySafe == nil {
		is := safe(e.Method)
		e.ReplaySafe = &is
	}
	return e
}

// check returns what is wrong with the endpoint's simple fields.
func (e Endpoint) check() error {
	switch {
	case !goodName.MatchString(e.Name):
		return errors.New("name: want 1 to 64 of a-z, A-Z, 0-9, _ and -")
	case e.Description == "":
		return errors.New("description: it tells the model what the tool does, and is missing")
	case !slices.Contains(methods, e.Method):
		return fmt.Errorf("method %q: want one of %s", e.Method, strings.Join(methods, ", "))
	case e.Timeout < 0 || e.Timeout > maxTimeout:
		return fmt.Errorf("timeout %s: want at most %s", e.Timeout, maxTimeout)
	case e.MaxResponse < 0 || e.MaxResponse > maxResponse:
		return fmt.Errorf("maxResponse %d: want at most %d", e.MaxResponse, maxResponse)
	}
	return nil
}

// template splits the URL into what stands before its path, its path with slots, and its fixed query.
func (e Endpoint) template(lookup func(string) (string, bool)) (base *url.URL, path string, err error) {
	bare, query, _ := strings.Cut(e.URL, "?")
	if strings.ContainsAny(query, "{}") && strings.ContainsAny(declaredVariable.ReplaceAllString(query, ""), "{}") {
		return nil, "", errors.New("url: {name} belongs in the path; arguments reach the query by `in: {name: query}`")
	}
	if query, err = declared.Expand(query, lookup); err != nil {
		return nil, "", fmt.Errorf("url: %w", err)
	}
	if _, err := url.ParseQuery(query); err != nil {
		return nil, "", errors.New("url: its query is malformed")
	}
	u, err := url.Parse(slot.ReplaceAllString(bare, "x"))
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, "", errors.New("url: want http://… or https://…")
	case u.User != nil:
		return nil, "", errors.New("url: credentials belong into headers")
	case u.Fragment != "" || strings.Contains(bare, "#"):
		return nil, "", errors.New("url: a fragment is never sent")
	}
	origin := u.Scheme + "://" + u.Host
	if len(bare) < len(origin) || !strings.EqualFold(bare[:len(origin)], origin) {
		return nil, "", errors.New("url: {name} belongs in the path")
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, RawQuery: query}, bare[len(origin):], nil
}

var declaredVariable = regexp.MustCompile(`\$\{[^}]*\}`)

// schemaText is the JSON Schema of the arguments with what backends want to see in one.
func (e Endpoint) schemaText() (string, []string, error) {
	schema := map[string]any{"type": "object", "properties": map[string]any{}, "additionalProperties": false}
	maps.Copy(schema, e.Arguments)
	properties, isObject := schema["properties"].(map[string]any)
	if schema["type"] != "object" || !isObject {
		return "", nil, errors.New("arguments: want a JSON Schema of an object")
	}
	text, err := json.Marshal(schema)
	if err != nil {
		return "", nil, fmt.Errorf("arguments: %w", err)
	}
	var names []string
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return string(text), names, nil
}

// places says where each argument goes.
func (e Endpoint) places(path string, arguments []string) (map[string]string, error) {
	places := map[string]string{}
	for _, name := range arguments {
		places[name] = inQuery
		if !safe(e.Method) && e.Method != http.MethodDelete {
			places[name] = inBody
		}
	}
	for name, place := range e.In {
		switch _, known := places[name]; {
		case !known:
			return nil, fmt.Errorf("in: there is no argument %q", name)
		case place == inPath && !strings.Contains(path, "{"+name+"}"):
			return nil, fmt.Errorf("in: the path of the url has no {%s}", name)
		case place == inBody && safe(e.Method):
			return nil, fmt.Errorf("in: %s has no body for %s", e.Method, name)
		case place != inPath && place != inQuery && place != inBody:
			return nil, fmt.Errorf("in: %s: %q: want path, query or body", name, place)
		}
		places[name] = place
	}
	required, _ := e.Arguments["required"].([]any)
	for _, match := range slot.FindAllStringSubmatch(path, -1) {
		name := match[1]
		switch {
		case places[name] == "":
			return nil, fmt.Errorf("url: there is no argument %q", name)
		case !slices.Contains(required, any(name)):
			return nil, fmt.Errorf("arguments: %s stands in the path and must be required", name)
		case e.In[name] != "" && e.In[name] != inPath:
			return nil, fmt.Errorf("in: %s stands in the path of the url", name)
		}
		places[name] = inPath
	}
	if rest := slot.ReplaceAllString(path, ""); strings.ContainsAny(rest, "{}") {
		return nil, errors.New("url: a { without its }, or the other way round")
	}
	return places, nil
}
