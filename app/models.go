package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/knadh/koanf/parsers/yaml"
	"go.uber.org/fx"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/app/models"
	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/app/secrets"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

var modelsModule = fx.Module("models", fx.Provide(newModels))

func newModels(c Config, s ports.Settings, p *runner.Providers, v *secrets.Vault, lc fx.Lifecycle, log *zap.Logger) (*models.Catalogues, error) {
	var names []string
	for _, each := range p.All() {
		names = append(names, each.Name())
	}
	file, err := readModels(c.Models, names)
	if err != nil {
		return nil, err
	}
	cfg := models.Config{Settings: s, Providers: p.All(), File: file, Compact: c.CompactModel, Log: log.Named("models")}
	if v != nil {
		cfg.Credentials = v
	}
	catalogues := models.New(cfg)
	lc.Append(fx.StartStopHook(catalogues.Start, catalogues.Close))
	return catalogues, nil
}

// readModels reads the catalogue of the YAML or JSON file at path; "" is none. Its errors name the line or the member at
// fault.
func readModels(path string, providers []string) (domain.ModelDocument, error) {
	if path == "" {
		return domain.ModelDocument{}, nil
	}
	fault := func(err error) (domain.ModelDocument, error) {
		return domain.ModelDocument{}, fmt.Errorf("--models %s: %w", path, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return domain.ModelDocument{}, fmt.Errorf("--models: %w", err)
	}
	tree, err := yaml.Parser().Unmarshal(text)
	if err != nil {
		return fault(err)
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		return fault(err)
	}
	payload, err := domain.ParsePayload(raw, 0)
	if err != nil {
		return fault(err)
	}
	document, err := domain.ParseModels(payload, providers)
	if e, ok := errors.AsType[*domain.Error](err); ok {
		return fault(fmt.Errorf("%s: %s", e.Field, e.Detail)) // its code is for clients
	}
	return document, err
}
