package gemini

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

const (
	// DefaultBaseURL is Google's own.
	DefaultBaseURL = "https://generativelanguage.googleapis.com"
	// DefaultModel is asked for at Google's own address when no model is configured. Any other backend is asked for the
	// first model that it lists.
	DefaultModel = "gemini-flash-latest"

	defaultName = "gemini"
	keyHeader   = "X-Goog-Api-Key"
	version     = "/v1beta"
)

// Config says which backend to talk to. The zero value is Google without a key.
type Config struct {
	BaseURL     string            // without /v1beta, which is taken away; default DefaultBaseURL
	APIKey      string            // "" sends no x-goog-api-key header
	Model       string            // the default model; "" means DefaultModel, or the first one that the backend lists
	IdleTimeout time.Duration     // how long the backend may be silent; default wire.DefaultIdle
	HTTPClient  *http.Client      // default: one of its own, which Close closes; redirects are never followed
	Headers     map[string]string // sent with every request; their values count as secrets
	Name        string            // the provider's name in events; default "gemini"
}

// ErrNotConfigured is returned by ConfigFromEnv when the environment names neither a key nor a base URL.
var ErrNotConfigured = errors.New("none of GEMINI_API_KEY, GOOGLE_API_KEY and GEMINI_BASE_URL is set")

// Provider generates answers at one backend of the generateContent wire.
type Provider struct {
	cfg       Config
	backend   *wire.Backend
	catalogue wire.Catalogue

	answers  sync.Map // string by model asked for: the model that answered
	strict   sync.Map // true by model: it refuses calls without a signature
	thinking sync.Map // int by thinkingKey: how much of the wish for thinking was refused
}

var _ ports.Provider = (*Provider)(nil)

// New returns a provider. It returns an error when the base URL is not one of HTTP, or a header is malformed.
func New(cfg Config) (*Provider, error) {
	cfg.APIKey = strings.TrimSpace(cfg.APIKey)
	cfg.Name = cmp.Or(cfg.Name, defaultName)
	cfg.Model = plainModel(cfg.Model)
	base := baseURL(cfg.BaseURL)
	if cfg.Model == "" && base == DefaultBaseURL {
		cfg.Model = DefaultModel
	}
	header := map[string]string{}
	if cfg.APIKey != "" {
		header[keyHeader] = cfg.APIKey
	}
	maps.Copy(header, cfg.Headers)
	backend, err := wire.NewBackend(wire.BackendConfig{BaseURL: base, Header: header, HTTPClient: cfg.HTTPClient, Idle: cfg.IdleTimeout})
	if err != nil {
		return nil, err
	}
	p := &Provider{cfg: cfg, backend: backend}
	p.catalogue.Default, p.catalogue.Backend, p.catalogue.List, p.catalogue.KeyHeader = cfg.Model, backend, listModels, keyHeader
	return p, nil
}

// ConfigFromEnv returns the configuration that GEMINI_API_KEY (else GOOGLE_API_KEY), GEMINI_BASE_URL and GEMINI_MODEL
// describe. A base URL alone is enough for servers that ask for no key. It returns ErrNotConfigured when there is neither
// key nor base URL.
func ConfigFromEnv(getenv func(string) string) (Config, error) {
	cfg := Config{
		BaseURL: getenv("GEMINI_BASE_URL"), APIKey: cmp.Or(strings.TrimSpace(getenv("GEMINI_API_KEY")), getenv("GOOGLE_API_KEY")),
		Model: getenv("GEMINI_MODEL"),
	}
	if strings.TrimSpace(cfg.BaseURL) == "" && strings.TrimSpace(cfg.APIKey) == "" {
		return Config{}, ErrNotConfigured
	}
	return cfg, nil
}

func baseURL(s string) string {
	s = strings.TrimRight(strings.TrimSpace(s), "/")
	return cmp.Or(strings.TrimSuffix(s, version), DefaultBaseURL)
}

// Name returns the configured name.
func (p *Provider) Name() string { return p.cfg.Name }

// Close closes the connections that no request uses, unless the client was given.
func (p *Provider) Close() { p.backend.Close() }
