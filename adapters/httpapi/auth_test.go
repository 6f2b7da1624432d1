package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadTokens(t *testing.T) {
	tokens, err := ReadTokens(strings.NewReader("# who may come in\n\nabc  acme\n\tdef\tacme \n"))
	require.NoError(t, err)
	for token, want := range map[string]string{"abc": "acme", "def": "acme", "ABC": "", "": "", "#": "", "acme": ""} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		tenant, ok := tokens.Authenticate(r)
		require.Equal(t, want, tenant, token)
		require.Equal(t, want != "", ok, token)
	}
	for _, bad := range []string{"", "# only\n", "hunter2\n", "hunter2 a b\n", "hunter2 a\nhunter2 b\n", "hunter2 " + strings.Repeat("x", 201), "hunter2 a\x00"} {
		_, err := ReadTokens(strings.NewReader(bad))
		require.Error(t, err, bad)
		require.NotContains(t, err.Error(), "hunter2", "no token in a message")
	}
}
