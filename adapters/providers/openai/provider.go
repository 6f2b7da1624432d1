package openai

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

const (
	// DefaultBaseURL is OpenAI's own.
	DefaultBaseURL = "https://api.openai.com/v1"
	// DefaultModel is asked for at OpenAI's own address when no model is configured. Any other backend is asked for
	// the first model that it lists.
	DefaultModel = "gpt-5-mini"

	defaultName = "openai"
)

// Config says which backend to talk to. The zero value is OpenAI without a key.
type Config struct {
	BaseURL     string            // up to and including /v1; a URL without a path gets /v1; default DefaultBaseURL
	APIKey      string            // "" sends no Authorization header
	Model       string            // the default model; "" means DefaultModel, or the first one that the backend lists
	IdleTimeout time.Duration     // how long the backend may be silent; default wire.DefaultIdle
	HTTPClient  *http.Client      // default: one of its own, which Close closes; redirects are never followed
	Headers     map[string]string // sent with every request; their values count as secrets
	Name        string            // the provider's name in events; default "openai"
}

// ErrNotConfigured is returned by NewFromEnv when the environment names neither a key nor a base URL.
var ErrNotConfigured = errors.New("neither OPENAI_API_KEY nor OPENAI_BASE_URL is set")

// Provider generates answers at one backend of the Chat Completions wire.
type Provider struct {
	cfg     Config
	base    string
	client  *http.Client
	secrets wire.Secrets

	noStreamOptions  atomic.Bool // the backend refuses stream_options
	completionTokens sync.Map    // models that want max_completion_tokens in place of max_tokens
	discovered       atomic.Pointer[string]
}

var _ ports.Provider = (*Provider)(nil)

// New returns a provider. It returns an error when the base URL is not one of HTTP, or a header is malformed.
func New(cfg Config) (*Provider, error) {
	cfg.APIKey = strings.TrimSpace(cfg.APIKey)
	if cfg.Name == "" {
		cfg.Name = defaultName
	}
	base, err := baseURL(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	if cfg.Model == "" && base == DefaultBaseURL {
		cfg.Model = DefaultModel
	}
	client := http.Client{Transport: newTransport()}
	if cfg.HTTPClient != nil {
		client = *cfg.HTTPClient
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	p := &Provider{cfg: cfg, base: base, client: &client, secrets: secretsOf(cfg)}
	for name, value := range cfg.Headers {
		if strings.ContainsAny(name+value, "\r\n\x00") {
			return nil, errors.New("a configured header holds a line break or U+0000")
		}
	}
	if strings.ContainsAny(cfg.APIKey, "\r\n\x00") {
		return nil, errors.New("the API key holds a line break or U+0000")
	}
	return p, nil
}

// NewFromEnv returns the provider that OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL describe. A base URL alone is
// enough for servers that ask for no key. It returns ErrNotConfigured when there is neither key nor base URL.
func NewFromEnv(getenv func(string) string) (*Provider, error) {
	cfg := Config{BaseURL: getenv("OPENAI_BASE_URL"), APIKey: getenv("OPENAI_API_KEY"), Model: getenv("OPENAI_MODEL")}
	if strings.TrimSpace(cfg.BaseURL) == "" && strings.TrimSpace(cfg.APIKey) == "" {
		return nil, ErrNotConfigured
	}
	return New(cfg)
}

func baseURL(s string) (string, error) {
	s = strings.TrimRight(strings.TrimSpace(s), "/")
	if s == "" {
		return DefaultBaseURL, nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", errors.New("the base URL must be an http or https URL") // without the URL: it may hold credentials
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("the base URL must have neither a query nor a fragment")
	}
	if u.Path == "" {
		s += "/v1"
	}
	return s, nil
}

func secretsOf(cfg Config) wire.Secrets {
	s := wire.Secrets{cfg.APIKey}
	for _, value := range cfg.Headers {
		s = append(s, value)
		if _, token, ok := strings.Cut(value, " "); ok { // "Bearer token"
			s = append(s, token)
		}
	}
	if u, err := url.Parse(cfg.BaseURL); err == nil && u.User != nil {
		password, _ := u.User.Password()
		s = append(s, password, u.User.Username())
	}
	return s
}

// Name returns the configured name.
func (p *Provider) Name() string { return p.cfg.Name }

// Close closes the connections that no request uses, unless the client was given.
func (p *Provider) Close() {
	if p.cfg.HTTPClient == nil {
		p.client.CloseIdleConnections()
	}
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

// request returns an HTTP request to the backend.
func (p *Provider) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, p.base+path, reader(body))
	if err != nil {
		return nil, &ports.ProviderError{Class: ports.Fatal, Code: "request", Message: "the request could not be built"}
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "text/event-stream, application/json")
	}
	if p.cfg.APIKey != "" {
		r.Header.Set("Authorization", "Bearer "+p.cfg.APIKey)
	}
	for name, value := range p.cfg.Headers {
		r.Header.Set(name, value)
	}
	return r, nil
}
