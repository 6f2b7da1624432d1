package declared

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/keel-agent/keel/adapters/tools/output"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Headers are the declared headers of requests. Values that name secrets of the tenant are made anew for each request.
type Headers struct {
	fixed http.Header
	open  map[string][]piece
	vault ports.Vault
}

var (
	goodHeader = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

	errNoVault = errors.New("the server keeps no secrets of tenants, since no key for them is configured")
)

// ParseHeaders reads declared headers: ${NAME} is the environment variable NAME, ${secret:NAME} the secret NAME of the
// tenant for which a request is made. An error names the header and tells no value. Without a vault there are no
// secrets, and to name one is an error.
func ParseHeaders(values map[string]string, lookup func(string) (string, bool), vault ports.Vault) (Headers, error) {
	h := Headers{fixed: http.Header{}, open: map[string][]piece{}, vault: vault}
	for name, value := range values {
		pieces, err := parse(value, lookup)
		if err != nil {
			return h, fmt.Errorf("headers: %s: %w", name, err)
		}
		var fixed strings.Builder
		for _, p := range pieces {
			if p.secret != "" && vault == nil {
				return h, fmt.Errorf("headers: %s: ${secret:%s}: %w", name, p.secret, errNoVault)
			}
			fixed.WriteString(p.text)
		}
		switch {
		case !goodHeader.MatchString(name) || !sendable(fixed.String()):
			return h, fmt.Errorf("headers: %q is no header that can be sent", name)
		case slices.ContainsFunc(pieces, func(p piece) bool { return p.secret != "" }):
			h.open[name] = pieces
		default:
			h.fixed.Set(name, fixed.String())
		}
	}
	return h, nil
}

// sendable reports whether a value can stand in a header (RFC 9110, 5.5).
func sendable(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// PerTenant reports whether the headers differ between tenants.
func (h Headers) PerTenant() bool { return len(h.open) > 0 }

// Fixed returns the headers that are the same for all tenants. They are the caller's.
func (h Headers) Fixed() http.Header { return h.fixed.Clone() }

// For returns the headers of a request for a tenant, which are the caller's, and the secrets in them, which no output
// may show. The error is for the model: it names the secret that is missing or cannot be used.
func (h Headers) For(ctx context.Context, tenant string) (http.Header, output.Hidden, error) {
	header, hidden := h.Fixed(), output.Hidden(nil)
	for _, name := range slices.Sorted(maps.Keys(h.open)) {
		var value strings.Builder
		for _, p := range h.open[name] {
			if p.secret != "" {
				revealed, err := h.reveal(ctx, tenant, p.secret)
				if err != nil {
					return nil, nil, err
				}
				p.text, hidden = revealed, append(hidden, revealed)
			}
			value.WriteString(p.text)
		}
		header.Set(name, value.String())
	}
	return header, hidden, nil
}

func (h Headers) reveal(ctx context.Context, tenant, name string) (string, error) {
	revealed, err := h.vault.Reveal(ctx, tenant, name)
	switch {
	case errors.Is(err, domain.ErrNotFound):
		return "", fmt.Errorf("the tenant has no secret named %q, which this tool needs", name)
	case errors.Is(err, ports.ErrUnavailable):
		return "", fmt.Errorf("the secret %q of the tenant cannot be read for now", name)
	case err != nil:
		return "", fmt.Errorf("the secret %q of the tenant cannot be used: %w", name, err)
	}
	value := strings.TrimSpace(revealed.Reveal())
	if value == "" || !sendable(value) {
		return "", fmt.Errorf("the secret %q of the tenant is blank, or holds a character that no header can have", name)
	}
	return value, nil
}
