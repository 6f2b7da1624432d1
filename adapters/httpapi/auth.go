package httpapi

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/keel-agent/keel/domain"
)

// Authenticator tells whose request it is.
type Authenticator interface {
	// Authenticate returns the caller's tenant, or false when the request proves none.
	Authenticate(r *http.Request) (tenant string, ok bool)
}

// DefaultTenant is the tenant of a server that knows only one.
const DefaultTenant = "default"

// Open lets everyone in as DefaultTenant.
type Open struct{}

// Authenticate returns DefaultTenant.
func (Open) Authenticate(*http.Request) (string, bool) { return DefaultTenant, true }

// Tokens knows callers by their bearer token. It keeps hashes alone, and looks tokens up by hash, so that the time of
// an answer tells nothing about a token.
type Tokens struct {
	tenants map[[sha256.Size]byte]string
}

// NewTokens returns the Authenticator of the given tokens and their tenants.
func NewTokens(tenants map[string]string) *Tokens {
	t := &Tokens{tenants: map[[sha256.Size]byte]string{}}
	for token, tenant := range tenants {
		t.tenants[sha256.Sum256([]byte(token))] = tenant
	}
	return t
}

// shortestToken refuses placeholders and passwords.
const shortestToken = 16

// ReadTokens reads lines of "token tenant". Empty lines and lines that begin with # are skipped. It returns an error,
// without any token in it, for a line of another form, a token that occurs twice, or when there is none at all.
func ReadTokens(from io.Reader) (*Tokens, error) {
	tenants := map[string]string{}
	lines := bufio.NewScanner(from)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 2 || domain.CheckID(fields[1]) != nil {
			return nil, fmt.Errorf("line %d is not of the form: token tenant", n)
		}
		if len(fields[0]) < shortestToken {
			return nil, fmt.Errorf("the token of line %d is shorter than %d characters: anybody could guess it", n, shortestToken)
		}
		if _, twice := tenants[fields[0]]; twice {
			return nil, fmt.Errorf("the token of line %d occurs twice", n)
		}
		tenants[fields[0]] = fields[1]
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("cannot read tokens: %w", err)
	}
	if len(tenants) == 0 {
		return nil, errors.New("there is no token")
	}
	return NewTokens(tenants), nil
}

// Authenticate looks up the bearer token of the Authorization header.
func (t *Tokens) Authenticate(r *http.Request) (string, bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	tenant, ok := t.tenants[sha256.Sum256([]byte(strings.TrimSpace(token)))]
	return tenant, ok
}

// authenticate reports whether r may go on: with a tenant, or to a public path without one. If not, it has answered.
func (a *api) authenticate(w http.ResponseWriter, r *http.Request) bool {
	switch r.URL.EscapedPath() {
	case indexPath, healthPath, readyPath:
		return true
	}
	tenant, ok := a.Auth.Authenticate(r)
	if !ok {
		w.Header().Set("WWW-Authenticate", `Bearer realm="keel"`)
		writeProblem(w, problem{Code: codeUnauthorized, Detail: "a valid bearer token is required"})
		return false
	}
	exchangeOf(r).tenant = tenant
	return true
}
