package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
)

func modelsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "models.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestModelsFile(t *testing.T) {
	providers := []string{"openai", "fake"}
	for name, text := range map[string]string{
		"yaml": `
models:
  - id: gpt-5-mini
    contextWindow: 400000
    prices: {currency: USD, input: 0.25, output: 2.0, cacheRead: "0.025"}
  - id: dry
    provider: fake
    enabled: false
defaults:
  model: gpt-5-mini
  temperature: 0.2
`,
		"json": `{"models":[{"id":"gpt-5-mini","contextWindow":400000,"prices":{"currency":"USD","input":0.25,"output":2.0,"cacheRead":"0.025"}},
			{"id":"dry","provider":"fake","enabled":false}],"defaults":{"model":"gpt-5-mini","temperature":0.2}}`,
	} {
		d, err := readModels(modelsFile(t, text), providers)
		require.NoError(t, err, name)
		m, err := domain.NewCatalogue(providers, nil).With(d, domain.SourceFile).Resolve("")
		require.NoError(t, err, name)
		require.Equal(t, domain.Model{
			ID: "gpt-5-mini", Provider: "openai", Name: "gpt-5-mini", ContextWindow: 400000, Source: domain.SourceFile,
			Prices: domain.Prices{Currency: "USD", Input: "0.25", Output: "2", CacheRead: "0.025"},
		}, m, name)
		require.InDelta(t, 0.2, *d.Defaults.Temperature, 0)
	}
	d, err := readModels("", providers)
	require.NoError(t, err)
	require.Equal(t, domain.ModelDocument{}, d)
}

func TestModelsFileFaults(t *testing.T) {
	for text, want := range map[string]string{
		"models:\n  - id: a\n    contextWindw: 1\n":                                 "models/0/contextWindw: is not a member that belongs here; did you mean contextWindow?",
		"models:\n  - id: a\n    provider: opnai\n":                                 `models/0/provider: this server has no provider "opnai"; did you mean openai?`,
		"models:\n  - id: a\n   contextWindow: 1\n":                                 "line ",
		"models:\n  - id: a\n    id: b\n":                                           "line 3",
		"- id: a\n":                                                                 "line 1",
		"models:\n  - id: a\n    modalities: [text, smell]\n":                       "models/0/modalities: ",
		"models: [{id: a, prices: {currency: USD, input: 0.0000001, output: 1}}]\n": "models/0/prices/input: ",
	} {
		path := modelsFile(t, text)
		_, err := readModels(path, []string{"openai"})
		require.ErrorContains(t, err, "--models "+path+": ", text)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "invalid_request")
	}
	_, err := readModels(filepath.Join(t.TempDir(), "none"), nil)
	require.ErrorContains(t, err, "--models: ")
}
