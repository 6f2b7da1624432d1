package bus

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/keel-agent/keel/ports"
)

// Digest stands for a topic between processes: of fixed length whatever the ids in it, of letters, digits, "-" and "_",
// and telling nothing about them.
type Digest string

const (
	// DigestLength is the length of every digest, in bytes.
	DigestLength = 22

	// Everyone in place of a digest wakes all subscriptions of all processes.
	Everyone Digest = "*"
)

// DigestOf returns the digest of t; a remote topic has that of its session.
func DigestOf(t ports.Topic) Digest {
	b := make([]byte, 0, 128)
	for _, part := range []string{t.Session.Tenant, t.Session.Session, t.Process} {
		b = append(append(b, part...), 0)
	}
	sum := sha256.Sum256(b)
	return Digest(base64.RawURLEncoding.EncodeToString(sum[:16]))
}
