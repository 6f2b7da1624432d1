package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/ports"
)

// rawKey is a key that looks random, another for each n.
func rawKey(n byte) []byte {
	key := make([]byte, keySize)
	for i := range key {
		key[i] = byte(i*i*7+i*13) ^ n*31 ^ byte(i>>1)*n
	}
	return key
}

func ring(t testing.TB, ids ...string) *Keyring {
	t.Helper()
	var lines []string
	for _, id := range ids {
		lines = append(lines, id+":"+base64.StdEncoding.EncodeToString(rawKey(id[len(id)-1])))
	}
	r, err := ParseKeys(strings.Join(lines, "\n"))
	require.NoError(t, err)
	return r
}

func of(tenant, name string) ports.SealedSecret {
	return ports.SealedSecret{Tenant: tenant, Name: name}
}

func TestSealAndOpen(t *testing.T) {
	r := ring(t, "k1")
	for _, value := range []string{"x", "sk-secret", "é 😀\x00\n", strings.Repeat("0123456789abcdef", MaxValue/16)} {
		s := r.seal(of("t", "n"), value)
		require.Equal(t, "k1", s.KeyID)
		require.NotContains(t, string(s.Sealed[1:]), value+"\x00")
		got, err := r.open(s)
		require.NoError(t, err)
		require.Equal(t, value, got.Reveal())
	}
}

func TestEachSealIsAnother(t *testing.T) {
	r, seen := ring(t, "k1"), map[string]bool{}
	for range 1000 {
		s := r.seal(of("t", "n"), "the same")
		nonce := string(s.Sealed[1:13])
		require.False(t, seen[nonce])
		seen[nonce] = true
	}
}

// No bit of what is sealed can be changed, and nothing left out or added.
func TestAlteredSecretsDoNotOpen(t *testing.T) {
	r := ring(t, "k1")
	s := r.seal(of("t", "n"), "sk-secret")
	broken := func(sealed []byte) {
		t.Helper()
		altered := s
		altered.Sealed = sealed
		got, err := r.open(altered)
		require.ErrorIs(t, err, ErrBroken)
		require.False(t, got.Given())
	}
	for i := range s.Sealed {
		for bit := range 8 {
			sealed := bytes.Clone(s.Sealed)
			sealed[i] ^= 1 << bit
			broken(sealed)
		}
		broken(s.Sealed[:i])
		broken(s.Sealed[i+1:])
	}
	broken(nil)
	broken(append(bytes.Clone(s.Sealed), 0))
}

// A seal holds for one tenant, name and key id, even where their texts run into each other.
func TestMovedSecretsDoNotOpen(t *testing.T) {
	r := ring(t, "k1", "k2")
	s := r.seal(of("tenant", "name"), "sk-secret")
	for _, moved := range []ports.SealedSecret{
		{Tenant: "other", Name: "name", KeyID: "k1"}, {Tenant: "tenant", Name: "other", KeyID: "k1"},
		{Tenant: "tenantn", Name: "ame", KeyID: "k1"}, {Tenant: "tenan", Name: "tname", KeyID: "k1"},
		{Tenant: "name", Name: "tenant", KeyID: "k1"}, {Tenant: "tenant", Name: "name", KeyID: "k2"},
	} {
		moved.Sealed = s.Sealed
		_, err := r.open(moved)
		require.ErrorIs(t, err, ErrBroken, "%s %s %s", moved.Tenant, moved.Name, moved.KeyID)
	}
	// The same key under another id: the id is part of what is sealed.
	same, err := ParseKeys("k1:" + hex.EncodeToString(rawKey('2')) + "\nk3:" + hex.EncodeToString(rawKey('1')))
	require.NoError(t, err)
	_, err = same.open(s)
	require.ErrorIs(t, err, ErrBroken, "another key has the id")
	renamed := s
	renamed.KeyID = "k3"
	_, err = same.open(renamed)
	require.ErrorIs(t, err, ErrBroken)

	var missing *KeyMissingError
	_, err = ring(t, "k2").open(s)
	require.ErrorAs(t, err, &missing)
	require.EqualError(t, err, `the secret "name" is sealed under the key "k1", which this server does not have`)
}

func TestKeysInEveryForm(t *testing.T) {
	key := rawKey(1)
	forms := []string{
		base64.StdEncoding.EncodeToString(key), base64.RawStdEncoding.EncodeToString(key),
		base64.URLEncoding.EncodeToString(key), base64.RawURLEncoding.EncodeToString(key),
		hex.EncodeToString(key), strings.ToUpper(hex.EncodeToString(key)),
	}
	first, err := ParseKeys(forms[0])
	require.NoError(t, err)
	require.Regexp(t, "^[0-9a-f]{16}$", first.Current())
	s := first.seal(of("t", "n"), "value")
	for _, form := range forms {
		r, err := ParseKeys("# the first is the current one\r\n\n  " + form + "\r\nold:" + hex.EncodeToString(rawKey(2)) + "\n")
		require.NoError(t, err, form)
		require.Equal(t, first.Current(), r.Current())
		got, err := r.open(s)
		require.NoError(t, err)
		require.Equal(t, "value", got.Reveal())
	}
	require.Equal(t, "2026-a.b_c", ring(t, "2026-a.b_c", "k2").Current())
}

func TestBadKeysAreRefused(t *testing.T) {
	good := hex.EncodeToString(rawKey(1))
	rising := make([]byte, keySize)
	for i := range rising {
		rising[i] = byte(100 + 3*i)
	}
	for why, text := range map[string]string{
		"there is no key":          "\n# " + good + "\n",
		"32 bytes":                 "k:canary!",
		"this one is 31":           "k:" + hex.EncodeToString(rawKey(1)[:31]),
		"this one is 33":           "k:" + base64.StdEncoding.EncodeToString(append(rawKey(1), 7)),
		"this one is 16":           "k:" + hex.EncodeToString(rawKey(1)[:16]),
		"line 2: 32":               good + "\ncanary",
		"the key occurs twice":     "a:" + good + "\nb:" + good,
		"the key id occurs twice":  "a:" + good + "\na:" + hex.EncodeToString(rawKey(2)),
		"a key id has":             ":" + good,
		"line 1: a key id has":     "a b:" + good,
		"a key id has 1 to 64":     strings.Repeat("a", 65) + ":" + good,
		"a key is":                 "a:b:" + good,
		"the key is not random":    strings.Repeat("00", keySize),
		"not random; make one":     hex.EncodeToString([]byte("correct horse battery staple 1234")[:32]),
		"random":                   hex.EncodeToString(rising),
		"make one with: openssl r": strings.Repeat("0123456789abcdef", 4),
	} {
		_, err := ParseKeys(text)
		if strings.Contains(why, "32") && err != nil {
			why = strings.Replace(why, "line 2: 32", "line 2: a key is 32", 1)
		}
		require.ErrorContains(t, err, why, text)
		require.NotContains(t, err.Error(), "canary")
		require.NotContains(t, err.Error(), good[:8])
	}
}

// frozen is "sk-secret" of t and n under k1, as it was sealed when the form was made.
const frozen = "01b5fa39af2b6b6e94a682692b0b6ac1edc2c9db87d58f0ad986d70ebf5507f6265f6d3fc7f2"

func TestTheFormStays(t *testing.T) {
	sealed, err := hex.DecodeString(frozen)
	require.NoError(t, err)
	got, err := ring(t, "k1").open(ports.SealedSecret{Tenant: "t", Name: "n", KeyID: "k1", Sealed: sealed})
	require.NoError(t, err)
	require.Equal(t, "sk-secret", got.Reveal())
}

func FuzzOpen(f *testing.F) {
	r := ring(f, "k1")
	genuine, err := hex.DecodeString(frozen)
	require.NoError(f, err)
	f.Add("t", "n", "k1", genuine)
	f.Add("t", "n", "k1", []byte{version})
	f.Add("", "", "", []byte{})
	f.Fuzz(func(t *testing.T, tenant, name, key string, sealed []byte) {
		got, err := r.open(ports.SealedSecret{Tenant: tenant, Name: name, KeyID: key, Sealed: sealed})
		genuine := tenant == "t" && name == "n" && key == "k1" && bytes.Equal(sealed, genuine)
		if genuine != (err == nil) || genuine != got.Given() {
			t.Fatalf("opened: %v", err)
		}
	})
}

func FuzzParseKeys(f *testing.F) {
	f.Add("k:" + hex.EncodeToString(rawKey(1)))
	f.Add("#\r\n:\n::")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseKeys(text)
		if err != nil {
			return
		}
		got, err := r.open(r.seal(of("t", "n"), text))
		if err != nil || got.Reveal() != text {
			t.Fatal(fmt.Errorf("a ring that does not open what it seals: %w", err))
		}
	})
}
