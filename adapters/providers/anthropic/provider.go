package anthropic

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
	// DefaultBaseURL is Anthropic's own.
	DefaultBaseURL = "https://api.anthropic.com"
	// DefaultModel is asked for at Anthropic's own address when no model is configured. Any other backend is asked for
	// the first model that it lists.
	DefaultModel = "claude-sonnet-5"
	// DefaultMaxTokens bounds an answer where neither the request nor the configuration does; the wire wants a bound. A
	// model that can do less is asked for what it can, once its backend has told.
	DefaultMaxTokens = 32_000

	defaultName = "anthropic"
	version     = "2023-06-01"
)

// Config says which backend to talk to. The zero value is Anthropic without a key.
type Config struct {
	BaseURL     string            // without /v1, which is taken away; default DefaultBaseURL
	APIKey      string            // "" sends no x-api-key header
	Model       string            // the default model; "" means DefaultModel, or the first one that the backend lists
	MaxTokens   int               // the token cap of requests that name none; default DefaultMaxTokens
	IdleTimeout time.Duration     // how long the backend may be silent; default wire.DefaultIdle
	HTTPClient  *http.Client      // default: one of its own, which Close closes; redirects are never followed
	Headers     map[string]string // sent with every request; their values count as secrets
	Name        string            // the provider's name in events; default "anthropic"
}

// ErrNotConfigured is returned by ConfigFromEnv when the environment names neither a key nor a base URL.
var ErrNotConfigured = errors.New("neither ANTHROPIC_API_KEY nor ANTHROPIC_BASE_URL is set")

// Provider generates answers at one backend of the Messages wire.
type Provider struct {
	*wire.Client

	maxTokens  int      // the token cap of requests that name none
	limits     sync.Map // int by model: the largest max_tokens that the backend takes
	adaptive   sync.Map // bool by model: how it is told to think, where its name told wrong
	noSampling sync.Map // true by model: it refuses temperature
}

var _ ports.Provider = (*Provider)(nil)

// New returns a provider. It returns an error when the base URL is not one of HTTP, or a header is malformed.
func New(cfg Config) (*Provider, error) {
	base := baseURL(cfg.BaseURL)
	if cfg.Model == "" && base == DefaultBaseURL {
		cfg.Model = DefaultModel
	}
	client, err := wire.NewClient(wire.ClientConfig{
		Name: cmp.Or(cfg.Name, defaultName), Model: cfg.Model, List: listModels,
		Backend: wire.BackendConfig{
			BaseURL: base, KeyHeader: "X-Api-Key", Key: cfg.APIKey, Header: cfg.Headers, Public: map[string]string{"Anthropic-Version": version},
			HTTPClient: cfg.HTTPClient, Idle: cfg.IdleTimeout,
		},
	})
	if err != nil {
		return nil, err
	}
	return &Provider{Client: client, maxTokens: cmp.Or(cfg.MaxTokens, DefaultMaxTokens)}, nil
}

// ConfigFromEnv returns the configuration that ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL and ANTHROPIC_MODEL describe. A base URL alone
// is enough for servers that ask for no key. It returns ErrNotConfigured when there is neither key nor base URL.
func ConfigFromEnv(getenv func(string) string) (Config, error) {
	cfg := Config{BaseURL: getenv("ANTHROPIC_BASE_URL"), APIKey: getenv("ANTHROPIC_API_KEY"), Model: getenv("ANTHROPIC_MODEL")}
	if strings.TrimSpace(cfg.BaseURL) == "" && strings.TrimSpace(cfg.APIKey) == "" {
		return Config{}, ErrNotConfigured
	}
	return cfg, nil
}

func baseURL(s string) string {
	s = strings.TrimRight(strings.TrimSpace(s), "/")
	return cmp.Or(strings.TrimSuffix(s, "/v1"), DefaultBaseURL)
}
