// Package secrets seals the secrets of tenants under keys of the operator, and opens them again for those who need them.
// Nothing that it returns, logs or says in an error holds a value or a key, but Vault.Reveal.
package secrets

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// keySize is that of AES-256.
const keySize = 32

// Keyring is the keys of a deployment. New secrets are sealed under the current one, the others only open.
type Keyring struct {
	current string
	keys    map[string]cipher.AEAD
}

// ParseKeys reads keys, one a line, the current one first: 32 random bytes in base64 or hex, with "id:" in front, or
// without, when the id follows from the key. Empty lines and lines that begin with # are skipped. Errors name lines and
// never tell what is in them.
func ParseKeys(text string) (*Keyring, error) {
	ring := &Keyring{keys: map[string]cipher.AEAD{}}
	seen := map[[keySize]byte]bool{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, key, err := parseKey(line)
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		case seen[key]:
			return nil, fmt.Errorf("line %d: the key occurs twice", i+1)
		case ring.keys[id] != nil:
			return nil, fmt.Errorf("line %d: the key id occurs twice", i+1)
		}
		seen[key] = true
		if ring.keys[id], err = newAEAD(key); err != nil {
			return nil, err
		}
		if ring.current == "" {
			ring.current = id
		}
	}
	if ring.current == "" {
		return nil, errors.New("there is no key")
	}
	return ring, nil
}

// Current returns the id of the key under which new secrets are sealed.
func (r *Keyring) Current() string { return r.current }

func newAEAD(key [keySize]byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func parseKey(line string) (id string, key [keySize]byte, err error) {
	id, text, named := strings.Cut(line, ":")
	if !named {
		text = line
	}
	if key, err = decodeKey(strings.TrimSpace(text)); err != nil {
		return "", key, err
	}
	if id = strings.TrimSpace(id); !named {
		id = fingerprint(key)
	}
	if !plain(id, maxKeyID) {
		return "", key, fmt.Errorf("a key id has 1 to %d letters, digits, dots, dashes and underscores", maxKeyID)
	}
	return id, key, nil
}

const maxKeyID = 64

// fingerprint names a key that nobody named.
func fingerprint(key [keySize]byte) string {
	sum := sha256.Sum256(append([]byte("keel secret key id\x00"), key[:]...))
	return hex.EncodeToString(sum[:8])
}

func decodeKey(text string) (key [keySize]byte, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil {
		text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
		raw, err = base64.RawStdEncoding.DecodeString(text)
	}
	switch {
	case err != nil:
		return key, errors.New("a key is 32 bytes in base64 or hex")
	case len(raw) != keySize:
		return key, fmt.Errorf("a key is 32 bytes in base64 or hex, and this one is %d", len(raw))
	case weak(raw):
		return key, errors.New("the key is not random; make one with: openssl rand -base64 32")
	}
	return [keySize]byte(raw), nil
}

// weak reports whether key cannot have come from a source of randomness: it is text, or repeats itself. A random one is
// taken for that once in 10^13.
func weak(key []byte) bool {
	distinct, printable := map[byte]bool{}, 0
	for _, b := range key {
		distinct[b] = true
		if b >= ' ' && b <= '~' {
			printable++
		}
	}
	steps := map[byte]bool{}
	for i := 1; i < len(key); i++ {
		steps[key[i]-key[i-1]] = true
	}
	return len(distinct) < 16 || len(steps) < 12 || printable == len(key)
}

// plain reports whether s is a name of 1 to most characters: ASCII letters, digits, '.', '-' and '_', a letter or a digit
// first.
func plain(s string, most int) bool {
	for i, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case i > 0 && (c == '.' || c == '-' || c == '_'):
		default:
			return false
		}
	}
	return s != "" && len(s) <= most
}
