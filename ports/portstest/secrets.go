package portstest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// TestSecrets checks a ports.Secrets.
func TestSecrets(t *testing.T, open Open) {
	suite{
		{"put and put again", secretPut},
		{"secrets are apart", secretsApart},
		{"delete", secretDelete},
		{"bytes come back as they are", secretBytes},
		{"list by pages", secretPages},
		{"all by pages", secretsOfAll},
		{"reseal", secretReseal},
		{"another process", secretElsewhere},
	}.run(t, open)
}

// sealed is a secret of that time.
func sealed(tenant, name, key, text string, second int) ports.SealedSecret {
	at := domaintest.Epoch.Add(time.Duration(second) * time.Second).UTC()
	return ports.SealedSecret{Tenant: tenant, Name: name, KeyID: key, Sealed: []byte(text), CreatedAt: at, UpdatedAt: at}
}

func (e *env) putSecret(s ports.SealedSecret) bool {
	e.Helper()
	created, err := e.Secrets.Put(e.ctx, s)
	require.NoError(e, err)
	return created
}

func (e *env) secret(tenant, name string) ports.SealedSecret {
	e.Helper()
	s, err := e.Secrets.Get(e.ctx, tenant, name)
	require.NoError(e, err)
	return s
}

func (e *env) noSecret(tenant, name string) {
	e.Helper()
	_, err := e.Secrets.Get(e.ctx, tenant, name)
	require.ErrorIs(e, err, domain.ErrNotFound)
}

func secretPut(e *env) {
	e.noSecret("t", "n")
	first := sealed("t", "n", "k1", "one", 1)
	require.True(e, e.putSecret(first))
	require.Equal(e, first, e.secret("t", "n"))
	second := sealed("t", "n", "k2", "two", 2)
	require.False(e, e.putSecret(second))
	second.CreatedAt = first.CreatedAt
	require.Equal(e, second, e.secret("t", "n"))
}

func secretsApart(e *env) {
	for _, key := range [][2]string{{"a", "n"}, {"a", "m"}, {"b", "n"}, {"a", "N"}} {
		require.True(e, e.putSecret(sealed(key[0], key[1], "k", strings.Join(key[:], " "), 1)))
	}
	require.Equal(e, "a n", string(e.secret("a", "n").Sealed))
	require.Equal(e, "a N", string(e.secret("a", "N").Sealed))
	require.Equal(e, "b n", string(e.secret("b", "n").Sealed))
	e.noSecret("b", "m")
	require.NoError(e, e.Secrets.Delete(e.ctx, "a", "n"))
	require.Equal(e, "b n", string(e.secret("b", "n").Sealed))
}

func secretDelete(e *env) {
	e.putSecret(sealed("t", "n", "k", "x", 1))
	for range 2 {
		require.NoError(e, e.Secrets.Delete(e.ctx, "t", "n"))
		e.noSecret("t", "n")
	}
	require.True(e, e.putSecret(sealed("t", "n", "k", "y", 9)))
	require.Equal(e, sealed("t", "n", "k", "y", 9), e.secret("t", "n"), "a new one with a time of its own")
}

func secretBytes(e *env) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, text := range []string{"x", string(every), strings.Repeat(string(every), 300)} {
		s := sealed("t ? $1", "n'", "k:é", text, 1)
		e.putSecret(s)
		require.Equal(e, s, e.secret(s.Tenant, s.Name))
	}
	given := []byte("mine")
	s := sealed("t", "n", "k", "", 1)
	s.Sealed = given
	e.putSecret(s)
	given[0] = 'X'
	got := e.secret("t", "n")
	require.Equal(e, "mine", string(got.Sealed))
	got.Sealed[0] = 'X'
	require.Equal(e, "mine", string(e.secret("t", "n").Sealed), "callers own what they get")
}

// secretPages: by bytes, so that every store lists in the same order, and without what is sealed.
func secretPages(e *env) {
	names := []string{"A", "a", "a-b", "a.b", "a_b", "ab", "b"}
	for i := range names {
		e.putSecret(sealed("t", names[len(names)-1-i], "k", "x", i))
	}
	e.putSecret(sealed("s", "other", "k", "x", 1))
	e.putSecret(sealed("u", "other", "k", "x", 1))
	want := []string{"A", "a", "a-b", "a.b", "a_b", "ab", "b"}
	for _, limit := range []int{1, 3, 7, 100} {
		var got []string
		for after := ""; ; {
			page, err := e.Secrets.List(e.ctx, "t", after, limit)
			require.NoError(e, err)
			require.LessOrEqual(e, len(page), limit)
			for _, s := range page {
				require.Nil(e, s.Sealed)
				require.Equal(e, "k", s.KeyID)
				require.False(e, s.CreatedAt.IsZero())
				got = append(got, s.Name)
				after = s.Name
			}
			if len(page) < limit {
				break
			}
		}
		require.Equal(e, want, got)
	}
	none, err := e.Secrets.List(e.ctx, "t", "", 0)
	require.NoError(e, err)
	require.Empty(e, none)
}

func secretsOfAll(e *env) {
	var want []ports.SealedSecret
	for _, tenant := range []string{"B", "a", "a-", "b"} {
		for _, name := range []string{"m", "n"} {
			want = append(want, sealed(tenant, name, "k", tenant+name, 1))
		}
	}
	for i := range want {
		e.putSecret(want[len(want)-1-i])
	}
	for _, limit := range []int{1, 3, 100} {
		var got []ports.SealedSecret
		for tenant, after := "", ""; ; {
			page, err := e.Secrets.All(e.ctx, tenant, after, limit)
			require.NoError(e, err)
			require.LessOrEqual(e, len(page), limit)
			got = append(got, page...)
			if len(page) < limit {
				break
			}
			tenant, after = page[limit-1].Tenant, page[limit-1].Name
		}
		require.Equal(e, want, got)
	}
}

func secretReseal(e *env) {
	reseal := func(s, next ports.SealedSecret) bool {
		done, err := e.Secrets.Reseal(e.ctx, s, next)
		require.NoError(e, err)
		return done
	}
	was := sealed("t", "n", "k1", "one", 1)
	next := sealed("t", "n", "k2", "uno", 7)
	require.False(e, reseal(was, next), "there is none")
	e.noSecret("t", "n")
	e.putSecret(was)
	e.putSecret(sealed("u", "n", "k1", "one", 1))
	require.False(e, reseal(sealed("t", "n", "k1", "other", 1), next))
	require.False(e, reseal(sealed("t", "n", "k0", "one", 1), next))
	require.Equal(e, was, e.secret("t", "n"))
	require.True(e, reseal(was, next))
	want := was
	want.KeyID, want.Sealed = "k2", []byte("uno")
	require.Equal(e, want, e.secret("t", "n"), "the times stay")
	require.False(e, reseal(was, next))
	require.Equal(e, sealed("u", "n", "k1", "one", 1), e.secret("u", "n"))
}

func secretElsewhere(e *env) {
	for i, h := range e.handles() {
		created, err := h.Secrets.Put(e.ctx, sealed("t", "n", "k", "x", i))
		require.NoError(e, err)
		require.Equal(e, i == 0, created)
	}
	for _, h := range e.handles() {
		s, err := h.Secrets.Get(e.ctx, "t", "n")
		require.NoError(e, err)
		require.Equal(e, e.secret("t", "n"), s)
	}
}
