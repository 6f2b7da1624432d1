package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadTokens(t *testing.T) {
	tokens, err := ReadTokens(strings.NewReader("# who may come in\n\nabc-0123456789abc  acme\n\tdef-0123456789abc\tacme \n"))
	require.NoError(t, err)
	for token, want := range map[string]string{"abc-0123456789abc": "acme", "def-0123456789abc": "acme", "ABC-0123456789ABC": "", "": "", "#": "", "acme": ""} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		tenant, ok := tokens.Authenticate(r)
		require.Equal(t, want, tenant, token)
		require.Equal(t, want != "", ok, token)
	}
	const long = "hunter2-0123456789"
	for _, bad := range []string{"", "# only\n", "TOKEN hunter2\n", long + "\n", long + " a b\n", long + " a\n" + long + " b\n", long + " " + strings.Repeat("x", 201), long + " a\x00"} {
		_, err := ReadTokens(strings.NewReader(bad))
		require.Error(t, err, bad)
		require.NotContains(t, err.Error(), "hunter2", "no token in a message")
	}
}
