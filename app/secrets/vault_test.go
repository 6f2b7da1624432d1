package secrets_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/memory"
	"github.com/keel-agent/keel/app/secrets"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

func newKey() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	return base64.StdEncoding.EncodeToString(key)
}

type realTime struct{}

func (realTime) Now() time.Time { return time.Now() }

func vault(t *testing.T, store ports.Secrets, lines ...string) *secrets.Vault {
	t.Helper()
	keys, err := secrets.ParseKeys(strings.Join(lines, "\n"))
	require.NoError(t, err)
	return secrets.New(store, keys, realTime{})
}

// meddled is a store where something happens just before a call.
type meddled struct {
	ports.Secrets
	beforeReseal func()
	afterGet     func()
	gets         int
}

func (m *meddled) Reseal(ctx context.Context, s, next ports.SealedSecret) (bool, error) {
	if m.beforeReseal != nil {
		m.beforeReseal()
	}
	return m.Secrets.Reseal(ctx, s, next)
}

func (m *meddled) Get(ctx context.Context, tenant, name string) (ports.SealedSecret, error) {
	m.gets++
	s, err := m.Secrets.Get(ctx, tenant, name)
	if m.afterGet != nil {
		m.afterGet()
	}
	return s, err
}

func reveal(t *testing.T, v *secrets.Vault, tenant, name string) string {
	t.Helper()
	value, err := v.Reveal(t.Context(), tenant, name)
	require.NoError(t, err)
	return value.Reveal()
}

func TestValuesComeBackToTheirTenantAlone(t *testing.T) {
	store := memory.New(memory.Config{}).Secrets()
	v := vault(t, store, "k1:"+newKey())
	ctx := t.Context()
	created, err := v.Put(ctx, "a", "openai.api_key", "sk-a")
	require.NoError(t, err)
	require.True(t, created)
	created, err = v.Put(ctx, "a", "openai.api_key", "sk-a2")
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, "sk-a2", reveal(t, v, "a", "openai.api_key"))
	_, err = v.Reveal(ctx, "b", "openai.api_key")
	require.ErrorIs(t, err, domain.ErrNotFound)

	key, err := v.Credential(ctx, "a", "openai")
	require.NoError(t, err)
	require.Equal(t, "sk-a2", key.Reveal())
	key, err = v.Credential(ctx, "b", "openai")
	require.NoError(t, err)
	require.False(t, key.Given())

	list, err := v.List(ctx, "a", "", 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "k1", list[0].KeyID)

	stolen, err := store.Get(ctx, "a", "openai.api_key")
	require.NoError(t, err)
	require.NotContains(t, string(stolen.Sealed), "sk-a2")
	stolen.Tenant = "b"
	_, err = store.Put(ctx, stolen)
	require.NoError(t, err)
	_, err = vault(t, store, "k1:"+newKey()).Credential(ctx, "b", "openai")
	require.ErrorIs(t, err, secrets.ErrBroken, "no key is no reason to spend the operator's")
}

func TestNamesAndValuesThatCannotBe(t *testing.T) {
	v := vault(t, memory.New(memory.Config{}).Secrets(), newKey())
	ctx := t.Context()
	for _, name := range []string{"", "a b", "a\x00", "\x00", "a/b", ".a", "-a", "é", "a\n", "a:b", strings.Repeat("a", 129), "../a"} {
		_, err := v.Put(ctx, "t", name, "canary")
		require.ErrorIs(t, err, domain.ErrInvalidRequest, name)
		require.ErrorIs(t, v.Delete(ctx, "t", name), domain.ErrInvalidRequest, name)
	}
	for _, name := range []string{"a", "A.b-c_9", strings.Repeat("a", 128), "0"} {
		_, err := v.Put(ctx, "t", name, strings.Repeat("x", secrets.MaxValue))
		require.NoError(t, err, name)
	}
	_, err := v.Put(ctx, "t", "a", "")
	require.ErrorIs(t, err, domain.ErrInvalidRequest)
	_, err = v.Put(ctx, "t", "a", strings.Repeat("x", secrets.MaxValue+1))
	require.ErrorIs(t, err, domain.ErrPayloadTooLarge)
	require.Len(t, reveal(t, v, "t", "a"), secrets.MaxValue)
}

// A value is used for a short time without asking again; a change in the same process holds at once, even one that comes
// between the reading of the old value and its keeping.
func TestWhatIsKeptInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New(memory.Config{}).Secrets()
		store := &meddled{Secrets: inner}
		key := "k1:" + newKey()
		v, other := vault(t, store, key), vault(t, inner, key)
		ctx := t.Context()
		put := func(v *secrets.Vault, value string) {
			_, err := v.Put(ctx, "t", "n", value)
			require.NoError(t, err)
		}
		for range 3 {
			_, err := v.Reveal(ctx, "t", "n")
			require.ErrorIs(t, err, domain.ErrNotFound)
		}
		require.Equal(t, 1, store.gets)
		put(v, "one")
		for range 3 {
			require.Equal(t, "one", reveal(t, v, "t", "n"))
		}
		require.Equal(t, 2, store.gets)
		put(other, "two")
		time.Sleep(secrets.Staleness - time.Millisecond)
		require.Equal(t, "one", reveal(t, v, "t", "n"))
		time.Sleep(time.Millisecond)
		require.Equal(t, "two", reveal(t, v, "t", "n"))

		time.Sleep(secrets.Staleness)
		store.afterGet = sync.OnceFunc(func() { put(v, "three") })
		require.Equal(t, "two", reveal(t, v, "t", "n"))
		require.Equal(t, "three", reveal(t, v, "t", "n"), "the old one was not kept")
		require.NoError(t, v.Delete(ctx, "t", "n"))
		_, err := v.Reveal(ctx, "t", "n")
		require.ErrorIs(t, err, domain.ErrNotFound)
	})
}

func TestMemoryIsBounded(t *testing.T) {
	store := &meddled{Secrets: memory.New(memory.Config{}).Secrets()}
	v := vault(t, store, newKey())
	for i := range 1000 {
		_, err := v.Credential(t.Context(), fmt.Sprint(i), "openai")
		require.NoError(t, err)
	}
	_, err := v.Credential(t.Context(), "0", "openai")
	require.NoError(t, err)
	require.Equal(t, 1001, store.gets, "the first was forgotten")
}

func rotate(t *testing.T, v *secrets.Vault) (secrets.Rotation, map[string]error, error) {
	t.Helper()
	failed := map[string]error{}
	var said secrets.Rotation
	n, err := v.Rotate(t.Context(), func(s ports.SealedSecret, err error) { failed[s.Tenant+"/"+s.Name] = err },
		func(n secrets.Rotation) { said = n })
	if err == nil {
		require.Equal(t, n, said)
	}
	return n, failed, err
}

func TestRotate(t *testing.T) {
	store := memory.New(memory.Config{}).Secrets()
	k1, k2, k3 := "k1:"+newKey(), "k2:"+newKey(), "k3:"+newKey()
	const n = 250
	for i := range n {
		_, err := vault(t, store, k1).Put(t.Context(), fmt.Sprintf("t%d", i%3), fmt.Sprintf("n%d", i), fmt.Sprintf("value %d", i))
		require.NoError(t, err)
	}
	_, err := vault(t, store, k3).Put(t.Context(), "t1", "lost", "x")
	require.NoError(t, err)
	both := vault(t, store, k2, k1)
	count, failed, err := rotate(t, both)
	require.NoError(t, err)
	require.Equal(t, secrets.Rotation{Resealed: n, Failed: 1}, count)
	require.Len(t, failed, 1)
	require.EqualError(t, failed["t1/lost"], `the secret "lost" is sealed under the key "k3", which this server does not have`)
	count, _, err = rotate(t, both)
	require.NoError(t, err)
	require.Equal(t, secrets.Rotation{Current: n, Failed: 1}, count, "again")
	alone := vault(t, store, k2)
	for i := range n {
		require.Equal(t, fmt.Sprintf("value %d", i), reveal(t, alone, fmt.Sprintf("t%d", i%3), fmt.Sprintf("n%d", i)))
	}
	_, err = alone.Reveal(t.Context(), "t1", "lost")
	var missing *secrets.KeyMissingError
	require.ErrorAs(t, err, &missing)
}

// What clients put or delete while a rotation goes on stays.
func TestRotateBesideWrites(t *testing.T) {
	k1, k2 := "k1:"+newKey(), "k2:"+newKey()
	for name, c := range map[string]struct {
		meddle func(v *secrets.Vault)
		want   string
		count  secrets.Rotation
	}{
		"put under the old key":     {func(v *secrets.Vault) { _, _ = v.Put(context.Background(), "t", "n", "new") }, "new", secrets.Rotation{Resealed: 1}},
		"deleted":                   {func(v *secrets.Vault) { _ = v.Delete(context.Background(), "t", "n") }, "", secrets.Rotation{}},
		"put under the current key": {nil, "new", secrets.Rotation{Current: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			inner := memory.New(memory.Config{}).Secrets()
			old := vault(t, inner, k1)
			_, err := old.Put(t.Context(), "t", "n", "old")
			require.NoError(t, err)
			if c.meddle == nil {
				old, c.meddle = vault(t, inner, k2), func(v *secrets.Vault) { _, _ = v.Put(context.Background(), "t", "n", "new") }
			}
			v := vault(t, &meddled{Secrets: inner, beforeReseal: sync.OnceFunc(func() { c.meddle(old) })}, k2, k1)
			count, failed, err := rotate(t, v)
			require.NoError(t, err)
			require.Empty(t, failed)
			require.Equal(t, c.count, count)
			if c.want == "" {
				_, err := v.Reveal(t.Context(), "t", "n")
				require.ErrorIs(t, err, domain.ErrNotFound)
				return
			}
			require.Equal(t, c.want, reveal(t, v, "t", "n"))
		})
	}
}

// flaky ends a rotation in its middle.
type flaky struct {
	ports.Secrets
	left int
}

var errFlaky = errors.New("interrupted")

func (f *flaky) Reseal(ctx context.Context, s, next ports.SealedSecret) (bool, error) {
	if f.left--; f.left < 0 {
		return false, errFlaky
	}
	return f.Secrets.Reseal(ctx, s, next)
}

func TestRotationGoesOnWhereItEnded(t *testing.T) {
	store := memory.New(memory.Config{}).Secrets()
	k1, k2 := "k1:"+newKey(), "k2:"+newKey()
	for i := range 10 {
		_, err := vault(t, store, k1).Put(t.Context(), "t", fmt.Sprint(i), "x")
		require.NoError(t, err)
	}
	count, _, err := rotate(t, vault(t, &flaky{store, 4}, k2, k1))
	require.ErrorIs(t, err, errFlaky)
	require.Equal(t, 4, count.Resealed)
	count, _, err = rotate(t, vault(t, store, k2, k1))
	require.NoError(t, err)
	require.Equal(t, secrets.Rotation{Resealed: 6, Current: 4}, count)
}
