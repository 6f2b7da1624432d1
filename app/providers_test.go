package app

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/fx/fxtest"
)

// TestProvidersSideBySide: every configured provider is there, the chosen one first, else by the order of auto.
func TestProvidersSideBySide(t *testing.T) {
	for _, c := range []struct {
		chosen                    string
		openai, anthropic, gemini bool
		first                     string // of a model without a provider's name
		others                    []string
	}{
		{"auto", false, false, false, "fake", []string{"fake"}},
		{"", true, false, false, "openai", []string{"openai", "fake"}},
		{"auto", false, true, false, "anthropic", []string{"anthropic", "fake"}},
		{"auto", false, false, true, "gemini", []string{"gemini", "fake"}},
		{"auto", true, true, false, "openai", []string{"openai", "anthropic", "fake"}},
		{"auto", false, true, true, "anthropic", []string{"anthropic", "gemini", "fake"}},
		{"anthropic", true, true, false, "anthropic", []string{"openai", "anthropic", "fake"}},
		{"gemini", true, true, true, "gemini", []string{"openai", "anthropic", "gemini", "fake"}},
		{"fake", true, true, true, "fake", []string{"fake"}},
	} {
		setKey(t, "OPENAI", c.openai)
		setKey(t, "ANTHROPIC", c.anthropic)
		setKey(t, "GEMINI", c.gemini)
		lc := fxtest.NewLifecycle(t)
		all, err := newProviders(Config{Provider: c.chosen, Model: "mine"}, lc)
		require.NoError(t, err)
		p, model := all.Resolve("some-model")
		require.Equal(t, c.first, p.Name(), "%+v", c)
		require.Equal(t, "some-model", model)
		for _, name := range []string{"openai", "anthropic", "gemini", "fake"} {
			p, _ := all.Resolve(name + "/x")
			require.Equal(t, slices.Contains(c.others, name), p.Name() == name, "%+v: %s", c, name)
		}
		lc.RequireStart().RequireStop()
	}
}

func TestProviderThatIsNotConfigured(t *testing.T) {
	setKey(t, "OPENAI", true)
	setKey(t, "ANTHROPIC", false)
	setKey(t, "GEMINI", false)
	_, err := newProviders(Config{Provider: "anthropic"}, fxtest.NewLifecycle(t))
	require.ErrorContains(t, err, "ANTHROPIC_API_KEY")
	t.Setenv("ANTHROPIC_BASE_URL", "ftp://x")
	_, err = newProviders(Config{Provider: "auto"}, fxtest.NewLifecycle(t))
	require.ErrorContains(t, err, "provider anthropic: the base URL", "one that is malformed is not passed over")
	require.ErrorContains(t, Config{Listen: "127.0.0.1:1", Store: "memory:", Provider: "moon"}.Validate(), "auto, fake, openai-responses, openai, anthropic, gemini")
}

// TestResponsesWhenAskedFor: the Responses wire is there when it is named, beside the other wire of the same backend.
func TestResponsesWhenAskedFor(t *testing.T) {
	for _, c := range []struct{ chosen, wire, first, model string }{
		{"auto", "", "openai", "openai-responses/x"},
		{"auto", "chat", "openai", "openai-responses/x"},
		{"auto", "responses", "openai-responses", "x"},
		{"openai", "responses", "openai", "x"},
		{"openai-responses", "", "openai-responses", "x"},
	} {
		setKey(t, "OPENAI", true)
		setKey(t, "ANTHROPIC", true)
		setKey(t, "GEMINI", false)
		t.Setenv("OPENAI_WIRE", c.wire)
		all, err := newProviders(Config{Provider: c.chosen}, fxtest.NewLifecycle(t))
		require.NoError(t, err)
		p, _ := all.Resolve("some-model")
		require.Equal(t, c.first, p.Name(), "%+v", c)
		_, model := all.Resolve("openai-responses/x")
		require.Equal(t, c.model, model, "%+v", c)
		for _, other := range []string{"openai", "anthropic"} {
			p, _ = all.Resolve(other + "/x")
			require.Equal(t, other, p.Name(), "%+v", c)
		}
	}
	t.Setenv("OPENAI_WIRE", "telegraph")
	_, err := newProviders(Config{Provider: "auto"}, fxtest.NewLifecycle(t))
	require.ErrorContains(t, err, `OPENAI_WIRE "telegraph": want chat or responses`)
	setKey(t, "OPENAI", false)
	t.Setenv("OPENAI_WIRE", "responses")
	_, err = newProviders(Config{Provider: "openai-responses"}, fxtest.NewLifecycle(t))
	require.ErrorContains(t, err, "OPENAI_API_KEY")
	all, err := newProviders(Config{Provider: "auto"}, fxtest.NewLifecycle(t))
	require.NoError(t, err)
	p, _ := all.Resolve("some-model")
	require.Equal(t, "anthropic", p.Name(), "nothing of OpenAI is configured")
}

func setKey(t *testing.T, prefix string, set bool) {
	t.Setenv("GOOGLE_API_KEY", "")
	value := ""
	if set {
		value = "sk-0123456789"
	}
	t.Setenv(prefix+"_API_KEY", value)
	t.Setenv(prefix+"_BASE_URL", "")
	t.Setenv(prefix+"_MODEL", "")
	t.Setenv(prefix+"_WIRE", "")
}
