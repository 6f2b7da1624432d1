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

// Backend is a server at an address, and how to ask it. It is safe for concurrent use.
type Backend struct {
	base    string
	client  *http.Client
	owned   bool // the client is the backend's own
	header  http.Header
	secrets Secrets
	idle    time.Duration
}

// BackendConfig says where a backend is and what every request to it carries.
type BackendConfig struct {
	BaseURL    string            // in front of every path; without a query and a slash at its end
	Header     map[string]string // sent with every request; the values count as secrets
	Public     map[string]string // sent with every request too, but no secret
	Secrets    []string          // further texts that no error may tell
	HTTPClient *http.Client      // default: one of its own, which Close closes; redirects are never followed
	Idle       time.Duration     // how long the backend may be silent in an answer; 0 means DefaultIdle
}

// NewBackend returns the backend of cfg. It returns an error, which tells no value of cfg, when the base URL is not one
// of HTTP or a header is malformed.
func NewBackend(cfg BackendConfig) (*Backend, error) {
	u, err := url.Parse(cfg.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the base URL must be an http or https URL") // without the URL: it may hold credentials
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the base URL must have neither a query nor a fragment")
	}
	b := &Backend{base: cfg.BaseURL, header: http.Header{}, idle: cfg.Idle, owned: cfg.HTTPClient == nil}
	for name, value := range cfg.Public {
		b.header.Set(name, value)
	}
	for name, value := range cfg.Header {
		if strings.ContainsAny(name+value, "\r\n\x00") {
			return nil, errors.New("a header or the API key holds a line break or U+0000")
		}
		b.header.Set(name, value)
	}
	b.secrets = secretsOf(cfg, u)
	client := http.Client{}
	if b.owned {
		client.Transport = newTransport()
	} else {
		client = *cfg.HTTPClient
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	b.client = &client
	return b, nil
}

func secretsOf(cfg BackendConfig, u *url.URL) Secrets {
	s := append(Secrets(nil), cfg.Secrets...)
	for _, value := range cfg.Header {
		s = append(s, value)
		if _, token, ok := strings.Cut(value, " "); ok { // "Bearer token"
			s = append(s, token)
		}
	}
	if u.User != nil {
		password, _ := u.User.Password()
		s = append(s, password, u.User.Username())
	}
	return s
}

// As returns the backend for requests with a tenant's credential: prefix and the credential take the place of the header of
// that name. Without a credential it is b itself. The fault it returns, for one that no header can carry, does not tell it.
func (b *Backend) As(header, prefix string, credential ports.Confidential) (*Backend, error) {
	if !credential.Given() {
		return b, nil
	}
	key := strings.TrimSpace(credential.Reveal())
	if key == "" || strings.ContainsAny(key, "\r\n\x00") {
		return nil, &ports.ProviderError{Class: ports.Fatal, Code: "credential", Message: "the tenant's API key is blank, or holds a line break or U+0000"}
	}
	other := *b
	other.header = b.header.Clone()
	other.header.Set(header, prefix+key)
	other.secrets = append(slices.Clip(b.secrets), key)
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

// Redact returns err without the secrets of the backend.
func (b *Backend) Redact(err error) error { return b.secrets.Redact(err) }

// Close closes the connections that no request uses, unless the client was given.
func (b *Backend) Close() {
	if b.owned {
		b.client.CloseIdleConnections()
	}
}

const (
	// maxErrorBody bounds what is read of an error body.
	maxErrorBody = 64 << 10
	// lookTimeout and maxLook bound Get.
	lookTimeout = 10 * time.Second
	maxLook     = 8 << 20
)

// Get returns the body at path. Of an answer that is no success it returns the fault.
func (b *Backend) Get(ctx context.Context, path string) ([]byte, error) {
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

// Refusal looks at a refused request, of which the backend tells status and body. It returns nil when that is final, else
// an error for Generate to return as it is: the codec's own sign that another request should be tried.
type Refusal func(status int, body []byte) error

// Generate posts body to path and reads the answer with d. model is what was asked for.
func (b *Backend) Generate(ctx context.Context, path string, body []byte, model string, d Decoder, refused Refusal) (ports.Reply, error) {
	watched, watch := NewWatch(ctx, b.idle)
	defer watch.Stop()
	resp, err := b.do(watched, watch, http.MethodPost, path, body)
	if err != nil {
		return ports.Reply{Model: model}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		err := refusal(resp, watch, refused)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return ports.Reply{Model: model}, err
	}
	reply, err := ReadAnswer(resp.Body, model, d, watch)
	if ctx.Err() != nil {
		return reply, context.Cause(ctx)
	}
	var fault *ports.ProviderError
	if errors.As(err, &fault) && fault.RetryAfter == 0 {
		fault.RetryAfter = RetryAfter(resp.Header, time.Now())
	}
	return reply, err
}

func (b *Backend) do(ctx context.Context, watch *Watch, method, path string, body []byte) (*http.Response, error) {
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

// refusal returns the fault of an answer that is none.
func refusal(resp *http.Response, watch *Watch, refused Refusal) error {
	if resp.StatusCode < 400 {
		return responseFault(resp, nil)
	}
	watch.Last(tail)
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err := refused(resp.StatusCode, body); err != nil {
		return err
	}
	return responseFault(resp, body)
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
