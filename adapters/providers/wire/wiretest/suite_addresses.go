package wiretest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/ports"
)

// Opener opens the provider of a wire at a base URL, with a key and a default model, "" for none.
type Opener func(t testing.TB, base, key, model string) (ports.Provider, error)

// TestAddresses holds what becomes of base URLs and keys that are of no use: what no request can have is refused, and not told.
func TestAddresses(t *testing.T, open Opener) {
	t.Run("bad", func(t *testing.T) { testBadAddresses(t, open) })
	t.Run("unreachable", func(t *testing.T) { testUnreachable(t, open) })
}

func testBadAddresses(t *testing.T, open Opener) {
	for _, bad := range []string{"ftp://x", "localhost:11434", "http://x/v1?key=1", "http://x/#f"} {
		_, err := open(t, bad, "", "")
		require.Error(t, err)
		require.NotContains(t, err.Error(), bad)
	}
	_, err := open(t, "", "a\nb"+canary, "")
	require.Error(t, err)
	require.NotContains(t, err.Error(), canary)
}

const canary = "canary-0123456789"

// testUnreachable holds that a backend which is not there is worth a retry, and that no error tells the credentials of its URL.
func testUnreachable(t *testing.T, open Opener) {
	p, err := open(t, "http://user:"+canary+"@127.0.0.1:1", "", "m")
	require.NoError(t, err)
	_, err = Ask(t, p, canary)
	checkCode(t, "connection", err)
	_, err = p.Models(t.Context(), ports.Confidential{})
	checkCode(t, "connection", err)
	require.NotContains(t, err.Error(), canary)
}

// TestDefaultModel holds that without a configured model the first one is asked for that s lists. listed is such a list, of the
// models first and second; answer is a good one.
func TestDefaultModel(t *testing.T, s *Server, open Opener, listed string, answer Response) {
	p, err := open(t, s.URL(), "", "")
	require.NoError(t, err)
	s.SetModels("")
	_, err = Ask(t, p, canary)
	require.Equal(t, "no_model", Fault(t, err).Code)
	s.SetModels(listed)
	s.Push(answer)
	_, err = Ask(t, p, canary)
	require.NoError(t, err)
	asked := s.Requests()[0]
	require.Contains(t, asked.Path+string(asked.Body), "first")
	require.NotContains(t, asked.Path+string(asked.Body), "second")
}

// Environment is how a wire is configured by variables.
type Environment struct {
	Prefix        string // of the variables, such as "OPENAI": its …_API_KEY, …_BASE_URL and …_MODEL are read
	NotConfigured error
	Open          func(getenv func(string) string) (Closing, error)
	Bases         []string // base URLs that all mean the same backend
}

// Closing is a provider that is closed when nobody needs it any more.
type Closing interface {
	ports.Provider
	Close()
}

// TestEnvironment holds that a key alone configures a provider, and so does an address alone, for which the model is asked. s is
// the backend of e.Bases, and answer a good answer. It returns the requests that s got.
func TestEnvironment(t *testing.T, s *Server, answer Response, e Environment) []Request {
	env := map[string]string{}
	getenv := func(name string) string { return env[name] }
	_, err := e.Open(getenv)
	require.ErrorIs(t, err, e.NotConfigured)

	env[e.Prefix+"_API_KEY"] = canary + "\n"
	p, err := e.Open(getenv)
	require.NoError(t, err)
	p.Close()

	for _, base := range e.Bases {
		s.Push(answer)
		env = map[string]string{e.Prefix + "_BASE_URL": base, e.Prefix + "_MODEL": "local"}
		p, err := e.Open(getenv)
		require.NoError(t, err)
		_, err = Ask(t, p, canary)
		p.Close()
		require.NoError(t, err)
	}
	for _, r := range s.Requests() {
		require.Contains(t, r.Path+string(r.Body), "local")
	}
	return s.Requests()
}
