package secrets

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/keel-agent/keel/ports"
)

// KeyMissingError is returned for a secret whose key the keyring does not have.
type KeyMissingError struct{ Name, KeyID string }

func (e *KeyMissingError) Error() string {
	return fmt.Sprintf("the secret %q is sealed under the key %q, which this server does not have", e.Name, e.KeyID)
}

// ErrBroken is returned for a secret that its key does not open: it was altered or moved, or another key has the id now.
var ErrBroken = errors.New("does not open: it was altered or moved, or another key has the id of its key")

// version begins everything that is sealed; after it come the nonce and the text of AES-256-GCM.
const version = 1

// seal returns s with value sealed under the current key, for no other tenant, name and key than its own.
func (r *Keyring) seal(s ports.SealedSecret, value string) ports.SealedSecret {
	s.KeyID = r.current
	s.Sealed = r.keys[r.current].Seal([]byte{version}, nil, []byte(value), bound(s))
	return s
}

// open returns the value of s, KeyMissingError or an error that wraps ErrBroken.
func (r *Keyring) open(s ports.SealedSecret) (ports.Confidential, error) {
	key := r.keys[s.KeyID]
	if key == nil {
		return ports.Confidential{}, &KeyMissingError{s.Name, s.KeyID}
	}
	if len(s.Sealed) > 0 && s.Sealed[0] == version {
		value, err := key.Open(nil, nil, s.Sealed[1:], bound(s))
		if err == nil {
			return ports.NewConfidential(string(value)), nil
		}
	}
	return ports.Confidential{}, fmt.Errorf("the secret %q (key %q) %w", s.Name, s.KeyID, ErrBroken)
}

// bound is what the seal of s is bound to: nothing of it can be exchanged, nor moved from one part into the next.
func bound(s ports.SealedSecret) []byte {
	data := []byte("keel secret\x00")
	data = append(data, version)
	for _, part := range []string{s.Tenant, s.Name, s.KeyID} {
		data = binary.BigEndian.AppendUint64(data, uint64(len(part)))
		data = append(data, part...)
	}
	return data
}
