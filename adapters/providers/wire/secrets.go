package wire

import (
	"errors"
	"strings"

	"github.com/keel-agent/keel/ports"
)

// Secrets are texts that must appear in no error. Backends like to quote the key that they refuse.
type Secrets []string

// shortestSecret keeps trivial values, such as a header's "1", from blanking ordinary text.
const shortestSecret = 6

// Redact returns err without the secrets: a provider's fault is copied, its cause dropped if that tells one. Any other
// error is returned as it is.
func (s Secrets) Redact(err error) error {
	var e *ports.ProviderError
	if !errors.As(err, &e) {
		return err
	}
	clean := *e
	for _, secret := range s {
		if len(secret) < shortestSecret {
			continue
		}
		clean.Message = withoutStump(strings.ReplaceAll(clean.Message, secret, "[redacted]"), secret)
		clean.Code = strings.ReplaceAll(clean.Code, secret, "[redacted]")
		if clean.Err != nil && strings.Contains(clean.Err.Error(), secret) {
			clean.Err = nil
		}
	}
	return &clean
}

// withoutStump returns a message that was clipped within a secret without the beginning of that.
func withoutStump(message, secret string) string {
	body, clipped := strings.CutSuffix(message, "…")
	if !clipped {
		return message
	}
	for n := len(secret) - 1; n > 0; n-- {
		if rest, ok := strings.CutSuffix(body, secret[:n]); ok {
			return rest + "…"
		}
	}
	return message
}
