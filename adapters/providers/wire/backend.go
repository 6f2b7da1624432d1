package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/keel-agent/keel/ports"
)

// backend is a server at an address, and how to ask it. It is safe for concurrent use.
type backend struct {
	base      string
	client    *http.Client
	owned     bool // the client is the backend's own
	header    http.Header
	keyHeader string
	keyScheme string
	secrets   Secrets
	idle      time.Duration
}

// BackendConfig says where a backend is and what every request to it carries.
type BackendConfig struct {
	BaseURL    string            // in front of every path; without a query and a slash at its end
	KeyHeader  string            // the header that the key stands in, the provider's or a tenant's
	KeyScheme  string            // in front of the key, such as "Bearer "
	Key        string            // the provider's own, without the white space around it; "" sends none
	Header     map[string]string // sent with every request; the values count as secrets
	Public     map[string]string // sent with every request too, but no secret
	HTTPClient *http.Client      // default: one of its own, which is closed; redirects are never followed
	Idle       time.Duration     // how long the backend may be silent in an answer; 0 means DefaultIdle
}

func newBackend(cfg BackendConfig) (*backend, error) {
	u, err := url.Parse(cfg.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the base URL must be an http or https URL") // without the URL: it may hold credentials
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the base URL must have neither a query nor a fragment")
	}
	b := &backend{
		base: cfg.BaseURL, header: http.Header{}, keyHeader: cfg.KeyHeader, keyScheme: cfg.KeyScheme,
		idle: cfg.Idle, owned: cfg.HTTPClient == nil,
	}
	for name, value := range cfg.Public {
		b.header.Set(name, value)
	}
	if key := strings.TrimSpace(cfg.Key); key != "" {
		b.setKey(key)
	}
	for name, value := range cfg.Header {
		b.header.Set(name, value)
		b.secrets = append(b.secrets, value)
		if _, token, ok := strings.Cut(value, " "); ok { // "Bearer token"
			b.secrets = append(b.secrets, token)
		}
	}
	if malformed(b.header) {
		return nil, errors.New("a header or the API key holds a line break or U+0000")
	}
	if u.User != nil {
		password, _ := u.User.Password()
		b.secrets = append(b.secrets, password, u.User.Username())
	}
	b.client = clientOf(cfg.HTTPClient)
	return b, nil
}

func malformed(header http.Header) bool {
	for name, values := range header {
		if strings.ContainsAny(name+strings.Join(values, ""), "\r\n\x00") {
			return true
		}
	}
	return false
}

// clientOf returns a client like the given one, of its own for nil, that follows no redirects.
func clientOf(given *http.Client) *http.Client {
	client := http.Client{}
	if given != nil {
		client = *given
	} else {
		client.Transport = newTransport()
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

func (b *backend) setKey(key string) {
	b.header.Set(b.keyHeader, b.keyScheme+key)
	b.secrets = append(slices.Clip(b.secrets), b.keyScheme+key, key)
}

// as returns the backend for requests with a tenant's credential, which takes the place of the provider's key. Without a
// credential it is b itself. The fault it returns, for one that no header can carry, does not tell it.
func (b *backend) as(credential ports.Confidential) (*backend, error) {
	if !credential.Given() {
		return b, nil
	}
	key := strings.TrimSpace(credential.Reveal())
	if key == "" || strings.ContainsAny(key, "\r\n\x00") {
		return nil, &ports.ProviderError{Class: ports.Fatal, Code: "credential", Message: "the tenant's API key is blank, or holds a line break or U+0000"}
	}
	other := *b
	other.header = b.header.Clone()
	other.setKey(key)
	return &other, nil
}

// newTransport returns a transport for few hosts and many streams at a time.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 32,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true, // a compressed stream arrives in lumps
	}
}

// close closes the connections that no request uses, unless the client was given.
func (b *backend) close() {
	if b.owned {
		b.client.CloseIdleConnections()
	}
}

const (
	// maxErrorBody bounds what is read of an error body.
	maxErrorBody = 64 << 10
	// lookTimeout and maxLook bound get.
	lookTimeout = 10 * time.Second
	maxLook     = 8 << 20
)

// get returns the body at path. Of an answer that is no success it returns the fault.
func (b *backend) get(ctx context.Context, path string) ([]byte, error) {
	watched, watch := NewWatch(ctx, lookTimeout)
	defer watch.Stop()
	resp, err := b.do(watched, watch, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxLook))
	if err != nil {
		return nil, watch.Fault(err)
	}
	if resp.StatusCode >= 300 {
		return nil, responseFault(resp, body)
	}
	return body, nil
}

// generate posts body, that of r, and has r's decoder read the answer. model is what was asked for. again is true for a request
// that was refused when refused says so.
func (b *backend) generate(ctx context.Context, r Request, body []byte, model string, refused func(int, []byte) bool) (reply ports.Reply, again bool, err error) {
	watched, watch := NewWatch(ctx, b.idle)
	defer watch.Stop()
	resp, err := b.do(watched, watch, http.MethodPost, r.Path, body)
	if err != nil {
		return ports.Reply{Model: model}, false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		again, err := refusal(resp, watch, refused)
		if ctx.Err() != nil {
			again, err = false, context.Cause(ctx)
		}
		return ports.Reply{Model: model}, again, err
	}
	reply, err = ReadAnswer(resp.Body, model, r.Answer, watch)
	if ctx.Err() != nil {
		return reply, false, context.Cause(ctx)
	}
	var fault *ports.ProviderError
	if errors.As(err, &fault) && fault.RetryAfter == 0 {
		fault.RetryAfter = RetryAfter(resp.Header, time.Now())
	}
	return reply, false, err
}

func (b *backend) do(ctx context.Context, watch *Watch, method, path string, body []byte) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, b.base+path, content)
	if err != nil {
		return nil, &ports.ProviderError{Class: ports.Fatal, Code: "request", Message: "the request could not be built"}
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "text/event-stream, application/json")
	}
	maps.Copy(r.Header, b.header)
	resp, err := b.client.Do(r)
	if err != nil {
		return nil, watch.Fault(err)
	}
	return resp, nil
}

// refusal reads an answer that is none. It returns again when refused says so, else the fault.
func refusal(resp *http.Response, watch *Watch, refused func(int, []byte) bool) (again bool, err error) {
	if resp.StatusCode < 400 {
		return false, responseFault(resp, nil)
	}
	watch.Last(tail)
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if refused(resp.StatusCode, body) {
		return true, nil
	}
	return false, responseFault(resp, body)
}

func responseFault(resp *http.Response, body []byte) error {
	if resp.StatusCode < 400 {
		return &ports.ProviderError{
			Class: ports.Fatal, Status: resp.StatusCode, Code: "redirect", Message: "the backend redirects; configure the base URL that it redirects to",
		}
	}
	f := BodyFault(resp.StatusCode, body)
	if d := RetryAfter(resp.Header, time.Now()); d > 0 {
		f.RetryAfter = d
	}
	return f.Error()
}
