package gemini

import (
	"cmp"
	"errors"
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
	*wire.Client

	answers  sync.Map // string by model asked for: the model that answered
	strict   sync.Map // true by model: it refuses calls without a signature
	thinking sync.Map // int by thinkingKey: how much of the wish for thinking was refused
}

var _ ports.Provider = (*Provider)(nil)

// New returns a provider. It returns an error when the base URL is not one of HTTP, or a header is malformed.
func New(cfg Config) (*Provider, error) {
	base, model := baseURL(cfg.BaseURL), plainModel(cfg.Model)
	if model == "" && base == DefaultBaseURL {
		model = DefaultModel
	}
	client, err := wire.NewClient(wire.ClientConfig{
		Name: cmp.Or(cfg.Name, defaultName), Model: model, List: listModels,
		Backend: wire.BackendConfig{
			BaseURL: base, KeyHeader: "X-Goog-Api-Key", Key: cfg.APIKey, Header: cfg.Headers, HTTPClient: cfg.HTTPClient, Idle: cfg.IdleTimeout,
		},
	})
	if err != nil {
		return nil, err
	}
	return &Provider{Client: client}, nil
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
