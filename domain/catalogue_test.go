package domain_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

var houses = []string{"openai", "local", "fake"}

// catalogue is one of three providers: the default lists all it has, local tells of a model and maybe has others.
func catalogue(t *testing.T, documents ...string) *domain.Catalogue {
	t.Helper()
	c := domain.NewCatalogue(houses, []domain.Model{
		{Provider: "openai", Name: "gpt-5-mini", Listed: true, ContextWindow: 1000},
		{Provider: "openai", Name: "gpt-5", Listed: true},
		{Provider: "local", Name: "llama"}, {Provider: "fake", Name: "fake"},
	})
	sources := []domain.ModelSource{domain.SourceFile, domain.SourceTenant}
	for i, text := range documents {
		d, err := domain.ParseModels(domaintest.Payload(text), houses)
		require.NoError(t, err, text)
		c = c.With(d, sources[i])
	}
	return c
}

func TestResolve(t *testing.T) {
	layered := catalogue(t, `{"models":[{"id":"openai/gpt-5","enabled":false},{"id":"quick","provider":"openai","model":"gpt-5-mini"},
		{"id":"openai/gpt-5-mini","maxOutput":77}]}`)
	alias := catalogue(t, `{"models":[{"id":"off","provider":"openai","model":"gpt-5","enabled":false}]}`)
	tenant := catalogue(t, `{"defaults":{"model":"gpt-5","thinking":"low","temperature":1}}`,
		`{"models":[{"id":"local/llama","prices":{"currency":"USD","input":1,"output":2}}],"defaults":{"model":"local/llama"}}`)
	for _, c := range []struct {
		what  string
		from  *domain.Catalogue
		model string
		want  string // id, provider and name
		fault string // or what is said against it
	}{
		{"the default provider's default", catalogue(t), "", `"openai/gpt-5-mini" openai ""`, ""},
		{"by its full name", catalogue(t), "openai/gpt-5", `"openai/gpt-5" openai "gpt-5"`, ""},
		{"by its short name", catalogue(t), "gpt-5", `"openai/gpt-5" openai "gpt-5"`, ""},
		{"a provider for its default", catalogue(t), "local", `"local/llama" local ""`, ""},
		{"a name that nobody knows there", catalogue(t), "local/what/ever", `"" local "what/ever"`, ""},
		{"not listed by one that lists all", catalogue(t), "gpt-5-mimi", "", `there is no model "gpt-5-mimi"; did you mean gpt-5-mini?`},
		{"by its full name", catalogue(t), "openai/gpt-5-mimi", "", `did you mean gpt-5-mini?`},
		{"at a provider that is misspelt", catalogue(t), "openia/gpt-5-mini", "", `there is no model "openia/gpt-5-mini", nor a provider "openia"; did you mean openai/gpt-5-mini`},
		{"at a provider that is not configured", catalogue(t), "anthropic/claude", "", `there is no model "anthropic/claude", nor a provider "anthropic"; there is fake/fake`},
		{"not like any", catalogue(t), "zzz", "", `there is no model "zzz"; there is fake/fake, gpt-5, gpt-5-mini, local/llama`},
		{"disabled", layered, "gpt-5", "", `the model "openai/gpt-5" is disabled; did you mean gpt-5-mini`},
		{"an id of the file", layered, "quick", `"quick" openai "gpt-5-mini"`, ""},
		{"the entry of the file stands for the listed one", layered, "gpt-5-mini", `"openai/gpt-5-mini" openai "gpt-5-mini"`, ""},
		{"an id that is disabled", alias, "off", "", `the model "off" is disabled`},
		{"a model of which another id is disabled", alias, "gpt-5", `"openai/gpt-5" openai "gpt-5"`, ""},
		{"the tenant's default", tenant, "", `"local/llama" local "llama"`, ""},
		{"what a document tells is all there is", tenant, "local/lama", "", `did you mean local/llama`},
	} {
		m, err := c.from.Resolve(c.model)
		if c.fault != "" {
			require.ErrorIs(t, err, domain.ErrUnknownModel, c.what)
			require.ErrorContains(t, err, c.fault, c.what)
			continue
		}
		require.NoError(t, err, c.what)
		require.Equal(t, c.want, fmt.Sprintf("%q %s %q", m.ID, m.Provider, m.Name), c.what)
	}
	quick, err := layered.Resolve("quick")
	require.NoError(t, err)
	require.Equal(t, 1000, quick.ContextWindow, "what is known of the model holds under another id")
	require.Equal(t, domain.SourceFile, quick.Source)
	listed, err := layered.Resolve("openai/gpt-5-mini")
	require.NoError(t, err)
	require.Equal(t, []int{1000, 77}, []int{listed.ContextWindow, listed.MaxOutput}, "an entry keeps what it does not say")
	standard, err := catalogue(t, `{"models":[{"id":"openai","maxOutput":9}]}`).Resolve("openai")
	require.NoError(t, err)
	require.Equal(t, []int{1000, 9}, []int{standard.ContextWindow, standard.MaxOutput}, "so does one of a provider's default")
	require.Equal(t, []string{"openai", ""}, []string{standard.ID, standard.Name}, "which the provider goes on choosing")
	require.Equal(t, "low", tenant.Defaults.Thinking, "a default that the tenant leaves open")
}

func TestResolveWithoutTheProvider(t *testing.T) {
	d, err := domain.ParseModels(domaintest.Payload(`{"models":[{"id":"a","provider":"local","model":"x"}]}`), houses)
	require.NoError(t, err)
	_, err = domain.NewCatalogue([]string{"fake"}, nil).With(d, domain.SourceTenant).Resolve("a")
	require.ErrorIs(t, err, domain.ErrUnknownModel)
	require.ErrorContains(t, err, `of the provider "local", which this server does not have`)

	disabled := catalogue(t, `{"models":[{"id":"openai/gpt-5-mini","enabled":false},{"id":"local/llama","enabled":false}]}`)
	_, err = disabled.Resolve("")
	require.ErrorIs(t, err, domain.ErrUnknownModel, "not by its provider's name either")
	_, err = disabled.Resolve("local/other")
	require.NoError(t, err, "to forbid one is not to forbid all others")
}

func TestModelDocumentFaults(t *testing.T) {
	for text, want := range map[string]string{
		`{"model":[]}`: "model", `{"models":{}}`: "models", `{"models":[7]}`: "models/0", `{"models":[{}]}`: "models/0/id",
		`{"models":[{"id":"a"},{"id":"a"}]}`:                                                           "models/1/id",
		`{"models":[{"id":"a","inptu":1}]}`:                                                            "models/0/inptu",
		`{"models":[{"id":"a","provider":"opnai"}]}`:                                                   "models/0/provider",
		`{"models":[{"id":"a","model":""}]}`:                                                           "models/0/model",
		`{"models":[{"id":"a","contextWindow":"1"}]}`:                                                  "models/0/contextWindow",
		`{"models":[{"id":"a","maxOutput":-1}]}`:                                                       "models/0/maxOutput",
		`{"models":[{"id":"a","modalities":["text","smell"]}]}`:                                        "models/0/modalities",
		`{"models":[{"id":"a","modalities":[]}]}`:                                                      "models/0/modalities",
		`{"models":[{"id":"a","thinking":["low","low"]}]}`:                                             "models/0/thinking/1",
		`{"models":[{"id":"a","thinking":["low"],"thinkingValues":{"high":"x"}}]}`:                     "models/0/thinkingValues/high",
		`{"models":[{"id":"a","enabled":1}]}`:                                                          "models/0/enabled",
		`{"models":[{"id":"a","prices":{"currency":"$","input":1,"output":1}}]}`:                       "models/0/prices/currency",
		`{"models":[{"id":"a","prices":{"currency":"USD","input":1}}]}`:                                "models/0/prices/output",
		`{"models":[{"id":"a","prices":{"currency":"USD","input":-1,"output":1}}]}`:                    "models/0/prices/input",
		`{"models":[{"id":"a","prices":{"currency":"USD","input":1e-3,"output":1}}]}`:                  "models/0/prices/input",
		`{"models":[{"id":"a","prices":{"currency":"USD","input":0.0000001,"output":1}}]}`:             "models/0/prices/input",
		`{"models":[{"id":"a","prices":{"currency":"USD","input":"0.5","output":"0","cacheread":1}}]}`: "models/0/prices/cacheread",
		`{"models":[{"id":"a","prices":null}]}`:                                                        "models/0/prices",
		`{"defaults":{"temperature":3}}`:                                                               "defaults/temperature",
		`{"defaults":{"tools":[]}}`:                                                                    "defaults/tools",
		`{"defaults":7}`:                                                                               "defaults",
	} {
		_, err := domain.ParseModels(domaintest.Payload(text), houses)
		require.ErrorIs(t, err, domain.ErrInvalidRequest, text)
		var e *domain.Error
		require.True(t, errors.As(err, &e))
		require.Equal(t, want, e.Field, "%s: %s", text, e.Detail)
	}
	_, err := domain.ParseModels(domaintest.Payload(`{"models":[{"id":"a","provider":"opnai"}]}`), houses)
	require.ErrorContains(t, err, `no provider "opnai"; did you mean openai?`)
	_, err = domain.ParseModels(domaintest.Payload(`{"models":[{"id":"a","contextWindw":1}]}`), houses)
	require.ErrorContains(t, err, "did you mean contextWindow?")
}

func TestModelChecks(t *testing.T) {
	hot, cold := 2.5, -0.1
	m := domain.Model{ID: "m", Thinking: []string{"low", "high"}, Levels: map[string]string{"high": "xhigh"}, MaxOutput: 100, Modalities: []string{"text"}}
	for field, s := range map[string]domain.Selection{
		"": {Thinking: "low", MaxTokens: 100}, "thinking": {Thinking: "medium"}, "maxTokens": {MaxTokens: 101}, "temperature": {Temperature: &hot},
	} {
		err := m.Check(s)
		if field == "" {
			require.NoError(t, err)
			continue
		}
		var e *domain.Error
		require.True(t, errors.As(err, &e), field)
		require.Equal(t, field, e.Field)
	}
	require.ErrorContains(t, m.Check(domain.Selection{Thinking: "medium"}), `has no level "medium"; it has low, high`)
	require.ErrorContains(t, domain.Model{Thinking: []string{}}.Check(domain.Selection{Thinking: "low"}), "it has none")
	require.Error(t, m.Check(domain.Selection{Temperature: &cold}))
	require.NoError(t, domain.Model{}.Check(domain.Selection{Thinking: "any", MaxTokens: 1 << 30}), "nothing is known, so nothing is refused")
	require.Equal(t, []string{"low", "xhigh"}, []string{m.Level("low"), m.Level("high")})
	require.False(t, m.Takes(domain.ModalityImage))
	require.True(t, domain.Model{}.Takes(domain.ModalityImage))

	warm := 0.5
	d := domain.ModelDefaults{Thinking: "low", Temperature: &warm}
	require.Equal(t, domain.Selection{Thinking: "low", Temperature: &warm}, d.Apply(domain.Selection{}, m))
	require.Equal(t, "high", d.Apply(domain.Selection{Thinking: "high"}, m).Thinking, "a choice goes before it")
	require.Empty(t, d.Apply(domain.Selection{}, domain.Model{Thinking: []string{}}).Thinking, "a model without the level goes without")
}

func TestWithoutImages(t *testing.T) {
	image := domain.Block{Type: domain.ImageBlock, MimeType: "image/png", Data: "AA=="}
	text := domain.Block{Type: domain.TextBlock, Text: "look"}
	with := []domain.Message{
		{Role: domain.RoleUser, Content: []domain.Block{text, image}}, {Role: domain.RoleAssistant, Content: []domain.Block{text}},
		{Role: domain.RoleTool, CallID: "c", Content: []domain.Block{image}},
	}
	without := domain.WithoutImages(with)
	require.Equal(t, []domain.Block{text, {Type: domain.TextBlock, Text: "(an image was left out: this model takes no images)"}}, without[0].Content)
	require.Equal(t, domain.TextBlock, without[2].Content[0].Type)
	require.Equal(t, "c", without[2].CallID)
	require.Equal(t, []domain.Block{text, image}, with[0].Content, "the transcript keeps its images")
	require.Equal(t, []domain.Block{image}, with[2].Content)
	plain := with[1:2]
	require.Same(t, &plain[0], &domain.WithoutImages(plain)[0], "nothing is copied for nothing")
	require.Empty(t, domain.WithoutImages(nil))
}
