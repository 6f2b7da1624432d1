package providers_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/anthropic"
	"github.com/keel-agent/keel/adapters/providers/anthropic/anthropictest"
	"github.com/keel-agent/keel/adapters/providers/gemini"
	"github.com/keel-agent/keel/adapters/providers/gemini/geminitest"
	"github.com/keel-agent/keel/adapters/providers/openai"
	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
	"github.com/keel-agent/keel/adapters/providers/openai/responses"
	"github.com/keel-agent/keel/adapters/providers/openai/responses/responsestest"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// backend is a provider with the strict backend of its wire.
type backend struct {
	provider string
	families [][]string // names of models; those of one family take each other's signatures, and the first one answers
	redacts  bool       // some thinking has a signature in place of a text
	open     func(base string, client *http.Client) (ports.Provider, error)
	check    func(model string, body []byte) error
	answer   func(model string, a answer) wiretest.Response
	sign     func(model string, s said) string // the signature of what is signed; nil for a wire that signs nothing
	told     func(body []byte) ([]wiretest.Told, error)

	// What a wire has a place for, or not.
	tellsErrors   bool // a result that is an error is marked
	failsInText   bool // such a result shows no images
	answersImages bool // answers show images
	maxSide       int  // pixels of an image, 0 for any
	callsLast     bool // the calls of an answer stand behind its texts
	thinksLast    bool // thinking may stand behind what was said
	signsWhole    bool // a signature holds all of its thinking; the block's own text is for people
	anyTurns      bool // anyone may have the first word and the last
}

// backends are those of all wires, and of each wire whose models sign an imitation with models of the same names.
var backends = []backend{
	chat("openai"), overResponses("openai-responses"), overResponses("responses-imitation"),
	messages("anthropic"), messages("anthropic-imitation"), generateContent("gemini"), generateContent("gemini-imitation"),
}

func chat(name string) backend {
	return backend{
		provider: name, families: [][]string{{openaitest.Model}, {"blind"}}, answer: chatAnswer, told: openaitest.Told, callsLast: true,
		open: func(base string, client *http.Client) (ports.Provider, error) {
			return openai.New(openai.Config{Name: name, BaseURL: base, HTTPClient: client})
		},
		check: func(_ string, body []byte) error { return openaitest.Check(body) },
	}
}

func overResponses(name string) backend {
	return backend{
		provider: name, families: [][]string{{responsestest.Model, "gpt-test"}, {"gpt-best"}}, answer: responsesAnswer, told: responsestest.Told, signsWhole: true, anyTurns: true,
		open: func(base string, client *http.Client) (ports.Provider, error) {
			return responses.New(openai.Config{Name: name, BaseURL: base, HTTPClient: client})
		},
		check: func(_ string, body []byte) error { return responsestest.Check(body) },
		sign:  func(model string, s said) string { return responsestest.Sign(model, s.id, s.text) },
	}
}

func messages(name string) backend {
	return backend{
		provider: name, families: [][]string{{anthropictest.Model, "claude-test-4-5"}, {"claude-test-5"}}, redacts: true, answer: anthropicAnswer,
		told: anthropictest.Told, tellsErrors: true, failsInText: true, maxSide: 8000,
		open: func(base string, client *http.Client) (ports.Provider, error) {
			return anthropic.New(anthropic.Config{Name: name, BaseURL: base, HTTPClient: client})
		},
		check: func(_ string, body []byte) error { return anthropictest.Check(body) },
		sign: func(model string, s said) string {
			if s.redacted {
				return anthropictest.Sign(model, "redacted")
			}
			return anthropictest.Sign(model, s.text)
		},
	}
}

func generateContent(name string) backend {
	return backend{
		provider: name, families: [][]string{{geminitest.Model}, {"gemini-2.5-pro"}, {"gemma"}}, answer: geminiAnswer,
		told: geminitest.Told, tellsErrors: true, answersImages: true, thinksLast: true,
		open: func(base string, client *http.Client) (ports.Provider, error) {
			return gemini.New(gemini.Config{Name: name, BaseURL: base, HTTPClient: client})
		},
		check: geminitest.Check,
		sign:  func(model string, s said) string { return geminitest.SignPart(model, geminiPart(s)) },
	}
}

// maker names who signs for a model: its provider, and the name that it answers with.
func (b *backend) maker(model string) string {
	for _, names := range b.families {
		if slices.Contains(names, model) {
			return b.provider + "/" + names[0]
		}
	}
	return b.provider + "/?"
}

// due returns the thinking in messages that has to go back to a model: what it signed and went on behind.
func (b *backend) due(model string, messages []domain.Message) (texts []string) {
	for _, m := range messages {
		said := len(m.Content)
		for said > 0 && !speaks(m.Content[said-1]) {
			said--
		}
		for _, k := range m.Content[:said] {
			whole := !strings.ContainsRune(k.Thinking+k.Signature, 0)
			if k.Type == domain.ThinkingBlock && k.Signature != "" && whole && m.Provider == b.provider && b.maker(m.Model) == b.maker(model) {
				texts = append(texts, k.Thinking)
			}
		}
	}
	return texts
}

func speaks(b domain.Block) bool {
	return b.Type == domain.CallBlock || b.Type == domain.TextBlock && strings.TrimSpace(b.Text) != ""
}

// catalogue is of all models of all backends: each knows levels of thinking that another one does not, and one sees nothing.
var catalogue = func() *domain.Catalogue {
	var names []string
	var models []domain.Model
	for _, b := range backends {
		names = append(names, b.provider)
		for _, family := range b.families {
			for _, name := range family {
				models = append(models, domain.Model{Provider: b.provider, Name: name})
			}
		}
	}
	d, err := domain.ParseModels(payload(`{"models":[{"id":"openai/blind","modalities":["text"],"thinking":["low"],"thinkingValues":{"low":""}},
		{"id":"gemini/gemma","modalities":["text"]},{"id":"anthropic/claude-test-5","maxOutput":9000}],
		"defaults":{"model":"openai/test-model"}}`), names)
	if err != nil {
		panic(err)
	}
	return domain.NewCatalogue(names, models).With(d, domain.SourceFile)
}()

// line is the way from a provider to its backend: it keeps what was asked, and plays the answer or hangs up.
type line struct {
	backend  *backend
	provider ports.Provider
	t        *testing.T
	body     string // of the last request
	asked    int
	answer   *wiretest.Response
}

func open(t *testing.T, b *backend) *line {
	l := &line{t: t, backend: b}
	var err error
	l.provider, err = b.open("http://backend", &http.Client{Transport: wiretest.RoundTrip(l.carry)})
	require.NoError(t, err)
	require.Equal(t, b.provider, l.provider.Name())
	return l
}

func (l *line) carry(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	l.body = string(body)
	l.asked++
	if l.answer == nil {
		return nil, errors.New("nobody answers")
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(l.answer.Body())), Request: r}, nil
}

// ask has a request made that gets no answer.
func (l *line) ask(req ports.ModelRequest) {
	l.answer, l.asked = nil, 0
	_, err := l.provider.Generate(l.t.Context(), req, func(ports.Delta) {})
	require.Error(l.t, err)
	require.Equal(l.t, 1, l.asked, "%v", err)
}

// models are those of the backend.
func (l *line) models() []domain.Model {
	return slices.DeleteFunc(catalogue.Models(), func(m domain.Model) bool { return m.Provider != l.backend.provider })
}
