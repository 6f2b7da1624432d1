package providers_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/anthropic"
	"github.com/keel-agent/keel/adapters/providers/gemini"
	"github.com/keel-agent/keel/adapters/providers/openai"
	"github.com/keel-agent/keel/adapters/providers/openai/responses"
	"github.com/keel-agent/keel/ports"
)

// own and theirs are the keys of the provider and of a tenant.
const own, theirs = "own-canary-0123456789", "theirs-canary-0123456789"

// echoing is a backend that lists one model for each and refuses all else, with the headers of the request in its refusal.
type echoing struct {
	*httptest.Server
	mu   sync.Mutex
	seen []http.Header
	shut atomic.Bool // it lists nothing either
}

func newEchoing(t *testing.T) *echoing {
	e := &echoing{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		e.seen = append(e.seen, r.Header.Clone())
		e.mu.Unlock()
		if r.Method == http.MethodGet && !e.shut.Load() {
			model := "own"
			if strings.Contains(fmt.Sprint(r.Header), theirs) {
				model = "theirs"
			}
			_, _ = fmt.Fprintf(w, `{"data":[{"id":%q}],"models":[{"name":"models/%s"}]}`, model, model)
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"error":{"type":"authentication_error","code":%q,"message":%q}}`, fmt.Sprint(r.Header), fmt.Sprint(r.Header))
	}))
	t.Cleanup(e.Close)
	return e
}

// With a tenant's own key each request has that key alone, also the one that looks for the default model; no error tells
// either; and what follows for others has the provider's again.
func TestCredentialsOfTenants(t *testing.T) {
	for name, open := range map[string]func(base string) (ports.Provider, error){
		"openai": func(base string) (ports.Provider, error) {
			return openai.New(openai.Config{BaseURL: base, APIKey: own})
		},
		"openai-responses": func(base string) (ports.Provider, error) {
			return responses.New(openai.Config{BaseURL: base, APIKey: own})
		},
		"anthropic": func(base string) (ports.Provider, error) {
			return anthropic.New(anthropic.Config{BaseURL: base, APIKey: own})
		},
		"gemini": func(base string) (ports.Provider, error) {
			return gemini.New(gemini.Config{BaseURL: base, APIKey: own})
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEchoing(t)
			p, err := open(e.URL)
			require.NoError(t, err)
			ask := func(c ports.Confidential, model string) string {
				t.Helper()
				e.seen = nil
				reply, err := p.Generate(t.Context(), ports.ModelRequest{Credential: c}, func(ports.Delta) {})
				require.Error(t, err)
				require.Equal(t, model, reply.Model)
				require.NotContains(t, err.Error(), own)
				require.NotContains(t, err.Error(), theirs)
				return fmt.Sprint(e.seen)
			}
			for range 2 {
				seen := ask(ports.NewConfidential(" "+theirs+"\n"), "theirs")
				require.Equal(t, 2, strings.Count(seen, theirs), "the list of models, and the answer")
				require.NotContains(t, seen, own)
				require.NotContains(t, ask(ports.Confidential{}, "own"), theirs)
			}
			require.Equal(t, 1, strings.Count(ask(ports.Confidential{}, "own"), own), "the default model is known")
			for credential, want := range map[ports.Confidential]string{ports.NewConfidential(theirs): "theirs", {}: "own"} {
				list, err := p.Models(t.Context(), credential)
				require.NoError(t, err)
				require.Len(t, list, 1)
				require.Equal(t, want, list[0].ID)
			}
			e.shut.Store(true)
			for _, credential := range []ports.Confidential{ports.NewConfidential(theirs), {}} {
				_, err := p.Models(t.Context(), credential)
				require.ErrorContains(t, err, "[redacted]")
				require.NotContains(t, err.Error(), "canary")
			}
			_, err = p.Models(t.Context(), ports.NewConfidential("a\nb"))
			require.ErrorContains(t, err, "the tenant's API key")
			for _, bad := range []string{"", " ", "a\nb", "a\x00b"} {
				require.Empty(t, strings.Trim(ask(ports.NewConfidential(bad), ""), "[]"), "nothing is sent in its place")
			}
		})
	}
}
