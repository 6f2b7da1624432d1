package app

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"go.uber.org/fx"

	"github.com/keel-agent/keel/adapters/providers/anthropic"
	"github.com/keel-agent/keel/adapters/providers/fake"
	"github.com/keel-agent/keel/adapters/providers/gemini"
	"github.com/keel-agent/keel/adapters/providers/openai"
	"github.com/keel-agent/keel/adapters/providers/openai/responses"
	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/ports"
)

var providersModule = fx.Module("providers", fx.Provide(newProviders))

// backend is a provider that the environment configures.
type backend interface {
	ports.Provider
	Close()
}

// backendOf is how a backend is opened. The model is the default one, "" for what the environment says.
type backendOf struct {
	name string
	open func(c Config, model string) (backend, error)
}

// backends are in the order in which auto looks for one that is configured. The Responses wire comes first since it is
// there only when it was asked for.
var backends = []backendOf{
	{responses.DefaultName, openResponses},
	{"openai", openOpenAI},
	{"anthropic", openAnthropic},
	{"gemini", openGemini},
}

// providerNames are the values of Config.Provider besides "", which means auto.
func providerNames() []string {
	names := []string{"auto", fake.Name}
	for _, b := range backends {
		names = append(names, b.name)
	}
	return names
}

// errNotConfigured wraps what a provider says of which the environment tells nothing.
var errNotConfigured = errors.New("not configured")

func openOpenAI(c Config, model string) (backend, error) {
	cfg, err := openai.ConfigFromEnv(os.Getenv)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotConfigured, err)
	}
	cfg.Model, cfg.IdleTimeout = cmp.Or(model, cfg.Model), c.IdleLimit
	return openai.New(cfg)
}

// openResponses opens the Responses wire of what openOpenAI opens. It is offered when it is chosen, or when OPENAI_WIRE
// says so: most servers behind an OPENAI_BASE_URL do not speak it.
func openResponses(c Config, model string) (backend, error) {
	switch w := os.Getenv("OPENAI_WIRE"); {
	case c.Provider == responses.DefaultName || w == "responses":
	case w == "" || w == "chat":
		return nil, errNotConfigured
	default:
		return nil, fmt.Errorf("OPENAI_WIRE %q: want chat or responses", w)
	}
	cfg, err := openai.ConfigFromEnv(os.Getenv)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotConfigured, err)
	}
	cfg.Model, cfg.IdleTimeout = cmp.Or(model, cfg.Model), c.IdleLimit
	return responses.New(cfg)
}

func openAnthropic(c Config, model string) (backend, error) {
	cfg, err := anthropic.ConfigFromEnv(os.Getenv)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotConfigured, err)
	}
	cfg.Model, cfg.IdleTimeout = cmp.Or(model, cfg.Model), c.IdleLimit
	return anthropic.New(cfg)
}

func openGemini(c Config, model string) (backend, error) {
	cfg, err := gemini.ConfigFromEnv(os.Getenv)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotConfigured, err)
	}
	cfg.Model, cfg.IdleTimeout = cmp.Or(model, cfg.Model), c.IdleLimit
	return gemini.New(cfg)
}

// newProviders returns the chosen provider, behind it each other one that is configured, and the fake one. The fake one
// stands alone when it is chosen.
func newProviders(c Config, lc fx.Lifecycle) (*runner.Providers, error) {
	echo, err := newFake(c)
	if err != nil {
		return nil, err
	}
	if c.Provider == fake.Name {
		return runner.NewProviders(echo)
	}
	var all []ports.Provider
	for _, b := range chosenFirst(c.Provider) {
		model := ""
		if len(all) == 0 {
			model = c.Model
		}
		p, err := b.open(c, model)
		switch {
		case errors.Is(err, errNotConfigured) && b.name != c.Provider:
			continue
		case err != nil:
			return nil, fmt.Errorf("provider %s: %w", b.name, err)
		}
		lc.Append(fx.StopHook(p.Close))
		all = append(all, p)
	}
	return runner.NewProviders(append(all, echo)...)
}

// chosenFirst returns the backends with the one of that name in front.
func chosenFirst(name string) []backendOf {
	list := slices.Clone(backends)
	if i := slices.IndexFunc(list, func(b backendOf) bool { return b.name == name }); i > 0 {
		list = slices.Insert(slices.Delete(list, i, i+1), 0, backends[i])
	}
	return list
}

func newFake(c Config) (*fake.Provider, error) {
	var script []byte
	if c.Script != "" {
		text, err := os.ReadFile(c.Script)
		if err != nil {
			return nil, fmt.Errorf("--script: %w", err)
		}
		script = text
	}
	return fake.New(fake.Config{Script: script})
}
