package openai

import (
	"cmp"
	"errors"
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

// ErrNotConfigured is returned by ConfigFromEnv when the environment names neither a key nor a base URL.
var ErrNotConfigured = errors.New("neither OPENAI_API_KEY nor OPENAI_BASE_URL is set")

// ConfigFromEnv returns the configuration that OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL describe. A base URL alone
// is enough for servers that ask for no key. It returns ErrNotConfigured when there is neither key nor base URL.
func ConfigFromEnv(getenv func(string) string) (Config, error) {
	cfg := Config{BaseURL: getenv("OPENAI_BASE_URL"), APIKey: getenv("OPENAI_API_KEY"), Model: getenv("OPENAI_MODEL")}
	if strings.TrimSpace(cfg.BaseURL) == "" && strings.TrimSpace(cfg.APIKey) == "" {
		return Config{}, ErrNotConfigured
	}
	return cfg, nil
}

// baseURL returns s with /v1 where it has no path, DefaultBaseURL where it is blank.
func baseURL(s string) string {
	s = strings.TrimRight(strings.TrimSpace(s), "/")
	if s == "" {
		return DefaultBaseURL
	}
	if u, err := url.Parse(s); err == nil && u.Path == "" && u.RawQuery == "" && u.Fragment == "" {
		s += "/v1"
	}
	return s
}

// Client returns the client of cfg, which the wires of OpenAI have in common; name is that of a provider that cfg
// gives none. It returns an error when the base URL is not one of HTTP, or a header is malformed.
func (cfg Config) Client(name string) (*wire.Client, error) {
	base := baseURL(cfg.BaseURL)
	if cfg.Model == "" && base == DefaultBaseURL {
		cfg.Model = DefaultModel
	}
	return wire.NewClient(wire.ClientConfig{
		Name: cmp.Or(cfg.Name, name), Model: cfg.Model, List: listModels,
		Backend: wire.BackendConfig{
			BaseURL: base, KeyHeader: "Authorization", KeyScheme: "Bearer ", Key: cfg.APIKey, Header: cfg.Headers,
			HTTPClient: cfg.HTTPClient, Idle: cfg.IdleTimeout,
		},
	})
}

// Provider generates answers at one backend of the Chat Completions wire.
type Provider struct {
	*wire.Client

	own              bool        // the backend is OpenAI itself
	noStreamOptions  atomic.Bool // the backend refuses stream_options
	completionTokens sync.Map    // models that want max_completion_tokens in place of max_tokens
	noTemperature    sync.Map    // models that refuse a temperature
	briefTools       sync.Map    // models that refuse long descriptions of tools
}

var _ ports.Provider = (*Provider)(nil)

// New returns a provider. It returns an error when the base URL is not one of HTTP, or a header is malformed.
func New(cfg Config) (*Provider, error) {
	client, err := cfg.Client(defaultName)
	if err != nil {
		return nil, err
	}
	return &Provider{Client: client, own: baseURL(cfg.BaseURL) == DefaultBaseURL}, nil
}
