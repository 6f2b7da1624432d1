package wiretest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/ports"
)

// Opener opens the provider of a wire at a base URL, with a key and a default model, "" for none.
type Opener func(t testing.TB, base, key, model string) (ports.Provider, error)

// TestBadAddresses holds that base URLs and keys which no request can have are refused, and not told.
func TestBadAddresses(t *testing.T, open Opener) {
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

// TestUnreachable holds that a backend which is not there is worth a retry, and that no error tells the credentials of its URL.
func TestUnreachable(t *testing.T, open Opener) {
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
