package http

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/tools/declared"
)

const withSecrets = `
tools:
  - name: find
    description: Finds a customer.
    url: %[1]s/find
    headers: {authorization: 'Bearer ${secret:crm.token-1}', X-Key: '${TOKEN} ${secret:second}'}
    maxResponse: 2048
  - name: open
    description: Needs nothing.
    url: %[1]s/open
    headers: {X-Key: '${TOKEN}', User-Agent: ''}`

// A header's secret is looked up for the tenant of each call, and nothing of one tenant reaches a request of another.
func TestSecretsOfTheTenant(t *testing.T) {
	u := serve(t, "127.0.1.1", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.ToUpper(r.Header.Get("Authorization")+"|"+r.Header.Get("X-Key")+"|"+r.Header.Get("User-Agent")))
	})
	v := vault{"a crm.token-1": "acme-one", "a second": " acme-two\n", "b crm.token-1": "other-one", "b second": "other-two"}
	tools := declare(t, Config{Vault: v}, fmt.Sprintf(withSecrets, u))
	told := func(tenant, tool string) string {
		t.Helper()
		text, isError := callOf(t, tenant, tools, tool, `{}`)
		require.False(t, isError, text)
		_, text, _ = strings.Cut(text, "\n\n")
		return text
	}
	require.Equal(t, "BEARER ACME-ONE|S3CRET ACME-TWO|KEEL-TEST", told("a", "find"))
	require.Equal(t, "BEARER OTHER-ONE|S3CRET OTHER-TWO|KEEL-TEST", told("b", "find"))
	require.Equal(t, "|S3CRET|KEEL-TEST", told("b", "open"))
	v["a second"] = "rotated"
	require.Equal(t, "BEARER ACME-ONE|S3CRET ROTATED|KEEL-TEST", told("a", "find"))
	require.Equal(t, "BEARER OTHER-ONE|S3CRET OTHER-TWO|KEEL-TEST", told("b", "find"))
}

func TestSecretsThatCannotBeUsed(t *testing.T) {
	u := serve(t, "127.0.1.1", func(http.ResponseWriter, *http.Request) { t.Error("a request without its secret was sent") })
	for value, want := range map[string]string{
		"-":              `the tenant has no secret named "crm.token-1", which this tool needs`,
		"away":           `the secret "crm.token-1" of the tenant cannot be read for now`,
		"broken":         `the secret "crm.token-1" of the tenant cannot be used: the secret was altered`,
		" \t\n":          `the secret "crm.token-1" of the tenant is blank, or holds a character that no header can have`,
		"canary\r\nX: y": `the secret "crm.token-1" of the tenant is blank, or holds a character that no header can have`,
		"canary\x7f":     `the secret "crm.token-1" of the tenant is blank, or holds a character that no header can have`,
	} {
		v := vault{"b crm.token-1": "others", "a second": "x"}
		if value != "-" {
			v["a crm.token-1"] = value
		}
		text, isError := callOf(t, "a", declare(t, Config{Vault: v}, fmt.Sprintf(withSecrets, u)), "find", `{}`)
		require.True(t, isError)
		require.Equal(t, want, text)
	}
}

// What an endpoint says of the secrets that it was sent reaches neither a result nor an error, also where the answer is
// cut in the middle of one.
func TestSecretsAreNotToldByAnswers(t *testing.T) {
	const one, two = "canary-one-0123456789", "canary-one-0123456789-and-more"
	cut := 0
	u := serve(t, "127.0.1.1", func(w http.ResponseWriter, r *http.Request) {
		said := fmt.Sprint(r.Header)
		switch {
		case cut > 0:
			_, _ = io.WriteString(w, strings.Repeat("x", 2048-cut)+two+two)
		case r.URL.Path == "/find/fault":
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, "bad key: "+said)
		case r.URL.Path == "/find/away":
			w.Header().Set("Location", "http://[canary-one-0123456789/")
			w.WriteHeader(http.StatusFound)
		default:
			w.Header().Set("Content-Type", "text/plain; "+strings.Repeat("y", 150)+"="+two)
			_, _ = io.WriteString(w, said)
		}
	})
	v := vault{"a crm.token-1": one, "a second": two}
	text := strings.Replace(fmt.Sprintf(withSecrets, u), "/find", "/find/{how}", 1)
	text = strings.Replace(text, "maxResponse", "arguments: {properties: {how: {type: string}}, required: [how]}\n    maxResponse", 1)
	tools := declare(t, Config{Vault: v}, text)
	for _, how := range []string{"well", "fault", "away"} {
		text, isError := callOf(t, "a", tools, "find", fmt.Sprintf(`{"how":%q}`, how))
		require.Equal(t, how != "well", isError, text)
		require.Contains(t, text, "[redacted]", how)
		require.NotContains(t, text, "canary", how)
		require.NotContains(t, text, "and-more", how)
	}
	for cut = 1; cut < 2*len(two); cut++ {
		text, _ := callOf(t, "a", tools, "find", `{"how":"long"}`)
		_, text, _ = strings.Cut(text, "\n\n")
		text, _, _ = strings.Cut(text, "\n[cut: ")
		require.True(t, strings.HasPrefix("[redacted][redacted]", strings.TrimLeft(text, "x")), "%d: %s", cut, text)
	}
}

// An error that quotes what an endpoint said, or what a model did, escapes it.
func TestSecretsAreNotToldByQuotingErrors(t *testing.T) {
	const value = `canary"\key`
	u := serve(t, "127.0.1.1", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://["+r.Header.Get("X-Key")+"/")
		w.WriteHeader(http.StatusFound)
	})
	text := "\ntools: [{name: find, description: d, url: '" + u + "/find/{how}', headers: {X-Key: '${secret:key}'}, " +
		"arguments: {properties: {how: {type: string}}, required: [how]}}]"
	tools := declare(t, Config{Vault: vault{"a key": value}}, text)
	for _, how := range []string{"away", "../" + value} {
		args, err := json.Marshal(map[string]string{"how": how})
		require.NoError(t, err)
		text, isError := callOf(t, "a", tools, "find", string(args))
		require.True(t, isError, text)
		require.Contains(t, text, "[redacted]")
		require.NotContains(t, text, "canary")
	}
}

func TestSecretsInDeclarations(t *testing.T) {
	for text, want := range map[string]string{
		`{name: a, description: d, url: "http://h", headers: {X: "${secret:crm}"}}`:       "headers: X: ${secret:crm}: the server keeps no secrets of tenants",
		`{name: a, description: d, url: "http://h/?q=${secret:crm}"}`:                     "${secret:crm}: a secret of the tenant can be in headers alone",
		`{name: a, description: d, url: "http://h", headers: {X: "${secret:}"}}`:          "is no reference",
		`{name: a, description: d, url: "http://h", headers: {X: "${secret:.a}"}}`:        "is no reference",
		`{name: a, description: d, url: "http://h", headers: {X: "${secret:a b}"}}`:       "is no reference",
		`{name: a, description: d, url: "http://h", headers: {X: "${Secret:a}"}}`:         "is no reference",
		`{name: a, description: d, url: "http://h", headers: {"X Y": "${secret:a}${A}"}}`: "A is not set",
	} {
		var file struct {
			Tools []Endpoint `yaml:"tools"`
		}
		require.NoError(t, declared.Decode([]byte("tools: ["+text+"]"), &file), text)
		_, err := New(Config{Endpoints: file.Tools, Lookup: lookup})
		require.ErrorContains(t, err, want, text)
	}
}
